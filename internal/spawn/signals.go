package spawn

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultSignals lets the processes that this one starts take SIGHUP and SIGINT as
// usual where this one was started to ignore them, as by nohup. A test of what such a
// process does with them calls it first. This process goes on ignoring them.
func DefaultSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

package spawn

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultSignals makes the processes that this one starts handle SIGHUP and SIGINT as usual, even if this one was
// started to ignore them, as under nohup. It is for tests of what such a process does with them. This process goes on
// ignoring them.
func DefaultSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

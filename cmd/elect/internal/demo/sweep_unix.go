//go:build unix

package demo

import (
	"os/exec"
	"os/signal"
	"syscall"
)

// detach gives the process a session of its own: neither Ctrl-C nor the end of the terminal affects it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// immune ignores signals that would end or stop this process before its work is done.
func immune() {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGTTOU, syscall.SIGPIPE)
}

//go:build unix

package hook

import (
	"os/exec"
	"syscall"
	"time"
)

// ownGroup starts the command in a group of its own, which is asked to end when
// its context does.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup kills what is left of the group, and buries it where this process has
// adopted it.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	group := cmd.Process.Pid
	for end := time.Now().Add(delay); time.Now().Before(end); {
		// The id is free for another group only when nobody is in it any more.
		if syscall.Kill(-group, syscall.SIGKILL) != nil {
			return
		}
		if _, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); err != nil {
			return // nobody there is our child: init has them, or nobody
		}
		<-time.After(time.Millisecond)
	}
}

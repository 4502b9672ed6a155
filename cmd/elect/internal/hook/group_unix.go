//go:build unix

package hook

import (
	"os/exec"
	"syscall"
	"time"
)

// ownGroup starts the command in a process group of its own, and asks the group to end when the command's context
// does.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup kills the rest of the group, and reaps those that this process has adopted.
func endGroup(cmd *exec.Cmd, patience time.Duration) {
	if cmd.Process == nil {
		return
	}
	group := cmd.Process.Pid
	for begun := time.Now(); time.Since(begun) < patience; {
		// Another group can get the id only when this one is empty.
		if syscall.Kill(-group, syscall.SIGKILL) != nil {
			return
		}
		if _, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); err != nil {
			return // it has no child of this process: init has them, or there are none
		}
		<-time.After(time.Millisecond)
	}
}

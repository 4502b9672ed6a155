//go:build unix && !linux

package fleet

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from them: it is ours to deal with.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

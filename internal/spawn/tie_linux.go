package spawn

import "syscall"

// tie keeps Ctrl-C from it, which is this process's to deal with, and has it die
// with this process.
func tie(attr *syscall.SysProcAttr) { attr.Setpgid, attr.Pdeathsig = true, syscall.SIGKILL }

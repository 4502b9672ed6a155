package spawn

import "syscall"

// tie keeps Ctrl-C, which this process handles, from a process, and makes it die with this process.
func tie(attr *syscall.SysProcAttr) { attr.Setpgid, attr.Pdeathsig = true, syscall.SIGKILL }

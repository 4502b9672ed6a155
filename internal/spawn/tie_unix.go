//go:build unix && !linux

package spawn

import "syscall"

// tie keeps Ctrl-C, which this process handles, from a process.
func tie(attr *syscall.SysProcAttr) { attr.Setpgid = true }

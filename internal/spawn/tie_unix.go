//go:build unix && !linux

package spawn

import "syscall"

// tie keeps Ctrl-C from it, which is this process's to deal with.
func tie(attr *syscall.SysProcAttr) { attr.Setpgid = true }

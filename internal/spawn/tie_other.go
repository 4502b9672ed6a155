//go:build !unix

package spawn

import "syscall"

func tie(*syscall.SysProcAttr) {}

//go:build unix

package theatre

import "syscall"

const (
	freeze = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

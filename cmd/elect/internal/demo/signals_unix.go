//go:build unix

package demo

import "syscall"

const (
	freeze = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

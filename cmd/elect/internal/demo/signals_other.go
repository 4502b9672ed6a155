//go:build !unix

package demo

import "syscall"

// Nothing can be paused here, and no keeper runs a command either.
const (
	freeze = syscall.Signal(0)
	resume = syscall.Signal(0)
)

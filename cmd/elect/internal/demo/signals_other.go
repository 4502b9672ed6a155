//go:build !unix

package demo

import "syscall"

// This system cannot pause processes, and no keeper runs a command here either.
const (
	freeze = syscall.Signal(0)
	resume = syscall.Signal(0)
)

//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
)

// executable returns why this user cannot execute the file.
func executable(path string) error {
	err := unix.Access(path, unix.X_OK)
	if err == nil {
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			err = syscall.EISDIR
		}
	}
	if err == nil {
		return nil
	}
	return &supervise.StartError{Path: path, Err: err}
}

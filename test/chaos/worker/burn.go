//go:build linux

package main

import (
	"os"
	"runtime"
	"syscall"
)

// burn spins until it is killed. It ends with its parent.
func burn(args []string) error {
	threads := 1
	if len(args) > 1 {
		return usagef("burn takes the number of threads, and has %q", args)
	}
	if len(args) == 1 {
		var err error
		if threads, err = number(args[0], 1); err != nil {
			return err
		}
	}
	parent := os.Getppid()
	runtime.GOMAXPROCS(threads)
	for range threads - 1 {
		go func() {
			for {
				spin()
			}
		}()
	}
	for syscall.Getppid() == parent {
		spin()
	}
	return nil
}

// spin takes about a tenth of a second.
func spin() {
	for range 1 << 28 {
	}
}

//go:build linux

package network

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// space is a network namespace that lasts as long as this process holds it open, or another process
// is in it. It has no name in a file system, so a killed run leaves nothing behind.
type space struct{ file *os.File }

// newSpace makes an empty namespace.
func newSpace() (space, error) {
	var s space
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a new network namespace: %w", err)
		}
		var err error
		s.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return s, err
}

// do calls f on a thread that is in the namespace. What f starts, and each socket
// that it opens, stays there.
func (s space) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// path is the path by which another process enters the namespace.
func (s space) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

func (s space) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// onThread calls f on a thread of its own, which ends with it: no other goroutine ever runs on a
// thread in a strange namespace.
func onThread(f func() error) error {
	err := errors.New("the thread ended")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		err = f()
	}()
	<-done
	return err
}

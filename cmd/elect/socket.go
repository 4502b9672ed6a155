package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// listenPrivately listens on a Unix socket to which only this user can connect, from the moment that it has its path.
// It replaces a socket on which no process listens. While it listens it holds a lock on the file PATH.lock, so that
// only one of several processes replaces such a socket. The file stays.
func listenPrivately(path string) (_ net.Listener, err error) {
	lock, err := tryLock(path + ".lock")
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another process listens on %s; want another path", path)
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there, and is no socket; want another path", path)
	default:
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("another process listens on %s; want another path", path)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".elect-") // for this user alone
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // another socket may have its path by then
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &private{l, lock}, nil
}

// maxSocket is the greatest length of the path of a Unix socket, in bytes, and temporary the longest path that a socket
// has in its directory before it gets its own.
const (
	maxSocket = len(syscall.RawSockaddrUnix{}.Path) - 1
	temporary = "/.elect-4294967295/s"
)

// tooLong reports whether a Unix socket cannot have this path.
func tooLong(path string) bool {
	return len(path) > maxSocket || len(filepath.Dir(path))+len(temporary) > maxSocket
}

// errLocked means that another process has the lock.
var errLocked = errors.New("another process has the lock")

// private is a listener on a Unix socket, with the lock of its path.
type private struct {
	net.Listener
	lock io.Closer
}

// Close implements [net.Listener].
func (p *private) Close() error { return errors.Join(p.Listener.Close(), p.lock.Close()) }

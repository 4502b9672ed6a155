//go:build unix && !linux

package link

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// writeSome writes as much as the kernel takes at once.
func writeSome(c syscall.RawConn, p []byte) (n int, err error) {
	gone := c.Write(func(fd uintptr) bool {
		for {
			n, err = unix.Write(int(fd), p)
			if !errors.Is(err, unix.EINTR) {
				return true // does not wait until more can be written
			}
		}
	})
	switch n = max(n, 0); {
	case gone != nil:
		return 0, gone
	case errors.Is(err, unix.EAGAIN):
		return n, nil
	}
	return n, err
}

// readSome reads what has arrived, or waits for something.
func (o *outlet) readSome(p []byte) (int, error) { return o.Conn.Read(p) }

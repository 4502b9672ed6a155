package link

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reading and writing here do not tell Go's scheduler. It would prepare for a call that may wait, and wake its monitor
// thread from its sleep, which in a process at rest costs as much as the letter. The sockets do not block, so these
// calls do not wait.

// readSome reads what has arrived, or waits for something.
func (o *outlet) readSome(p []byte) (n int, err error) {
	if o.socket == nil || len(p) == 0 {
		return o.Conn.Read(p)
	}
	gone := o.socket.Read(func(fd uintptr) bool {
		n, err = direct("read", unix.SYS_READ, fd, p)
		return err != unix.EAGAIN
	})
	switch {
	case gone != nil:
		if e, ok := errors.AsType[*net.OpError](gone); ok {
			e.Op = "read" // not "raw-read"
		}
		return 0, gone
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// writeSome writes as much as the kernel takes at once.
func writeSome(c syscall.RawConn, p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	gone := c.Write(func(fd uintptr) bool {
		n, err = direct("write", unix.SYS_WRITE, fd, p)
		return true // does not wait until more can be written
	})
	switch {
	case gone != nil:
		return 0, gone
	case err == unix.EAGAIN:
		return 0, nil
	}
	return n, err
}

func direct(call string, trap, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

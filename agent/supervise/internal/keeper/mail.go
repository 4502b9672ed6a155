//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketPair returns two connected stream sockets, over which open files can be
// passed. Neither is inherited by exec, and the first does not wait.
func SocketPair() (a, b int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	_ = unix.SetNonblock(fds[0], true)
	return fds[0], fds[1], nil
}

// maxFiles is how many files may come with one message. Linux takes 253.
const maxFiles = 250

// SendFiles writes data, and with its first byte the files. It waits until the
// socket has taken all of it, or for the file's deadline.
func SendFiles(to *os.File, data []byte, files []int) error {
	conn, err := to.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	sent := 0
	var werr error
	err = conn.Write(func(fd uintptr) bool {
		for {
			sent, werr = unix.SendmsgN(int(fd), data, rights, nil, 0)
			if werr != unix.EINTR {
				return werr != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return err
	case werr != nil:
		return os.NewSyscallError("sendmsg", werr)
	case sent == len(data):
		return nil
	case sent == 0:
		return io.ErrShortWrite
	}
	_, err = to.Write(data[sent:])
	return err
}

// HasGone reports whether the error of a write means that there is no reader.
func HasGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// mail is what came over a socket beside its bytes.
type mail struct {
	files []int // in order of arrival; not inherited by exec
	room  []byte
}

// receive reads once. Files that come with the bytes are kept in m.
func (m *mail) receive(fd int, into []byte) (n int, err error) {
	if m.room == nil {
		m.room = make([]byte, unix.CmsgSpace(4*maxFiles))
	}
	n, rights, _, _, err := unix.Recvmsg(fd, into, m.room, 0)
	if err != nil || rights == 0 {
		return n, err
	}
	messages, err := unix.ParseSocketControlMessage(m.room[:rights])
	if err != nil {
		return n, nil // the caller will notice the missing files
	}
	for i := range messages {
		files, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, file := range files {
			unix.CloseOnExec(file)
			m.files = append(m.files, file)
		}
	}
	return n, nil
}

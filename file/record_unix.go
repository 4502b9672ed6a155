//go:build linux || darwin || freebsd

package file

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/fence"
)

// writeRecord puts r in place. Nothing is synced: after a crash of the machine
// nobody leads, and the record is believed only while somebody does.
func (p *place) writeRecord(r *record) error {
	name := p.path + "/" + recordName
	b, err := r.encode()
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(p.dirfd(), recordNewName, 0); err != nil && err != unix.ENOENT {
		return explain("unlink", p.path+"/"+recordNewName, err)
	}
	fd, err := p.openat(recordNewName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return explain("create", p.path+"/"+recordNewName, err)
	}
	f := os.NewFile(uintptr(fd), name)
	p.access.apply(fd, name, p.log)
	_, err = f.Write(b)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return explain("write", p.path+"/"+recordNewName, err)
	}
	if err := unix.Renameat(p.dirfd(), recordNewName, p.dirfd(), recordName); err != nil {
		return explain("rename", name, err)
	}
	return nil
}

// readRecord reads the record in an open directory, and returns the file that
// it was in, open: as long as it is, no later record can have the same inode. An
// error is that of the file system, unexplained, or says that the content is
// wrong; the file may be open also then.
func readRecord(dirfd int) (*record, *os.File, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(dirfd, recordName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), recordName)
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, f, err
	}
	r, err := decodeRecord(b)
	return r, f, err
}

// lastToken returns the token of the record, or 0 if there is none that can be
// read: a crash of the machine may have left anything.
func (p *place) lastToken() fence.Token {
	r, f, err := readRecord(p.dirfd())
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return 0
	}
	return r.Token
}

//go:build darwin || freebsd

package file

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPath returns the path to a socket. It may have 103 bytes at most.
func socketPath(_ *os.File, path, name string) string { return path + "/" + name }

// shareSocket gives a socket in the election's directory its owner and mode, and
// follows no link.
func (p *place) shareSocket(name string) error {
	if p.access.uid >= 0 || p.access.gid >= 0 {
		if err := unix.Fchownat(p.dirfd(), name, p.access.uid, p.access.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return unix.Fchmodat(p.dirfd(), name, p.access.mode, unix.AT_SYMLINK_NOFOLLOW)
}

// allowed returns nil: the mode of the socket and of its directory has already
// decided.
func allowed(*net.UnixConn, bool) error { return nil }

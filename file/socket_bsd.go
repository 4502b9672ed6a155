//go:build darwin || freebsd

package file

import (
	"context"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	dirs "github.com/electd/elect/internal/place"
)

// socketPath returns the path to a socket. It may have 103 bytes at most.
func socketPath(_ *os.File, path, name string) string { return path + "/" + name }

// shareSocket gives a socket in the election's directory its owner and mode. It follows no link.
func (p *place) shareSocket(name string) error {
	if p.access.uid >= 0 || p.access.gid >= 0 {
		if err := unix.Fchownat(p.dirfd(), name, p.access.uid, p.access.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return unix.Fchmodat(p.dirfd(), name, p.access.mode, unix.AT_SYMLINK_NOFOLLOW)
}

// dial connects with the control socket in an open directory, unless it is a link. These systems connect by the path
// only, so dial follows a link that is put there meanwhile.
func dial(ctx context.Context, dir *dirs.Dir) (net.Conn, error) {
	info, err := dir.Lstat(controlName)
	if err != nil {
		return nil, err
	}
	if info.Mode&fs.ModeSocket == 0 {
		return nil, unix.ENOTSOCK
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", dir.Path()+"/"+controlName)
}

// allowed returns nil: the modes of the socket and of its directory have already decided.
func allowed(*net.UnixConn, bool) error { return nil }

package file

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	dirs "github.com/electd/elect/internal/place"
)

// socketPath returns a path to a socket in an open directory. The address of a socket has room for 107 bytes only, so
// the path goes through the descriptor, unless there is no /proc.
func socketPath(dir *os.File, path, name string) string {
	short := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	if unix.Access(short, unix.F_OK) != nil {
		return path + "/" + name
	}
	return short + "/" + name
}

// shareSocket gives a socket in the election's directory its owner and mode. It uses a descriptor: in a directory
// that other users may write, the name could be a link to something else by now.
func (p *place) shareSocket(name string) error {
	fd, st, err := openSocket(p.at, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return unix.EEXIST
	}
	if p.access.uid >= 0 || p.access.gid >= 0 {
		if err := unix.Fchownat(fd, "", p.access.uid, p.access.gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), p.access.mode) // fchmod refuses O_PATH
}

// openSocket opens a socket to inspect it, or to connect with it.
func openSocket(dir *dirs.Dir, name string) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Openat(int(dir.File().Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = unix.ENOTSOCK
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, st, err
}

// dial connects with the control socket in an open directory. It follows no link.
func dial(ctx context.Context, dir *dirs.Dir) (net.Conn, error) {
	fd, _, err := openSocket(dir, controlName)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if unix.Access(path, unix.F_OK) != nil { // there is no /proc
		path = dir.Path() + "/" + controlName
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// allowed returns nil if the caller may command the leader: root, the leader's own user, and, if the socket is shared
// with a group, every user whom its mode admits.
func allowed(conn *net.UnixConn, shared bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if peerErr != nil {
		return peerErr
	}
	if shared || peer.Uid == 0 || int(peer.Uid) == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("user %d may not; want root or user %d", peer.Uid, os.Geteuid())
}

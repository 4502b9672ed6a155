package file

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPath returns a path to a socket in an open directory. The address of a
// socket has room for 107 bytes only, so it goes through the descriptor, unless
// there is no /proc.
func socketPath(dir *os.File, path, name string) string {
	short := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	if unix.Access(short, unix.F_OK) != nil {
		return path + "/" + name
	}
	return short + "/" + name
}

// shareSocket gives a socket in the election's directory its owner and mode. It
// goes by a descriptor: in a directory that others may write, the name could be
// a link to something else by now.
func (p *place) shareSocket(name string) error {
	fd, err := p.openat(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return unix.EEXIST
	}
	if p.access.uid >= 0 || p.access.gid >= 0 {
		if err := unix.Fchownat(fd, "", p.access.uid, p.access.gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), p.access.mode) // fchmod refuses O_PATH
}

// allowed returns nil if the caller may command the leader: root, the leader's
// own user, and whoever else the mode of the socket let in, if that is meant for
// a group.
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

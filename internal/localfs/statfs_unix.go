//go:build linux || darwin || freebsd

package localfs

import "golang.org/x/sys/unix"

func statfs(path string) (st unix.Statfs_t, err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Statfs(path, &st)
	}
	return st, err
}

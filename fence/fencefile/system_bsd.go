//go:build darwin || freebsd

package fencefile

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystem refuses what is not local.
func fileSystem(path string) (warning string, err error) {
	var st unix.Statfs_t
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return "", fmt.Errorf("fencefile: statfs %s: %w", path, err)
	}
	if uint64(st.Flags)&uint64(unix.MNT_LOCAL) == 0 {
		return "", fmt.Errorf("fencefile: %s is on a network file system, whose locks other machines do not see; want a local one", path)
	}
	return "", nil
}

//go:build darwin || freebsd

package localfs

import "golang.org/x/sys/unix"

// Of tells what a path is on. Its errors are those of statfs(2), unchanged.
func Of(path string) (System, error) {
	st, err := statfs(path)
	if err != nil {
		return System{}, err
	}
	if uint64(st.Flags)&uint64(unix.MNT_LOCAL) == 0 {
		return System{Network, "a network file system"}, nil
	}
	return System{}, nil
}

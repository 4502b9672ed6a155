//go:build unix

package doctor

import "golang.org/x/sys/unix"

// files is how many files this process may have open.
func files() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return uint64(r.Cur) // its type differs between systems
}

// free is the disk space that this user may still use.
func free(dir string) *uint64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return nil
	}
	// The types differ between systems. Space that is reserved for root can make it negative.
	n := uint64(max(int64(s.Bavail), 0)) * uint64(s.Bsize)
	return &n
}

//go:build unix

package runner

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptors returns how many files this process may have open.
func descriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) // the fields are signed on some systems
}

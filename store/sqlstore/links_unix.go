//go:build unix

package sqlstore

import (
	"os"
	"syscall"
)

// links is how many names a file has, 0 if that is not known.
func links(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 0
}

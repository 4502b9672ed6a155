//go:build linux || darwin || freebsd

package peer

import (
	"io/fs"
	"syscall"
)

// ownerOf is the uid of a file's owner; -1 if the system does not say.
func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

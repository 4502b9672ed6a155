package file

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flockHolder returns the process that holds an flock on the file, from /proc/locks, or 0 if there is none or it is
// not visible. The process may have ended and left the lock to a child.
func flockHolder(id identity) int {
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(id.dev), unix.Minor(id.dev), id.ino)
	for line := range bytes.Lines(b) {
		var pid int
		var kind, mode, access, inode string
		// 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF A waiter has -> in place of the kind, and so does not match.
		if _, err := fmt.Sscan(string(line[bytes.IndexByte(line, ':')+1:]), &kind, &mode, &access, &pid, &inode); err != nil {
			continue
		}
		if kind == "FLOCK" && inode == want {
			return pid
		}
	}
	return 0
}

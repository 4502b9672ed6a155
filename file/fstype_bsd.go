//go:build darwin || freebsd

package file

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
)

// checkFileSystem refuses a file system that is not local.
func checkFileSystem(path string, _ *slog.Logger) error {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for err == unix.EINTR {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return explain("statfs", path, err)
	}
	if uint64(st.Flags)&uint64(unix.MNT_LOCAL) == 0 {
		return driver.Permanent(fmt.Errorf("%s is on a network file system, where a lock does not hold as it does on a local disk; want a directory on a local one", path))
	}
	return nil
}

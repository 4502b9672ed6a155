//go:build linux

package register

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// longest is how long a path may be that the kernel takes for a socket's address.
const longest = 100

// reach calls use with an address of the socket at path, which may be longer than
// an address: then it is reached through its directory.
func reach(path string, use func(address string) error) error {
	if len(path) <= longest {
		return use(path)
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(fd)
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)))
}

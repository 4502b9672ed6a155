package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Check returns nil if /proc shows this process and its descendants by the numbers that
// they have here: it is a procfs, and that of this pid namespace. With another
// namespace's, numbers of other processes would be taken for those of the descendants.
func Check() error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil {
		return fmt.Errorf("%v; want procfs mounted there: mount -t proc proc /proc", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("no procfs is mounted there; want one: mount -t proc proc /proc")
	}
	// The status lists the numbers of a process from the namespace that /proc was
	// mounted in to its own.
	var ids []byte
	for line := range bytes.Lines(ReadFile("/proc/self/status", make([]byte, 4096))) {
		if list, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			ids = bytes.TrimSpace(list)
		}
	}
	if me := strconv.Itoa(os.Getpid()); string(ids) != me {
		return fmt.Errorf("it is another namespace's: this process has the number %s, and there [%s]; want that of this one mounted: mount -t proc proc /proc", me, ids)
	}
	return nil
}

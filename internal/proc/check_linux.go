package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Check returns nil if /proc is a procfs of this pid namespace, so that it shows this
// process and its descendants under their own numbers. In the procfs of another
// namespace these numbers are those of other processes.
func Check() error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil {
		return fmt.Errorf("%v; want procfs mounted there: mount -t proc proc /proc", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("no procfs is mounted there; want one: mount -t proc proc /proc")
	}
	// The status lists the numbers of a process in each namespace, from the one that
	// /proc was mounted in down to the one of the process.
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

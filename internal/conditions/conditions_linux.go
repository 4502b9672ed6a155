package conditions

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// System names the kernel, its version, and the architecture.
func System() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "linux"
	}
	return fmt.Sprintf("%s %s %s", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
}

// Load is the load average of the machine over 1, 5 and 15 minutes; nil if the
// system does not tell.
func Load() *[3]float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	var l [3]float64
	if _, err := fmt.Sscan(string(text), &l[0], &l[1], &l[2]); err != nil {
		return nil
	}
	return &l
}

// CPUTime is the CPU time of a process, to the nanosecond, with that of its ended threads. It reads the process's CPU
// clock, whose id is made as clock_getcpuclockid(3) does. The figure of /proc/PID/stat counts hundredths of a second,
// and is 0 for an idle process.
func CPUTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Memory is a process's use of memory, in bytes.
type Memory struct {
	Resident uint64 // mapped and resident, with shared pages
	Share    uint64 // the same with shared pages divided among the processes that share them; 0 if that cannot be read
}

// MemoryOf reads a process's use of memory.
func MemoryOf(pid int) (Memory, error) {
	resident, err := kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	if err != nil {
		return Memory{}, fmt.Errorf("the memory of process %d: %w", pid, err)
	}
	share, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	if err != nil {
		share = 0 // kernels before 4.14, and processes of other users
	}
	return Memory{Resident: resident, Share: share}, nil
}

// kilobytes reads the line "key N kB" of a file, in bytes.
func kilobytes(path, key string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), key)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		return n << 10, err
	}
	return 0, errors.Join(fmt.Errorf("%s has no line %s", path, key), lines.Err())
}

// Filesystem names the kind of file system that a path is on, and reports whether it is on a disk.
func Filesystem(path string) (name string, disk bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "unknown", true
	}
	switch s.Type {
	case unix.TMPFS_MAGIC:
		return "tmpfs", false
	case unix.RAMFS_MAGIC:
		return "ramfs", false
	case unix.EXT4_SUPER_MAGIC:
		return "ext4", true
	case unix.XFS_SUPER_MAGIC:
		return "xfs", true
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs", true
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs", true
	}
	return fmt.Sprintf("type %#x", s.Type), true
}

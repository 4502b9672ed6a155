// Package proc reads /proc/PID/stat, whose fields proc_pid_stat(5) describes.
//
// A reading is of one instant: the process may have ended since, and its number may belong to another one, which has
// another Start. For a process that does not exist, or is not visible, ok is false. The functions keep no state and
// may be called by any number of goroutines.
package proc

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stat is the fields that are used.
type Stat struct {
	State   byte // R, S, D, T, t, Z or X
	Parent  int
	Group   int
	Session int
	Flags   int // PF_… of the kernel's include/linux/sched.h
	User    int // its CPU time in user mode, in clock ticks
	System  int // the same in the kernel
	Threads int // those that have not ended, and the first one as long as the process exists
	Start   int // in clock ticks since boot: with the pid it identifies a process for ever
}

// Dead reports whether all of its threads have ended. A process whose first thread has ended while others run also
// has state Z, and is alive.
func (s Stat) Dead() bool { return s.State == 'X' || s.State == 'Z' && s.Threads <= 1 }

// Read reads the state of a process.
func Read(pid int) (s Stat, ok bool) { return ReadAt(strconv.Itoa(pid)) }

// ReadAt reads it from a path in /proc: PID, self, or, for a thread, PID/task/TID.
func ReadAt(place string) (s Stat, ok bool) {
	var buf [1024]byte
	return Parse(ReadFile("/proc/"+place+"/stat", buf[:]))
}

// Parse reads a Stat from the text of a file stat.
func Parse(text []byte) (s Stat, ok bool) {
	at := bytes.LastIndexByte(text, ')') // the end of the name, which may contain anything
	fields := bytes.Fields(text[at+1:])
	if at < 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, false
	}
	s.State = fields[0][0]
	for _, f := range []struct {
		to *int
		at int
	}{{&s.Parent, 1}, {&s.Group, 2}, {&s.Session, 3}, {&s.Flags, 6}, {&s.User, 11}, {&s.System, 12}, {&s.Threads, 17}, {&s.Start, 19}} {
		v, err := strconv.ParseInt(string(fields[f.at]), 10, 64)
		if err != nil {
			return Stat{}, false
		}
		*f.to = int(v)
	}
	return s, true
}

// ReadFile reads a file of /proc, into buf if it is large enough; nil if the file does not exist.
func ReadFile(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	have := 0
	for {
		n, err := unix.Read(fd, buf[have:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n <= 0:
			return buf[:have]
		}
		if have += n; have == len(buf) {
			buf = append(make([]byte, 0, 4*len(buf)), buf...)
			buf = buf[:cap(buf)]
		}
	}
}

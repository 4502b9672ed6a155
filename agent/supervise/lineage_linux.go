package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// lineage finds and kills the descendants of a process, which must be this one:
// its children stay zombies until this goroutine reaps them, so their numbers
// stay theirs for as long. It is used by one goroutine.
type lineage struct {
	root   int
	spare  map[int]struct{}         // children that are left alone, with all below them
	denied func(pid int, err error) // told of those that may not be killed; may be nil
	scan   bool                     // use /proc/PID/stat even where the kernel has lists of children

	struck map[int]int // whom strike has found: children of root as alive or ended, others with their starts
	fresh  bool        // the last strike found somebody that it had not found so before

	tree map[int][]int // with scan: who is whose child
	buf  []byte
}

// What strike has found a child of root to be.
const (
	alive = 0
	ended = -1
)

// maxDepth bounds the open descriptors of a walk. What is deeper comes up as
// those above it die.
const maxDepth = 64

// strike kills everything below root once, as it finds it, and returns how
// many children root has that are not spared, zombies included. While it
// walks, others may fork, and who dies leaves its children to root, perhaps just
// after they were listed: so it is to be repeated until there is none left, and
// while fresh is true there may be somebody who was not killed yet.
func (l *lineage) strike() int {
	if l.struck == nil {
		l.struck = map[int]int{}
	}
	l.fresh = false
	l.look()
	count := 0
	for _, pid := range l.children(l.root) {
		if _, ok := l.spare[pid]; ok {
			continue
		}
		count++
		if zombie(pid) {
			l.found(pid, ended)
			continue
		}
		l.found(pid, alive)
		// First the killing: one that has the signal pending forks no more.
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && l.denied != nil {
			l.denied(pid, err)
		}
		l.strikeBelow(pid, -1, maxDepth)
	}
	return count
}

// found takes note of what somebody was found to be.
func (l *lineage) found(pid, as int) {
	if before, ok := l.struck[pid]; !ok || before != as {
		l.struck[pid] = as
		l.fresh = true
	}
}

// reaped forgets the children of root: their numbers may be given to others now.
func (l *lineage) reaped() { clear(l.struck) }

// zombie reports whether a child of this process has ended and is not reaped,
// without a look at /proc.
func zombie(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == nil && info.Signo != 0
}

// strikeBelow kills what is below parent. A number deeper down can become
// another process's between the listing and the killing, if we are frozen
// meanwhile; a pidfd cannot. parentFD is the parent's, or -1 for a child of
// root, which cannot be reaped behind our back.
func (l *lineage) strikeBelow(parent, parentFD, depth int) {
	if depth == 0 {
		return
	}
	for _, pid := range l.children(parent) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended, or there are no pidfds: its turn comes when it is a child of root
		}
		if s, ok := readStat(pid); ok && (s.parent == l.root || s.parent == parent && unreaped(parentFD)) {
			l.found(pid, s.start)
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH && l.denied != nil {
				l.denied(pid, err)
			}
			l.strikeBelow(pid, fd, depth-1)
		}
		unix.Close(fd)
	}
}

func unreaped(pidfd int) bool {
	return pidfd < 0 || unix.PidfdSendSignal(pidfd, 0, nil, 0) != unix.ESRCH
}

// each calls f for everything below root that is not spared, once.
func (l *lineage) each(f func(pid int)) {
	l.look()
	var walk func(parent, depth int)
	walk = func(parent, depth int) {
		for _, pid := range l.children(parent) {
			if _, ok := l.spare[pid]; ok && parent == l.root {
				continue
			}
			f(pid)
			if depth > 0 {
				walk(pid, depth-1)
			}
		}
	}
	walk(l.root, 4*maxDepth)
}

// look prepares a walk.
func (l *lineage) look() {
	if l.buf == nil {
		l.buf = make([]byte, 4096)
		root := strconv.Itoa(l.root)
		if unix.Access("/proc/"+root+"/task/"+root+"/children", unix.R_OK) != nil {
			l.scan = true // built without CONFIG_PROC_CHILDREN
		}
	}
	if !l.scan {
		return
	}
	l.tree = map[int][]int{}
	for _, pid := range l.numbers("/proc") {
		if s, ok := readStat(pid); ok {
			l.tree[s.parent] = append(l.tree[s.parent], pid)
		}
	}
}

// children lists a process's children. A child belongs to the thread that
// forked it, and an orphan to any thread of its new parent.
func (l *lineage) children(pid int) []int {
	if l.scan {
		return l.tree[pid]
	}
	var pids []int
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	for _, tid := range l.numbers(dir) {
		pids = appendNumbers(pids, readAll(dir+"/"+strconv.Itoa(tid)+"/children", l.buf))
	}
	return pids
}

// numbers lists the entries of a directory that are numbers.
func (l *lineage) numbers(dir string) []int {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var list []int
	var names []string
	for {
		n, err := unix.ReadDirent(fd, l.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return list
		}
		_, _, names = unix.ParseDirent(l.buf[:n], -1, names[:0])
		for _, name := range names {
			if v, err := strconv.Atoi(name); err == nil {
				list = append(list, v)
			}
		}
	}
}

// readAll reads a file of /proc, into buf if it is large enough; nil if it is
// not there.
func readAll(path string, buf []byte) []byte {
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

func appendNumbers(dst []int, text []byte) []int {
	for field := range bytes.FieldsSeq(text) {
		if v, err := strconv.Atoi(string(field)); err == nil {
			dst = append(dst, v)
		}
	}
	return dst
}

// stat is what we use of /proc/PID/stat.
type stat struct {
	state   byte
	parent  int
	group   int
	session int
	start   int // in clock ticks since boot: with the pid, names a process for ever
}

// dead reports whether it is a zombie or about to be. A process whose first
// thread has ended while others run looks the same; it is found again as long
// as it is there.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, bool) {
	var buf [1024]byte
	text := readAll("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	return parseStat(text)
}

// parseStat reads "PID (NAME) STATE PPID PGRP SESSION …"; the name may hold
// spaces and parentheses.
func parseStat(text []byte) (stat, bool) {
	at := bytes.LastIndexByte(text, ')')
	if at < 0 || at+2 >= len(text) {
		return stat{}, false
	}
	fields := bytes.Fields(text[at+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, false
	}
	s := stat{state: fields[0][0]}
	for _, f := range []struct {
		to *int
		at int
	}{{&s.parent, 1}, {&s.group, 2}, {&s.session, 3}, {&s.start, 19}} {
		v, err := strconv.Atoi(string(fields[f.at]))
		if err != nil {
			return stat{}, false
		}
		*f.to = v
	}
	return s, true
}

package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// lineage finds and kills the descendants of a process, which must be this one:
// its children stay zombies until this goroutine reaps them, so their numbers
// stay theirs for as long. It is used by one goroutine.
type lineage struct {
	root   int
	spare  map[int]struct{}         // children that are left alone, with all below them
	denied func(pid int, err error) // told of those that may not be killed; may be nil
	scan   bool                     // use /proc/PID/stat even where the kernel has lists of children

	struck map[int]int      // whom strike has found: children of root as alive or ended, others with their starts
	walked map[int]struct{} // children of root that were killed, and whose children were found after that
	fresh  bool             // the last strike found somebody that it had not found so before

	tree map[int][]int // with scan: who is whose child
	buf  []byte
	stat unix.Stat_t
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
		l.struck, l.walked = map[int]int{}, map[int]struct{}{}
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
		// First the killing: one that has the signal pending forks no more. So
		// its children need to be looked at only once.
		err := unix.Kill(pid, unix.SIGKILL)
		if err != nil && l.denied != nil {
			l.denied(pid, err)
		}
		if _, ok := l.walked[pid]; !ok {
			if all := l.strikeBelow(pid, -1, maxDepth); all && err == nil {
				l.walked[pid] = struct{}{}
			}
		}
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

// reaped forgets children of root: their numbers may be given to others now.
func (l *lineage) reaped(pids []int) {
	clear(l.struck)
	for _, pid := range pids {
		delete(l.walked, pid)
	}
}

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
// root, which cannot be reaped behind our back. It reports whether it has killed all
// that it was to find.
func (l *lineage) strikeBelow(parent, parentFD, depth int) (all bool) {
	if depth == 0 {
		return false
	}
	all = true
	for _, pid := range l.children(parent) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			all = all && err == unix.ESRCH
			continue // it has ended, or there are no pidfds: its turn comes when it is a child of root
		}
		if s, ok := proc.Read(pid); ok && (s.Parent == l.root || s.Parent == parent && unreaped(parentFD)) {
			l.found(pid, s.Start)
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				all = false
				if l.denied != nil {
					l.denied(pid, err)
				}
			}
			all = l.strikeBelow(pid, fd, depth-1) && all
		} else {
			all = false // another's child now, or not to be seen
		}
		unix.Close(fd)
	}
	return all
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
		if s, ok := proc.Read(pid); ok {
			l.tree[s.Parent] = append(l.tree[s.Parent], pid)
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
	// Most have one thread, and there are many of them: the directory's number of
	// links is two and that of its threads.
	if unix.Stat(dir, &l.stat) == nil && l.stat.Nlink == 3 {
		return appendNumbers(nil, proc.ReadFile(dir+"/"+strconv.Itoa(pid)+"/children", l.buf))
	}
	for _, tid := range l.numbers(dir) {
		pids = appendNumbers(pids, proc.ReadFile(dir+"/"+strconv.Itoa(tid)+"/children", l.buf))
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

func appendNumbers(dst []int, text []byte) []int {
	for field := range bytes.FieldsSeq(text) {
		if v, err := strconv.Atoi(string(field)); err == nil {
			dst = append(dst, v)
		}
	}
	return dst
}

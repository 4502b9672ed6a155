package keeper

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// Lineage finds and kills the descendants of this process. Its children stay zombies until this goroutine reaps them,
// so their numbers stay theirs until then. One goroutine uses it.
type Lineage struct {
	Root   int
	Spare  map[int]struct{}         // children that are left alone, with all below them
	Denied func(pid int, err error) // called for processes that may not be killed; may be nil
	Scan   bool                     // use /proc/PID/stat even if the kernel has lists of children

	// the processes that strike has found: children of root as alive or ended, others with their starts
	struck map[int]int
	Walked map[int]struct{} // children of root that were killed, and whose children were found after that
	Fresh  bool             // the last strike found a process that it had not found in that state before

	tree map[int][]int // with scan: the children of each process
	Buf  []byte
	stat unix.Stat_t
}

// The state in which strike has found a child of root.
const (
	alive = 0
	ended = -1
)

// maxDepth bounds the open descriptors of a walk. Deeper processes come up when those above them die.
const maxDepth = 64

// Strike kills everything below root once, as it finds it, and returns how many children root has that are not
// spared, zombies included. While it walks, processes may fork, and a process that dies leaves its children to root,
// perhaps just after root's children were listed. So it must be repeated until there is none left. While fresh is
// true a process may not have been killed yet.
func (l *Lineage) Strike() int {
	if l.struck == nil {
		l.struck, l.Walked = map[int]int{}, map[int]struct{}{}
	}
	l.Fresh = false
	l.Look()
	count := 0
	for _, pid := range l.Children(l.Root) {
		if _, ok := l.Spare[pid]; ok {
			continue
		}
		count++
		if zombie(pid) {
			l.found(pid, ended)
			continue
		}
		l.found(pid, alive)
		// First kill: a process with the pending signal does not fork any more. So its children need to be listed only
		// once.
		err := unix.Kill(pid, unix.SIGKILL)
		if err != nil && l.Denied != nil {
			l.Denied(pid, err)
		}
		if _, ok := l.Walked[pid]; !ok {
			if all := l.strikeBelow(pid, -1, maxDepth); all && err == nil {
				l.Walked[pid] = struct{}{}
			}
		}
	}
	return count
}

// found records the state of a process.
func (l *Lineage) found(pid, as int) {
	if before, ok := l.struck[pid]; !ok || before != as {
		l.struck[pid] = as
		l.Fresh = true
	}
}

// Reaped forgets children of root: their numbers may now belong to other processes.
func (l *Lineage) Reaped(pids []int) {
	clear(l.struck)
	for _, pid := range pids {
		delete(l.Walked, pid)
	}
}

// zombie reports whether a child of this process has ended and is not reaped, without reading /proc.
func zombie(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == nil && info.Signo != 0
}

// strikeBelow kills what is below parent. If this process is frozen between the listing and the killing, a number
// deeper down can become another process's; a pidfd cannot. parentFD is the parent's, or -1 for a child of root,
// which only this goroutine reaps. It reports whether it has killed all that it had to find.
func (l *Lineage) strikeBelow(parent, parentFD, depth int) (all bool) {
	if depth == 0 {
		return false
	}
	all = true
	for _, pid := range l.Children(parent) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			all = all && err == unix.ESRCH
			continue // it has ended, or there are no pidfds: it is killed later, as a child of root
		}
		if s, ok := proc.Read(pid); ok && (s.Parent == l.Root || s.Parent == parent && Unreaped(parentFD)) {
			l.found(pid, s.Start)
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				all = false
				if l.Denied != nil {
					l.Denied(pid, err)
				}
			}
			all = l.strikeBelow(pid, fd, depth-1) && all
		} else {
			all = false // now a child of another process, or invisible
		}
		unix.Close(fd)
	}
	return all
}

func Unreaped(pidfd int) bool {
	return pidfd < 0 || unix.PidfdSendSignal(pidfd, 0, nil, 0) != unix.ESRCH
}

// Each calls f for everything below root that is not spared, once.
func (l *Lineage) Each(f func(pid int)) {
	l.Look()
	var walk func(parent, depth int)
	walk = func(parent, depth int) {
		for _, pid := range l.Children(parent) {
			if _, ok := l.Spare[pid]; ok && parent == l.Root {
				continue
			}
			f(pid)
			if depth > 0 {
				walk(pid, depth-1)
			}
		}
	}
	walk(l.Root, 4*maxDepth)
}

// Look prepares a walk.
func (l *Lineage) Look() {
	if l.Buf == nil {
		l.Buf = make([]byte, 4096)
		root := strconv.Itoa(l.Root)
		if unix.Access("/proc/"+root+"/task/"+root+"/children", unix.R_OK) != nil {
			l.Scan = true // a kernel without CONFIG_PROC_CHILDREN
		}
	}
	if !l.Scan {
		return
	}
	l.tree = map[int][]int{}
	for _, pid := range l.Numbers("/proc") {
		if s, ok := proc.Read(pid); ok {
			l.tree[s.Parent] = append(l.tree[s.Parent], pid)
		}
	}
}

// Children lists a process's children. A child belongs to the thread that forked it, and an orphan to any thread of
// its new parent.
func (l *Lineage) Children(pid int) []int {
	if l.Scan {
		return l.tree[pid]
	}
	var pids []int
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	// A shortcut for the many processes with one thread: the directory's number of links is two and that of the threads.
	if unix.Stat(dir, &l.stat) == nil && l.stat.Nlink == 3 {
		return appendNumbers(nil, proc.ReadFile(dir+"/"+strconv.Itoa(pid)+"/children", l.Buf))
	}
	for _, tid := range l.Numbers(dir) {
		pids = appendNumbers(pids, proc.ReadFile(dir+"/"+strconv.Itoa(tid)+"/children", l.Buf))
	}
	return pids
}

// Numbers lists the entries of a directory that are numbers.
func (l *Lineage) Numbers(dir string) []int {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var list []int
	var names []string
	for {
		n, err := unix.ReadDirent(fd, l.Buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return list
		}
		_, _, names = unix.ParseDirent(l.Buf[:n], -1, names[:0])
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

package supervise

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/proc"
)

// AdoptOrphans makes this process the parent of its orphaned descendants, as PR_SET_CHILD_SUBREAPER does, so that it
// can kill a whole family whose keeper was killed. It is for a process that starts only this package's children, such
// as a command: when a keeper dies, all other children are killed with its family. Children that exist at the first
// call, such as those of a shell that became this process by exec, are left alone with all below them, but not the
// orphans that they leave later. It cannot be undone. If /proc does not show this process's descendants the error is
// an [ErrProc], and no command can be started.
func AdoptOrphans() error {
	if err := proc.Check(); err != nil {
		return errProc(err)
	}
	keepers.Lock()
	defer keepers.Unlock()
	if keepers.innocents == nil {
		keepers.innocents = map[int]int{}
		l := keeper.Lineage{Root: os.Getpid()}
		l.Look()
		for _, pid := range l.Children(l.Root) {
			if _, ours := keepers.pids[pid]; !ours {
				keepers.innocents[pid] = startOf(pid)
			}
		}
	}
	if err := keeper.BecomeReaper(); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	return nil
}

// adopting asks the kernel whether AdoptOrphans was called.
func adopting() bool {
	var on int32
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&on)), 0)
	return errno == 0 && on != 0
}

// selfPath is this program's file, even if it has been replaced since.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// awaitChange returns when the child has ended or was stopped, and does not reap it.
func awaitChange(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// openSelf opens a pidfd of this process; -1 if the kernel has none.
func openSelf() int {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return -1
	}
	return fd
}

// tracker identifies the command without its keeper, if orphans are not adopted.
type tracker struct {
	pidfd int // the command's, plus 1; 0 is none
}

// track prepares for the keeper's death.
func (f *Family) track() {
	if adopting() {
		return
	}
	fd, err := unix.PidfdOpen(f.pid, 0)
	if err != nil {
		return
	}
	if s, ok := proc.Read(f.pid); ok && s.Parent == f.keeper {
		f.tracker.pidfd = fd + 1 // it was the command when fd was opened, so fd is the command's
		return
	}
	unix.Close(fd)
}

func (t *tracker) close() {
	if t.pidfd != 0 {
		unix.Close(t.pidfd - 1)
		t.pidfd = 0
	}
}

// killOrphans kills the family of a keeper that died, and returns when it is dead. It reports whether the kernel
// proves that: without adopted orphans it only means that no process was found.
func (f *Family) killOrphans() (proven bool) {
	if adopting() {
		f.killAdopted()
		return true
	}
	if f.pid != 0 {
		f.killGroup()
	}
	return false
}

// The shortest and the longest pause between two checks of dying processes, whose end is not notified.
const shortestLook, longestLook = 100 * time.Microsecond, 10 * time.Millisecond

// killAdopted kills all children of this process but keepers.
func (f *Family) killAdopted() {
	l := keeper.Lineage{Root: os.Getpid(), Denied: func(pid int, err error) {
		f.log.Warn("cannot kill a process of the family: waiting for its end", "pid", pid, "error", err)
	}}
	wait := shortestLook
	// While the lists are read, an orphan moves from the list of one thread to that of another once at most: so two
	// empty readings prove that there is none.
	for empty := 0; empty < 2; {
		keepers.Lock()
		l.Spare = keepers.spared()
		left := l.Strike()
		for n := 0; l.Fresh && n < keeper.Rounds; n++ { // all are killed before one is reaped: see keeper.sweep
			left = l.Strike()
		}
		var reaped []int
		for _, pid := range l.Children(l.Root) {
			if _, ok := l.Spare[pid]; ok {
				continue
			}
			var status syscall.WaitStatus
			got, err := syscall.Wait4(pid, &status, syscall.WNOHANG|syscall.WALL, nil)
			if got != pid || err != nil {
				continue
			}
			reaped = append(reaped, pid)
			if pid == f.pid {
				f.setStatus(status)
			}
		}
		l.Reaped(reaped)
		keepers.Unlock()
		switch {
		case left == 0:
			empty++
		case len(reaped) > 0:
			empty, wait = 0, shortestLook
		default:
			empty = 0
			clear(l.Walked) // see keeper.sweep
			time.Sleep(wait)
			wait = min(2*wait, longestLook)
		}
	}
}

// killGroup kills the command's process group and the processes below its members, as far as they can still be found.
func (f *Family) killGroup() {
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	l := keeper.Lineage{Root: os.Getpid(), Buf: make([]byte, 4096)}
	known := map[int]int{} // pid to start: the processes that were found to be of the family
	for wait := shortestLook; ; wait = min(2*wait, longestLook) {
		var found []int
		starts := map[int]int{}
		below := map[int][]int{}
		for _, pid := range l.Numbers("/proc") {
			s, ok := proc.Read(pid)
			if !ok || s.Dead() {
				continue
			}
			starts[pid] = s.Start
			below[s.Parent] = append(below[s.Parent], pid)
			// The group's number stays its own while it has members. Other processes in this session belong to its shell or
			// program.
			if start, ok := known[pid]; ok && start == s.Start || s.Group == f.pid && s.Session == session {
				found = append(found, pid)
			}
		}
		if len(found) == 0 {
			return
		}
		if fd := f.tracker.pidfd - 1; fd >= 0 && keeper.Unreaped(fd) {
			_ = unix.Kill(-f.pid, unix.SIGKILL)
		}
		for len(found) > 0 {
			pid := found[len(found)-1]
			found = append(found[:len(found)-1], below[pid]...)
			delete(below, pid)
			known[pid] = starts[pid]
			killExactly(pid, starts[pid])
		}
		time.Sleep(wait)
	}
}

// killExactly kills the process that has the pid and that start, and no other that has got the number since.
func killExactly(pid, start int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if s, ok := proc.Read(pid); ok && s.Start == start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// startOf is when a process started, in clock ticks since boot. With the pid it identifies a process for ever. It is
// 0 if there is no such process.
func startOf(pid int) int {
	s, _ := proc.Read(pid)
	return s.Start
}

// defaultAction lets a signal do what it does to a process that does not handle it. For some of them Go's runtime
// prints the stacks of the goroutines.
func defaultAction(sig syscall.Signal) bool {
	var action [64]byte // the kernel's struct sigaction is smaller everywhere, and 0 is the default
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	return errno == 0 || sig == syscall.SIGKILL
}

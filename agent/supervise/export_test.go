//go:build linux

package supervise

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/clock"
)

// Held is what a test has a family live under, instead of a mandate.
type Held struct {
	Hold, Keep []*os.File
	Testament  []byte
	Entrust    func(gone func() bool, ended <-chan struct{})
	Lease      func() (left time.Duration, bounded bool)
	Token      func() uint64
}

// With is the command under that.
func (c Command) With(h Held) Command {
	c.under = mandate{hold: h.Hold, keep: h.Keep, testament: h.Testament, entrust: h.Entrust, lease: h.Lease, token: h.Token}
	return c
}

// Strike kills all descendants of this process, with or without the kernel's
// lists of children.
func Strike(scan bool) error {
	if err := keeper.BecomeReaper(); err != nil {
		return err
	}
	l := keeper.Lineage{Root: os.Getpid(), Scan: scan}
	for l.Strike() > 0 {
		_, _ = syscall.Wait4(-1, nil, syscall.WALL, nil)
	}
	return nil
}

// Descendants lists those of root.
func Descendants(root int, scan bool) (pids []int) {
	l := keeper.Lineage{Root: root, Scan: scan}
	l.Each(func(pid int) { pids = append(pids, pid) })
	return pids
}

// KillKeeper kills the keeper alone.
func (f *Family) KillKeeper() { f.signalKeeper(syscall.SIGKILL) }

// Deadline is deadline.
func (f *Family) Deadline(at clock.Boot) { f.deadline(at) }

// PID is the spare keeper's, or 0.
func (s *Spare) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return 0
	}
	return s.f.keeper
}

// Waits reports whether the spare has become ready, and waits.
func (s *Spare) Waits() bool {
	wait, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", s.PID()))
	call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", s.PID()))
	return strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_RECVMSG)) || strings.Contains(string(wait), "unix_stream")
}

// Keeper is the keeper's pid.
func (f *Family) Keeper() int { return f.keeper }

// DefaultAction is defaultAction.
func DefaultAction(sig syscall.Signal) bool { return defaultAction(sig) }

// LeaseEnds tells the keeper when the lease ends.
func (f *Family) LeaseEnds(at clock.Boot) { f.deadline(at.Add(-keeper.KillTime)) }

// Ended is when the keeper has seen that all are dead.
func (f *Family) Ended() clock.Boot {
	<-f.done
	return f.ended
}

// Cgroup is the path of the family's cgroup, or "".
func (f *Family) Cgroup() string {
	if g, ok := f.bounds.(*keeper.Cgroup); ok {
		return g.Path
	}
	return ""
}

// OwnCgroup is ownCgroup.
func OwnCgroup() (root, own string, err error) { return ownCgroup() }

// FindCgroup is findCgroup.
func FindCgroup(cgroup, mountinfo string) (root, own string, err error) {
	return findCgroup(cgroup, mountinfo)
}

// Guarded is a cgroup with a network guard and without a family.
type Guarded struct {
	g    *keeper.Cgroup
	once sync.Once
}

// NewGuarded makes one, which is closed, in that of outer if that is not nil.
func NewGuarded(c *Containment, outer *Guarded) (*Guarded, error) {
	inner := *c
	if inner.network = true; outer != nil {
		inner.parent = outer.g.Path
	}
	g, err := inner.make(context.Background())
	return &Guarded{g: g}, err
}

// Path is the cgroup's.
func (g *Guarded) Path() string { return g.g.Path }

// Enter has a command start inside.
func (g *Guarded) Enter(attr *syscall.SysProcAttr) { g.g.Enter(attr) }

// Until sets the deadline.
func (g *Guarded) Until(at clock.Boot) { g.g.Prove(int64(at)) }

// Remove kills all inside, and removes it.
func (g *Guarded) Remove() {
	g.once.Do(func() {
		g.g.Kill()
		keeper.AwaitEmpty(g.g, -1)
		g.g.Remove()
	})
}

// NextProgram advances id to that of the next BPF program of this machine.
func NextProgram(id *uint32) error {
	attr := [4]uint32{*id}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, 11, uintptr(unsafe.Pointer(&attr)), 16); errno != 0 {
		return errno
	}
	*id = attr[1]
	return nil
}

// Attached lists the ids of the BPF programs that see what leaves a cgroup.
func Attached(path string) ([]uint32, error) {
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	ids := make([]uint32, 8)
	attr := struct {
		target, kind, query, attach uint32
		ids                         unsafe.Pointer
		count                       uint32
	}{target: uint32(fd), kind: unix.BPF_CGROUP_INET_EGRESS, ids: unsafe.Pointer(&ids[0]), count: uint32(len(ids))}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, 16, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)); errno != 0 {
		return nil, errno
	}
	return ids[:attr.count], nil
}

// Detach detaches the BPF programs that see what leaves a cgroup.
func Detach(path string) error {
	ids, err := Attached(path)
	if err != nil {
		return err
	}
	dir, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for _, id := range ids {
		program, _, errno := unix.Syscall(unix.SYS_BPF, 13, uintptr(unsafe.Pointer(&[3]uint32{id})), 12) // BPF_PROG_GET_FD_BY_ID
		if errno != 0 {
			return errno
		}
		attr := [3]uint32{uint32(dir), uint32(program), unix.BPF_CGROUP_INET_EGRESS}
		_, _, errno = unix.Syscall(unix.SYS_BPF, 9, uintptr(unsafe.Pointer(&attr)), 12)
		unix.Close(int(program))
		if errno != 0 {
			return errno
		}
	}
	return nil
}

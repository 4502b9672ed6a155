//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds are what holds a family together beside its lineage: a level of containment as
// keeper and parent use it. A member may leave its bounds if it has the rights, so that
// its lineage is swept as well at each level.
type Bounds interface {
	// Enter makes the command start inside.
	Enter(*syscall.SysProcAttr)
	// Kill kills all processes inside at once, and those that they fork meanwhile. It
	// reports false if it cannot.
	Kill() bool
	// empty reports whether the kernel knows of no process inside that is alive.
	empty() bool
	// changes is a descriptor that has POLLPRI when empty may have changed; -1 is none.
	changes() int
	// Prove lets packets from inside leave until an instant of the shared clock, if the network is guarded; 0 stops
	// them. It is for the parent.
	Prove(until int64)
	// Mute closes the network guard for good.
	Mute()
	// Gate is a descriptor for the keeper that keeps the network guard open; -1 is none.
	Gate() int
	// Members lists the processes inside that are alive.
	Members() []int
	// Remove removes the bounds when they are empty, and closes their descriptors.
	Remove()
}

// Unbound are the bounds of Sweep: there are none.
type Unbound struct{}

func (Unbound) Enter(*syscall.SysProcAttr) {}
func (Unbound) Kill() bool                 { return false }
func (Unbound) empty() bool                { return true }
func (Unbound) changes() int               { return -1 }
func (Unbound) Prove(int64)                {}
func (Unbound) Mute()                      {}
func (Unbound) Gate() int                  { return -1 }
func (Unbound) Members() []int             { return nil }
func (Unbound) Remove()                    {}

// How long a supervisor waits until the killed processes inside the bounds are dead, and
// for each of them if they are many. They need the processors for that. Then it looks for
// others that have left the bounds.
const (
	insidePatience = 50 * time.Millisecond
	eachPatience   = 100 * time.Microsecond
)

// AwaitInside waits, within these times, until no process is alive inside.
func AwaitInside(b Bounds) {
	if !AwaitEmpty(b, insidePatience) {
		AwaitEmpty(b, time.Duration(len(b.Members()))*eachPatience)
	}
}

// KillUntilEmpty waits until no process is alive inside. It kills again and again, because another process may enter
// after the first time.
func KillUntilEmpty(b Bounds) {
	for !AwaitEmpty(b, insidePatience) {
		b.Kill()
	}
}

// AwaitEmpty waits until no process is alive inside, at most for d.
func AwaitEmpty(b Bounds, d time.Duration) bool {
	for end := time.Now().Add(d); !b.empty(); {
		if time.Now().After(end) {
			return false
		}
		fds := [...]unix.PollFd{{Fd: int32(b.changes()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(fds[:], 20) // EINTR: look again
	}
	return true
}

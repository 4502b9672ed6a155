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
	// enter has the command start inside.
	Enter(*syscall.SysProcAttr)
	// kill kills all inside at once, and those that they fork meanwhile. It reports
	// false if nobody can be killed like that.
	Kill() bool
	// empty reports whether nobody inside is alive, as the kernel says.
	empty() bool
	// changes is a descriptor that has POLLPRI when empty may have changed; -1 is none.
	changes() int
	// prove lets packets of those inside leave until an instant of the shared clock, if the network is guarded; 0 is
	// no more. It is for the parent.
	Prove(until int64)
	// mute lets no packet leave any more, for good.
	Mute()
	// gate is a descriptor for the keeper that keeps the network guard open; -1 is none.
	Gate() int
	// members lists the processes inside that are alive.
	Members() []int
	// remove removes the bounds, when nobody is inside, and closes what is open of them.
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

// How long a supervisor waits for those to die who are inside the bounds and were killed,
// and for each of them if they are many. They need the processors for that. Then it looks
// for others who have left the bounds.
const (
	insidePatience = 50 * time.Millisecond
	eachPatience   = 100 * time.Microsecond
)

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

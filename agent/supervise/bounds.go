//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bounds are what holds a family together beside its lineage: a level of containment as
// keeper and parent use it. A member may leave its bounds if it has the rights, so that
// its lineage is swept as well at each level.
type bounds interface {
	// enter has the command start inside.
	enter(*syscall.SysProcAttr)
	// kill kills all inside at once, and those that they fork meanwhile. It reports
	// false if nobody can be killed like that.
	kill() bool
	// empty reports whether nobody inside is alive, as the kernel says.
	empty() bool
	// changes is a descriptor that has POLLPRI when empty may have changed; -1 is none.
	changes() int
	// prove lets packets of those inside leave until an instant of the shared clock, if the network is guarded; 0 is
	// no more. It is for the parent.
	prove(until int64)
	// mute lets no packet leave any more, for good.
	mute()
	// gate is a descriptor for the keeper that keeps the network guard open; -1 is none.
	gate() int
	// members lists the processes inside that are alive.
	members() []int
	// remove removes the bounds, when nobody is inside, and closes what is open of them.
	remove()
}

// unbound are the bounds of Sweep: there are none.
type unbound struct{}

func (unbound) enter(*syscall.SysProcAttr) {}
func (unbound) kill() bool                 { return false }
func (unbound) empty() bool                { return true }
func (unbound) changes() int               { return -1 }
func (unbound) prove(int64)                {}
func (unbound) mute()                      {}
func (unbound) gate() int                  { return -1 }
func (unbound) members() []int             { return nil }
func (unbound) remove()                    {}

// How long a supervisor waits for those to die who are inside the bounds and were killed,
// and for each of them if they are many. They need the processors for that. Then it looks
// for others who have left the bounds.
const (
	insidePatience = 50 * time.Millisecond
	eachPatience   = 100 * time.Microsecond
)

func awaitInside(b bounds) {
	if !awaitEmpty(b, insidePatience) {
		awaitEmpty(b, time.Duration(len(b.members()))*eachPatience)
	}
}

// killUntilEmpty waits until no process is alive inside. It kills again and again, because another process may enter
// after the first time.
func killUntilEmpty(b bounds) {
	for !awaitEmpty(b, insidePatience) {
		b.kill()
	}
}

// awaitEmpty waits until no process is alive inside, at most for d.
func awaitEmpty(b bounds, d time.Duration) bool {
	for end := time.Now().Add(d); !b.empty(); {
		if time.Now().After(end) {
			return false
		}
		fds := [...]unix.PollFd{{Fd: int32(b.changes()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(fds[:], 20) // EINTR: look again
	}
	return true
}

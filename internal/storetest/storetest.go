// Package storetest has what internal/protocol says of the operations on a store, as tables of
// cases: [Register], [Queue] and [ZooKeeper]. The simulator's stores, the fakes of store/internal and the real
// stores run them, so that the simulated stores behave as the real ones. Faults that only the
// simulator can make, such as a request that arrives late, are not in them. A [Way] gives the fakes
// the faults of driver/electtest. It is for tests only.
package storetest

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Participants is the number of participants. They are numbered from 0, and their ids are n1, n2 and n3.
const Participants = 3

// Store is a new store, as the participants of one election see it.
type Store struct {
	// Ask sends a request, and returns a function that waits for its first answer. A participant may
	// have several on their way.
	Ask func(by int, a protocol.Ask) (answer func() protocol.Answer)
	// Lose has the store carry out the participant's next request, without an answer.
	Lose func(by int)
	// Delete deletes from outside the record of a register, or the entry in a queue.
	Delete func(e protocol.Entry)
	// Wait lets some time pass, less than a second.
	Wait func()
}

// Case is one case of a table.
type Case struct {
	Name string
	run  func(s *script)
}

// Run runs the case at an unused store.
func (c *Case) Run(t *testing.T, s Store) {
	t.Helper()
	c.run(&script{T: t, s: s, contents: map[uint64]int{}})
}

// script is a case that runs.
type script struct {
	*testing.T
	s        Store
	asked    bool
	store    string         // the incarnation that all answers of a register show
	contents map[uint64]int // of a register, by version
}

// do asks, and fails the test unless the answer has that status.
func (s *script) do(by int, want protocol.Status, a protocol.Ask) protocol.Answer {
	s.Helper()
	return s.got(by, want, &a, s.s.Ask(by, a)())
}

func (s *script) got(by int, want protocol.Status, a *protocol.Ask, got protocol.Answer) protocol.Answer {
	s.Helper()
	if got.Status != want {
		s.Fatalf("n%d: %v is answered by %q; want %q", by+1, a.Op, got.Status, want)
	}
	return got
}

const (
	done     = protocol.StatusDone
	conflict = protocol.StatusConflict
	unknown  = protocol.StatusUnknown
	gone     = protocol.StatusGone
	event    = protocol.StatusEvent
)

// patience is for what takes seconds at most.
const patience = time.Minute

// until waits until a condition holds.
func (s *script) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !holds(); s.s.Wait() {
		if time.Now().After(deadline) {
			s.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

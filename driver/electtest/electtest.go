// Package electtest is the conformance suite of back ends. A back end's test is
// one call of [Run]:
//
//	func TestConformance(t *testing.T) {
//		electtest.Run(t, electtest.Config{Open: func(t testing.TB, name, id string) electtest.Participant { … }})
//	}
//
// The suite holds a back end to the contract of package driver: at most one
// proven holder, tokens that rise, losses told in time, candidacies that leave
// nothing behind, observers that see every final state. What needs a fault is
// tried with the faults that a [Participant] can be put through, and a back end
// must name those that it cannot, with the reason, in [Config.Cannot]: a fault
// that is neither there nor excused fails the suite.
//
// [Spawn] runs a participant in a process of its own, which can then be stopped
// and killed for real.
//
// Whatever the suite starts has ended when Run returns. It needs nothing but
// the testing package, and runs under synctest if the back end's waiting is all
// on timers and channels.
package electtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// Participant is one elector and what can be done to it. The functions may be
// nil, see [Config.Cannot].
type Participant struct {
	driver.Elector

	Freeze func(on bool)         // stop its process, or let it go on
	Cut    func(on bool)         // cut it off from store and peers, or heal the cut
	Crash  func()                // end its process without a word
	Lose   func(n int)           // have its next n requests carried out and the answers lost
	Delay  func(d time.Duration) // have its next answer come late
}

// Fault names a function of [Participant] or [Config] that a back end may be
// unable to offer.
type Fault string

// The faults.
const (
	Freeze   Fault = "freeze"
	Cut      Fault = "cut"
	Crash    Fault = "crash"
	Lose     Fault = "lose"
	Delay    Fault = "delay"
	Restart  Fault = "restart"
	Recreate Fault = "recreate"
)

// Config describes a back end to the suite.
type Config struct {
	// Open opens a participant in the election called name; it is closed by
	// the suite. Required.
	Open func(t testing.TB, name, id string) Participant

	// Restart restarts the store with what it had saved. Recreate makes it anew
	// or restores it from nothing, as an operator would: with a raised era.
	// Both act on the store of the last Open.
	Restart, Recreate func(t testing.TB)

	// Cannot says for each fault that the back end cannot be put through why
	// there is no such thing.
	Cannot map[Fault]string

	// Bubble runs each case in a testing/synctest bubble. Open is called inside
	// it and must make everything anew.
	Bubble bool

	// Patience bounds what should happen at once. A takeover may take this long
	// beyond Limits().Takeover. 0 means 20 s in a bubble, where no machine is slow,
	// and otherwise a minute, because other work may leave processes waiting.
	Patience time.Duration

	// Candidates is how many participants compete in the exclusion case; 0
	// means 20.
	Candidates int
}

// Run runs the suite as subtests of t.
func Run(t *testing.T, cfg Config) {
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
		if cfg.Bubble {
			cfg.Patience = 20 * time.Second
		}
	}
	if cfg.Candidates == 0 {
		cfg.Candidates = 20
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := func(t *testing.T) {
				s := &suite{T: t, cfg: cfg}
				s.Cleanup(s.join) // after the participants are closed
				c.run(s)
			}
			if cfg.Bubble {
				synctest.Test(t, body)
				return
			}
			body(t)
		})
	}
}

var cases = []struct {
	name string
	run  func(*suite)
}{
	{"win", win},
	{"abilities", abilities},
	{"exclusion", exclusion},
	{"again", again},
	{"handover", handover},
	{"reopen", reopen},
	{"restart", restart},
	{"recreate", recreate},
	{"frozen holder", frozenHolder},
	{"cut-off holder", cutOffHolder},
	{"unanswered holder", unansweredHolder},
	{"anchored", anchored},
	{"crashed holder", crashedHolder},
	{"lost answers", lostAnswers},
	{"lapsed while waiting", lapsedWhileWaiting},
	{"cancel", cancelWaiting},
	{"late release", lateRelease},
	{"close campaigning", closeCampaigning},
	{"close leading", closeLeading},
	{"observe", observe},
	{"observe ends", observeEnds},
	{"observe trouble", observeTrouble},
	{"metadata", metadata},
	{"changed metadata", changedMetadata},
	{"confirm", confirm},
	{"recall", recall},
	{"transfer", transfer},
	{"appoint", appoint},
	{"priority", priority},
}

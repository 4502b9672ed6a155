// Package electtest is the conformance suite of back ends. A back end's test is
// one call of [Run]:
//
//	func TestConformance(t *testing.T) {
//		electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { … }, electtest.Config{})
//	}
//
// The suite checks that a back end keeps the contract of package driver: at most one proven holder,
// tokens that rise, losses reported in time, candidacies that leave nothing behind, observers that
// see every final state. Cases that need a fault use the faults of a [Participant]. A back end must
// name the faults that it cannot have, with the reason, in [Config.Cannot]: a fault that is neither
// offered nor excused fails the suite.
//
// [Spawn] runs a participant in a process of its own, which can then be stopped
// and killed for real.
//
// Everything that the suite starts has ended when Run returns. It needs only the testing package,
// and runs under synctest if the back end waits on timers and channels only.
package electtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// Participant is one elector with its faults. The functions may be nil; see [Config.Cannot].
type Participant struct {
	driver.Elector

	Freeze func(on bool)         // stop its process, or resume it
	Cut    func(on bool)         // cut it off from store and peers, or end the cut
	Crash  func()                // kill its process
	Lose   func(n int)           // its next n requests are carried out and their answers lost
	Delay  func(d time.Duration) // its next answer comes late
}

// Fault names a function of [Participant] or [Config] that a back end may not have.
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

// Config describes a back end to the suite. The zero value has no faults and excuses none.
type Config struct {
	// Restart restarts the store with its saved state. Recreate makes it anew or restores it from
	// nothing, as an operator would: with a raised era. Both act on the store that was opened last.
	Restart, Recreate func(t testing.TB)

	// Cannot gives, for each fault that the back end cannot have, the reason.
	Cannot map[Fault]string

	// Bubble runs each case in a testing/synctest bubble. The participants are opened inside it.
	Bubble bool

	// Patience is the limit for what should happen at once. A takeover may take this long beyond
	// Limits().Takeover. 0 means 20 s in a bubble, where no computer is slow, and otherwise a
	// minute, because other processes may take the processors.
	Patience time.Duration

	// Candidates is the number of participants in the exclusion case; 0 means 20.
	Candidates int
}

// Run runs the suite as subtests of t. open opens the participant id in the election called name, in a store of its
// own for each t, and fails t if it cannot; the suite closes the participant.
func Run(t *testing.T, open func(t testing.TB, name, id string) Participant, cfg Config) {
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
				s := &suite{T: t, open: open, cfg: cfg}
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
	{"resign", resign},
	{"transfer", transfer},
	{"transfer from outside", appoint},
	{"priority", priority},
}

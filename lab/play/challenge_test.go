package play

import (
	"testing"
	"time"

	"github.com/electd/elect/lab/sim"
)

// Each challenge is lost by doing nothing, and can be won.
func TestChallenges(t *testing.T) {
	won := map[string][]sim.Op{
		"two-believe": {{At: sim.Time(5 * time.Second), Kind: sim.OpPause, Node: sim.Leader, For: 3 * time.Second}},
		"two-prove": {
			{At: sim.Time(5 * time.Second), Kind: sim.OpIsolate, Node: sim.Leader, For: 5 * time.Second},
			{At: sim.Time(5 * time.Second), Kind: sim.OpRate, Node: sim.Leader, Value: -900_000},
		},
		"no-split": {
			{Kind: sim.OpWithdraw, Node: "n2", For: time.Second}, {Kind: sim.OpWithdraw, Node: "n3", For: time.Second},
			{Kind: sim.OpWithdraw, Node: "n4", For: time.Second}, {Kind: sim.OpWithdraw, Node: "n5", For: time.Second},
		},
		"stale-write": {{At: sim.Time(5 * time.Second), Kind: sim.OpDelay, Node: "n5", Peer: "n4", By: 1500 * time.Millisecond, For: 10 * time.Second}},
		"quick":       {{At: sim.Time(5 * time.Second), Kind: sim.OpTransfer, Node: sim.Leader}},
	}
	for _, c := range challenges() {
		if v := call[*Verdict](t, New(), "challenge", challengeParams{Name: c.Name}); v.Won {
			t.Errorf("%s is won by doing nothing: %s", c.Name, v.Says)
		}
		if v := call[*Verdict](t, New(), "challenge", challengeParams{Name: c.Name, Hands: won[c.Name]}); !v.Won {
			t.Errorf("%s is not won: %s", c.Name, v.Says)
		}
	}
	if v := call[*Verdict](t, New(), "challenge", challengeParams{Name: "no-split", Hands: won["quick"]}); v.Won {
		t.Errorf("won by what is not allowed: %s", v.Says)
	}
}

package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/protocol"
)

// bend has a node's clock run at another rate from now on. It does not jump.
func (n *node) bend(ppm int64) {
	shows := n.local(n.w.now)
	n.rate = ppm
	n.zero += shows.Sub(n.local(n.w.now))
	n.arm()
}

// together runs n voters until the first of them leads.
func together(t *testing.T, n int, change func(*Config)) *world {
	t.Helper()
	w := newWorld(1)
	for i := range n {
		cfg := Config{Self: voter(i), Membership: members(n)}
		change(&cfg)
		w.add(cfg)
	}
	for _, n := range w.nodes {
		n.start()
	}
	w.run(3 * time.Second)
	if w.leader() != w.nodes[0] {
		t.Fatal("n1 does not lead")
	}
	return w
}

// bent is a story of clocks that break the assumption: by how many parts per
// million each node's clock is fast, from a second after the first node led on.
type bent struct {
	name  string
	rates []int64
	down  int // this node's process dies in the same moment, from 1; 0 is none
	// leads says who may lead from a while later on; nil is nobody.
	leads []int
}

func bentStories() []bent {
	const limit = 105_264 // (1 + ρ) / (1 − ρ) is 1.105263…
	return []bent{
		{"all-alike", []int64{300_000, 300_000, 300_000}, 0, []int{1}},
		{"at-the-limit", []int64{-50_000, 50_000, 50_000}, 0, []int{1}},
		{"a-fast-voter", []int64{0, 0, 400_000}, 0, []int{1}},
		{"a-slow-voter", []int64{0, -400_000, 0}, 0, []int{1}},
		{"just-beyond", []int64{0, limit + 2_000, limit + 2_000}, 0, []int{2, 3}},
		{"a-slow-leader", []int64{-300_000, 0, 0}, 0, []int{2, 3}},
		{"a-fast-leader", []int64{300_000, 0, 0}, 0, []int{2, 3}},
		{"a-stopped-leader", []int64{-990_000, 0, 0}, 0, []int{2, 3}},
		{"a-fast-voter-is-needed", []int64{0, 400_000, 0}, 3, nil},
		{"two-that-differ", []int64{0, 400_000}, 0, nil},
		{"two-of-five", []int64{0, 500_000, 0, -500_000, 0}, 0, []int{1}},
		{"three-of-five", []int64{0, 500_000, 500_000, -500_000, 0}, 0, nil},
		{"all-differ", []int64{0, 300_000, -300_000}, 0, nil},
	}
}

// play tells a story and returns what is wrong with it: who leads though its clock
// agrees with no quorum's, or that nobody leads though somebody could.
func (b bent) play(t *testing.T, change func(*Config)) string {
	w := together(t, len(b.rates), change)
	w.run(4 * time.Second)
	for i, ppm := range b.rates {
		w.nodes[i].bend(ppm)
	}
	if b.down > 0 {
		w.nodes[b.down-1].crash(true)
	}
	w.beyond = true // two leases may overlap until they are found apart
	promise := w.nodes[0].m.cfg.Promise
	from := w.now + paceWindow*promise
	until := w.now + 8*asidePromises*promise
	led, wrong := false, ""
	w.after = func(n *node, _ *protocol.Input, _ *protocol.Effects) {
		lead := w.leader()
		if lead == nil || w.now < from {
			return
		}
		may := false
		for _, i := range b.leads {
			may = may || lead.i == i-1
		}
		if led = led || may; !may && b.leads != nil && wrong == "" {
			wrong = fmt.Sprintf("%v after the clocks have parted %s leads", w.now-from+paceWindow*promise, lead.name())
		}
	}
	leading := time.Duration(0)
	for w.now < until {
		w.run(w.now + 50*time.Millisecond)
		if w.leader() != nil && w.now > from {
			leading += 50 * time.Millisecond
		}
	}
	switch share := float64(leading) / float64(until-from); {
	case wrong != "":
		return wrong
	case b.leads != nil && (!led || share < 0.7):
		return fmt.Sprintf("somebody leads %.0f %% of the time", 100*share)
	case b.leads == nil && share > 0.4:
		return fmt.Sprintf("no quorum's clocks agree, and somebody leads %.0f %% of the time", 100*share)
	}
	return ""
}

// TestBentClocks has clocks break the assumption: who has no quorum of clocks
// like its own gives up, and does not come back.
func TestBentClocks(t *testing.T) {
	for _, b := range bentStories() {
		t.Run(b.name, func(t *testing.T) {
			if wrong := b.play(t, func(*Config) {}); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// TestUnclocked shows that the stories bite: without the comparison of clocks,
// some of them go wrong.
func TestUnclocked(t *testing.T) {
	for _, b := range bentStories() {
		wrong := b.play(t, func(c *Config) { c.Unclocked = true })
		t.Log(b.name, wrong)
	}
}

// TestNobodyIsFoundApart runs random worlds whose clocks keep to the assumption
// at its very edge, and whose messages are late, doubled and lost: no clock is
// ever found apart.
func TestNobodyIsFoundApart(t *testing.T) {
	samples := 0
	for seed := uint64(1); seed <= race.Or[uint64](200, 30); seed++ {
		w := chaos(seed, nil)
		if w.jumps {
			continue
		}
		w.after = func(n *node, in *protocol.Input, _ *protocol.Effects) {
			if in.Kind != protocol.Receive || in.Message.Type != HeartbeatAck {
				return
			}
			for i := range n.m.known {
				if p := &n.m.known[i].pace; p.incarnation != 0 {
					samples++
					if p.apartUntil != 0 {
						t.Fatalf("seed %d, %v: %s finds the clock of %s apart: %+v", seed, w.now, n.name(), n.m.ballot.Membership.Voters[i], p)
					}
				}
			}
		}
		w.run(chaosTime)
	}
	t.Logf("%d samples", samples)
	if samples == 0 {
		t.Error("nothing was compared")
	}
}

package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// bend makes a node's clock run at another rate from now on. The clock does not jump.
func (n *node) bend(ppm int64) {
	shows := n.local(n.w.Now)
	n.rate = ppm
	n.zero += shows.Sub(n.local(n.w.Now))
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

// bent is a scenario with clocks that break the assumption: by how many parts per million each
// node's clock is fast, from a second after the first node led on.
type bent struct {
	name  string
	rates []int64
	down  int           // this node's process dies; counted from 1, 0 is none
	after time.Duration // that much later
	// leads lists the nodes that may lead from a while later on; nil is none.
	leads []int
}

func bentStories() []bent {
	const limit = 105_264 // (1 + ρ) / (1 − ρ) is 1.105263…
	return []bent{
		{name: "all-alike", rates: []int64{300_000, 300_000, 300_000}, leads: []int{1}},
		{name: "at-the-limit", rates: []int64{-50_000, 50_000, 50_000}, leads: []int{1}},
		{name: "a-fast-voter", rates: []int64{0, 0, 400_000}, leads: []int{1}},
		{name: "a-slow-voter", rates: []int64{0, -400_000, 0}, leads: []int{1}},
		{name: "just-beyond", rates: []int64{0, limit + 2_000, limit + 2_000}, leads: []int{2, 3}},
		{name: "a-slow-leader", rates: []int64{-300_000, 0, 0}, leads: []int{2, 3}},
		{name: "a-fast-leader", rates: []int64{300_000, 0, 0}, leads: []int{2, 3}},
		{name: "a-stopped-leader", rates: []int64{-990_000, 0, 0}, leads: []int{2, 3}},
		{name: "a-fast-voter-is-needed", rates: []int64{0, 400_000, 0}, down: 3},
		{name: "a-fast-voter-is-next", rates: []int64{0, 400_000, 0, 0, 0}, down: 1, after: 20 * time.Second, leads: []int{1, 3, 4, 5}},
		{name: "two-that-differ", rates: []int64{0, 400_000}},
		{name: "two-of-five", rates: []int64{0, 500_000, 0, -500_000, 0}, leads: []int{1}},
		{name: "three-of-five", rates: []int64{0, 500_000, 500_000, -500_000, 0}},
		{name: "all-differ", rates: []int64{0, 300_000, -300_000}},
	}
}

// play runs a scenario and returns what is wrong: a node leads although its clock agrees with no
// quorum's, or no node leads although one could.
func (b bent) play(t *testing.T, change func(*Config)) string {
	w := together(t, len(b.rates), change)
	w.run(4 * time.Second)
	for i, ppm := range b.rates {
		w.nodes[i].bend(ppm)
	}
	if b.down > 0 {
		w.In(b.after, func() { w.nodes[b.down-1].crash(true) })
	}
	w.beyond = true // two leases may overlap until they are found apart
	promise := w.nodes[0].m.cfg.Promise
	from := w.Now + paceWindow*promise
	until := w.Now + 8*asidePromises*promise
	wrong := ""
	w.after = func(n *node, _ *protocol.Input, _ *protocol.Effects) {
		if n.view.Elected && w.Now >= from && b.leads != nil && !slices.Contains(b.leads, n.i+1) && wrong == "" {
			wrong = fmt.Sprintf("%v after the clocks have parted %s is elected", w.Now-from+paceWindow*promise, n.name())
		}
	}
	leading := time.Duration(0)
	for w.Now < until {
		w.run(w.Now + 50*time.Millisecond)
		if w.leader() != nil && w.Now > from {
			leading += 50 * time.Millisecond
		}
	}
	switch share := float64(leading) / float64(until-from); {
	case wrong != "":
		return wrong
	case b.leads != nil && share < 0.7:
		return fmt.Sprintf("somebody leads %.0f %% of the time", 100*share)
	case b.leads == nil && share > 0.4:
		return fmt.Sprintf("no quorum's clocks agree, and somebody leads %.0f %% of the time", 100*share)
	}
	return ""
}

// TestBentClocks makes clocks break the assumption: a leader without a quorum of clocks like its
// own gives up, and does not lead again.
func TestBentClocks(t *testing.T) {
	for _, b := range bentStories() {
		t.Run(b.name, func(t *testing.T) {
			if wrong := b.play(t, func(*Config) {}); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// TestHalfHeard has a leader with a fast clock reach only one of two voters, and that one does not
// campaign. The leader finds it apart and knows nothing of the other. It stands aside, so that the
// other one comes to lead.
func TestHalfHeard(t *testing.T) {
	for phase := range 12 {
		if wrong := halfHeard(t, phase, func(*Config) {}); wrong != "" {
			t.Errorf("phase %d: %s", phase, wrong)
		}
	}
}

func halfHeard(t *testing.T, phase int, change func(*Config)) string {
	w := together(t, 3, change)
	w.nodes[1].do(protocol.Command{Verb: protocol.Withdraw})
	w.run(w.Now + time.Duration(phase)*370*time.Millisecond)
	w.cut[0][2], w.cut[2][0] = true, true
	w.nodes[0].bend(1_100_000)
	w.beyond = true
	w.run(w.Now + 4*asidePromises*time.Second)
	led := 0
	for range 100 {
		w.run(w.Now + 100*time.Millisecond)
		if lead := w.leader(); lead == w.nodes[2] {
			led++
		}
	}
	if led < 90 {
		return fmt.Sprintf("n3 leads in %d of 100 moments; it and n2 are a majority with good clocks", led)
	}
	return ""
}

// TestSlowToTell delays the answers of one voter to a leader whose clock is slow: the leader finds
// the other voter apart first, and must not make that one stand aside.
func TestSlowToTell(t *testing.T) {
	w := together(t, 3, func(*Config) {})
	w.slow[2] = 300 * time.Millisecond
	w.run(w.Now + 2*time.Second)
	w.nodes[0].bend(-500_000)
	w.beyond = true
	since := w.Now
	for w.leader() == nil || w.leader().i == 0 {
		if w.run(w.Now + 10*time.Millisecond); w.Now-since > 3*time.Second {
			t.Fatal("nobody leads 3 s after the clock of the leader slowed down")
		}
	}
}

// TestToldApart has a leader tell the only other candidate that its clock runs fast: after the
// leader's death that one stands no sooner than it was told.
func TestToldApart(t *testing.T) {
	if wrong := toldApart(t, func(*Config) {}); wrong != "" {
		t.Error(wrong)
	}
}

func toldApart(t *testing.T, change func(*Config)) string {
	w := together(t, 3, change)
	w.nodes[2].do(protocol.Command{Verb: protocol.Withdraw})
	w.nodes[1].bend(400_000)
	w.beyond = true
	w.run(w.Now + 20*time.Second)
	n := w.nodes[1]
	for _, m := range w.nodes[0].m.Members(nil) {
		if want := m.ID == n.cfg.Self.ID; m.Apart != want || want && (m.Rate.Low > 400_000 || m.Rate.High < 400_000 || m.Rate.High-m.Rate.Low > 10_000) {
			return fmt.Sprintf("of %s the leader knows %+v, apart %t", m.ID, m.Rate, m.Apart)
		}
	}
	w.nodes[0].crash(true)
	aside := n.m.asideUntil
	if aside == protocol.Always {
		return fmt.Sprintf("%s does not stand aside", n.name())
	}
	w.run(n.when(aside) - time.Millisecond)
	if n.view.Elected || n.view.Term > 1 {
		return fmt.Sprintf("%s stands although its clock runs fast, %v before it may", n.name(), aside.Sub(n.local(w.Now)))
	}
	w.run(n.when(aside) + 100*time.Millisecond)
	if n.m.ballot.Term == 1 {
		return fmt.Sprintf("%s does not stand although it may again", n.name())
	}
	return ""
}

// TestNobodyIsFoundApart runs random worlds whose clocks keep to the assumption at its very limit,
// or jump, and whose messages are late, doubled and lost: no clock is ever found apart.
func TestNobodyIsFoundApart(t *testing.T) {
	samples := 0
	for seed := uint64(1); seed <= long.Or[uint64](200, 30); seed++ {
		w := chaos(seed, nil)
		w.after = func(n *node, in *protocol.Input, _ *protocol.Effects) {
			if in.Kind != protocol.Receive || in.Message.Type != HeartbeatAck {
				return
			}
			for i := range n.m.known {
				if p := &n.m.known[i].pace; p.incarnation != 0 {
					samples++
					if p.apartUntil != 0 {
						t.Fatalf("seed %d, %v: %s finds the clock of %s apart: %+v", seed, w.Now, n.name(), n.m.ballot.Membership.Voters[i], p)
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

package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// twin records all that happened to one incarnation of a machine and derives from it, each time
// from the beginning, what the machine keeps up to date.
type twin struct {
	c       Config
	history []happening
	asked   map[uint64]protocol.Ask
}

// happening is one step: what came in, what was asked, and in which stage.
type happening struct {
	in     protocol.Input
	asks   []protocol.Ask
	was    stage
	clock  protocol.Reading // that jumps are measured against, from then on
	jumped bool
	late   bool // of a watch that had ended
}

// add appends a step.
func (w *twin) add(in protocol.Input, asks []protocol.Ask, was stage) {
	h := happening{in: in, asks: slices.Clone(asks), was: was, clock: in.Now}
	if len(w.history) > 0 {
		h.clock = w.history[len(w.history)-1].clock
		if h.jumped = in.Now.Jumped(h.clock); h.jumped {
			h.clock = in.Now
		}
	}
	for _, a := range asks {
		w.asked[a.Number] = a
	}
	if in.Answer.Status == protocol.StatusEvent {
		h.late = slices.ContainsFunc(w.history, func(o happening) bool {
			return o.in.Answer.Number == in.Answer.Number && o.in.Answer.Status == protocol.StatusClosed
		})
	}
	w.history = append(w.history, h)
}

// shown is the version and the record that a step showed, if any.
func (w *twin) shown(h *happening) (version uint64, r protocol.Record, store string, ok bool) {
	a := &h.in.Answer
	ask := w.asked[a.Number]
	switch {
	case h.in.Kind != protocol.Replied:
		return 0, r, "", false
	case ask.Op == protocol.Watch:
		return a.Version, a.Record, a.Store, a.Status == protocol.StatusEvent && a.Version != 0
	case a.Status != protocol.StatusDone:
		return 0, r, "", false
	case ask.Op == protocol.Write:
		return a.Version, ask.Record, a.Store, true
	default:
		return a.Version, a.Record, a.Store, true
	}
}

// sight is L3: since when the version that was shown last is the present one.
func (w *twin) sight() (version uint64, store string, at protocol.Instant, record protocol.Record, any bool) {
	for i := range w.history {
		h := &w.history[i]
		if h.jumped {
			at = h.in.Now.Boot
		}
		v, r, s, ok := w.shown(h)
		if h.late || w.asked[h.in.Answer.Number].Op == protocol.Watch && h.was != watching {
			ok = false // for a holder it is a hint
		}
		if ok && w.asked[h.in.Answer.Number].Op == protocol.Watch && w.old(w.history[:i], v, &r, s) {
			ok = false // it is late
		}
		if !ok {
			continue
		}
		if !any || v != version || s != store {
			at = h.in.Now.Boot
		}
		version, store, record, any = v, s, r, true
	}
	return version, store, at, record, any
}

// wait is L4 and L5 in one line each.
func (w *twin) wait(version uint64, r *protocol.Record, store string) time.Duration {
	most, top := max(w.c.MaxDuration, w.c.Duration), uint64(0)
	for i := range w.history {
		if v, o, _, ok := w.shown(&w.history[i]); ok && v != 0 {
			top = max(top, o.Count, o.Free.Count)
			if o.Duration <= 24*time.Hour {
				most = max(most, o.Duration)
			}
		}
	}
	if r.Holder != "" && r.Store == store && r.Count >= top && !w.old(w.history, version, r, store) {
		return max(r.Duration, w.c.Duration)
	}
	return most
}

// old reports whether one of these steps showed something later than a record, of the same
// incarnation of the store with none of another in between. Attempts are compared as long as no
// other nonce was shown with that count.
func (w *twin) old(history []happening, version uint64, r *protocol.Record, store string) bool {
	for i, nonce := len(history)-1, true; i >= 0; i-- {
		v, o, s, ok := w.shown(&history[i])
		switch {
		case !ok || v == 0:
			continue
		case s != store:
			return false
		case o.Count > r.Count:
			return true
		case o.Count == r.Count:
			nonce = nonce && o.Nonce == r.Nonce
			if w.c.GlobalVersions && v > version || nonce && o.Attempt > r.Attempt {
				return true
			}
		}
	}
	return false
}

// claimEnd is L7 and L8 for the tenure with that nonce: the greatest claim of its attempts that
// were shown to have landed.
func (w *twin) claimEnd(nonce protocol.Nonce) protocol.Instant {
	end, open := protocol.Always, false
	for i := range w.history {
		h := &w.history[i]
		v, r, _, ok := w.shown(h)
		if !ok || v == 0 || w.asked[h.in.Answer.Number].Op == protocol.Watch || r.Nonce != nonce || r.Holder != w.c.Self {
			continue
		}
		claim := protocol.Always
		for _, o := range w.history[:i+1] {
			for _, a := range o.asks {
				if a.Op == protocol.Write && a.Record.Nonce == nonce && a.Record.Holder == w.c.Self && a.Record.Attempt == r.Attempt && o.clock == h.clock {
					claim = o.in.Now.Boot.Add(w.c.Drift.Claim(w.c.Duration))
				}
			}
		}
		if now := h.in.Now.Boot; !open && now < claim || open && now < end {
			end, open = max(end, claim), true
		}
	}
	return end
}

// count is L6, for an acquisition of that version in the last step.
func (w *twin) count(version uint64) uint64 {
	global := uint64(0)
	if w.c.GlobalVersions {
		global = 1
	}
	top := version * global
	for i := range w.history {
		if v, r, _, ok := w.shown(&w.history[i]); ok && v != 0 {
			top = max(top, r.Count, r.Free.Count, v*global)
		}
	}
	return top + 1
}

func TestTwin(t *testing.T) {
	for seed := range long.Or[uint64](12, 3) {
		n := newNet(seed, nil)
		n.w.length = 15 * time.Second
		twins := make(map[*Machine]*twin)
		nonces := make(map[protocol.Nonce]bool)
		compared := [3]int{}
		n.check = func(n *net, d *netNode, in *protocol.Input, before stage) {
			w := twins[d.m]
			if w == nil {
				w = &twin{c: d.m.c, asked: make(map[uint64]protocol.Ask)}
				twins[d.m] = w
			}
			if len(w.history) > 400 {
				return // this takes the square of it, and more
			}
			for _, a := range d.fx.Asks {
				if r := &a.Record; a.Op == protocol.Write && r.Holder == d.cfg.Self && !nonces[r.Nonce] {
					nonces[r.Nonce] = true
					w.add(*in, nil, before)
					if want := w.count(a.Version); r.Count != want {
						n.fail("L6: %s acquires with %d; want %d", d.cfg.Self, r.Count, want)
					}
					w.history = w.history[:len(w.history)-1]
					compared[0]++
				}
			}
			w.add(*in, d.fx.Asks, before)
			if v := d.m.View(); v.Active {
				if want := w.claimEnd(d.m.own.nonce); v.LeaseEnd != want {
					n.fail("L8: %s holds until %v; want %v", d.cfg.Self, v.LeaseEnd, want)
				}
				compared[1]++
			}
			version, store, at, record, any := w.sight()
			if any {
				s := &d.m.seen
				if s.version != version || s.store != store || s.at != at {
					n.fail("L3: %s has seen %d of %s at %v; want %d of %s at %v", d.cfg.Self, s.version, s.store, s.at, version, store, at)
				}
				if want := w.wait(version, &record, store); d.m.wait() != want {
					n.fail("L4: %s waits %v; want %v", d.cfg.Self, d.m.wait(), want)
				}
				compared[2]++
			}
		}
		if err := n.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Logf("seed %d: %d acquisitions, %d deadlines, %d sights", seed, compared[0], compared[1], compared[2])
	}
}

package queue

import (
	"fmt"
	"math"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// twin records all asks and answers of one machine, and derives from all of them until when it may
// claim and when it may lead.
type twin struct {
	cfg  Config
	asks []asked
	now  []protocol.Reading // of each step

	touches uint64 // the last WatchTouch, while it counts
	sights  []sight

	won       protocol.Instant // when Elected was ordered; 0: not elected
	token     uint64
	stopped   bool
	sinceJump int // steps before that one do not count
	base      protocol.Reading
}

type asked struct {
	ask        protocol.Ask
	sent       protocol.Reading
	step       int
	answer     protocol.Answer
	answeredAt protocol.Reading
	answered   int // step; 0: not yet
}

// sight is what an answer shows of a touch.
type sight struct {
	order, touched uint64
	at             protocol.Instant
	step           int
}

func newTwin(cfg Config) *twin { return &twin{cfg: cfg} }

func (t *twin) step(in *protocol.Input, fx *protocol.Effects) {
	t.now = append(t.now, in.Now)
	n := len(t.now)
	if n == 1 {
		t.base = in.Now
	}
	if in.Now.Jumped(t.base) {
		t.base, t.sinceJump = in.Now, n
	}
	if in.Kind == protocol.Replied {
		if a := &in.Answer; a.Number != 0 && a.Number == t.touches {
			if a.Status == protocol.StatusEvent {
				t.sights = append(t.sights, sight{a.Mark.Order, a.Mark.Touched, in.Now.Boot, n})
			} else {
				t.touches = 0
			}
		}
		for i := range t.asks {
			if a := &t.asks[i]; a.ask.Number == in.Answer.Number && a.answered == 0 {
				if a.ask.Op == protocol.WatchEntry && (in.Answer.Status == protocol.StatusEvent || in.Answer.Status == protocol.StatusGone) {
					t.unsettle(a.ask.Entry.Order)
				}
				a.answer, a.answered, a.answeredAt = in.Answer, n, in.Now
				a.answer.Entries = append([]protocol.Entry(nil), in.Answer.Entries...)
				if a.ask.Op == protocol.List && a.answer.Status == protocol.StatusDone {
					t.sights = append(t.sights, sight{a.answer.Mark.Order, a.answer.Mark.Touched, in.Now.Boot, n})
				}
			}
		}
	}
	for _, o := range fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			t.won, t.token, t.stopped = in.Now.Boot, o.Token, false
		case protocol.Stop:
			t.stopped = true
		}
	}
	for _, a := range fx.Asks {
		switch a.Op {
		case protocol.WatchTouch:
			t.touches = a.Number
		case protocol.OpenSession:
			t.touches, t.sights = 0, nil
		}
		t.asks = append(t.asks, asked{ask: a, sent: in.Now, step: n})
	}
	// Candidacies before the last one do not matter.
	for i := len(t.asks) - 1; i > 0 && len(t.asks) > 1000; i-- {
		if t.asks[i].ask.Op == protocol.OpenSession {
			t.asks = append([]asked(nil), t.asks[i:]...)
			break
		}
	}
}

// unsettle: the entry may have gone. Asks from before do not count.
func (t *twin) unsettle(order uint64) {
	if t.cfg.Dialect != Etcd || t.won == 0 || t.stopped || order != t.token {
		return
	}
	for i := range t.asks {
		if a := &t.asks[i]; (a.ask.Op == protocol.Verify || a.ask.Op == protocol.Touch) && a.answered == 0 {
			a.answered = -1
		}
	}
}

// claims is Q5 and Q6, literally.
func (t *twin) claims(session, order uint64) (lease, hold protocol.Instant) {
	lease, hold = protocol.Always, protocol.Always
	marked := math.MaxInt // the step; from then on reads prove nothing
	for _, a := range t.asks {
		if a.ask.Op == protocol.Mark && a.answered > 0 && a.answer.Status == protocol.StatusDone && a.ask.Entry.Order == order {
			marked = min(marked, a.answered)
		}
	}
	for _, a := range t.asks {
		if a.answered <= 0 || a.answer.Status != protocol.StatusDone || a.step < t.sinceJump {
			continue
		}
		opens := a.ask.Op == protocol.OpenSession && a.answer.Session == session
		keeps := a.ask.Op == protocol.KeepAlive && a.ask.Session == session && a.answer.TTL > 0
		if opens || keeps {
			lease = max(lease, a.sent.Boot.Add(t.margin().Claim(a.answer.TTL)))
		}
		proof := a.ask.Op == protocol.Touch || a.ask.Op == protocol.Mark || a.ask.Op == protocol.Verify && t.cfg.Dialect == Etcd && a.answer.Entry.Order == order && a.answered < marked
		if proof && a.ask.Entry.Order == order {
			hold = max(hold, a.sent.Boot.Add(t.margin().Claim(t.cfg.Hold)))
		}
	}
	return lease, hold
}

func (t *twin) margin() protocol.Drift {
	d := t.cfg.Drift
	if t.cfg.Dialect == Etcd {
		d.Guard += time.Duration(math.Ceil(4 * float64(d.PPM) * float64(t.cfg.ServerElection) / 1e6))
	}
	return d
}

// notBefore is Q6's hold-off: from the first list without a lower entry since the last one that had
// one, or from when the mark's touch was first seen.
func (t *twin) notBefore(session, order uint64) protocol.Instant {
	if t.cfg.Hold == 0 {
		return protocol.Always
	}
	view, at := protocol.Never, protocol.Always
	for _, a := range t.asks {
		if a.ask.Op != protocol.List || a.ask.Session != session || a.answered == 0 || a.answer.Status != protocol.StatusDone {
			continue
		}
		lower, has := false, false
		for _, e := range a.answer.Entries {
			lower = lower || e.Order < order
			has = has || e.Order == order
		}
		if lower || !has {
			view = protocol.Never
			continue
		}
		if view == protocol.Never {
			view = a.answeredAt.Boot
		}
		if a.answered < t.sinceJump {
			view = t.now[t.sinceJump-1].Boot // waited for by the new clock from the jump on
		}
		switch mark := a.answer.Mark; {
		case !mark.Held && mark.Order != 0 && mark.Order < order:
			at = protocol.Always
		case mark.Held && mark.Hold > 0:
			from := view
			for _, s := range t.sights {
				if s.step < t.sinceJump {
					s.at = t.now[t.sinceJump-1].Boot
				}
				if mark.Touched != 0 && s.order == mark.Order && s.touched == mark.Touched {
					from = min(from, s.at)
				}
			}
			at = from.Add(max(mark.Hold, t.cfg.Hold))
		default:
			at = view.Add(max(t.cfg.Hold, t.cfg.MaxHold))
		}
	}
	return at
}

// compare returns how the machine differs from its history; it asks only while the machine leads.
func (t *twin) compare(m *Machine, now protocol.Instant) string {
	if (m.phase == leading) != (t.won != 0 && !t.stopped) {
		return fmt.Sprintf("leading %v, orders say %v", m.phase == leading, t.won != 0 && !t.stopped)
	}
	if m.phase != leading {
		return ""
	}
	lease, hold := t.claims(m.session, t.token)
	end := lease
	switch {
	case t.cfg.Dialect == ZooKeeper:
		end = hold
	case t.cfg.Hold > 0:
		end = min(lease, hold)
	}
	if got := m.claimEnd(); got != end {
		return fmt.Sprintf("claim ends at %v, history says %v", got, end)
	}
	if want := t.notBefore(m.session, t.token); m.notBefore != want {
		return fmt.Sprintf("not before %v, history says %v", m.notBefore, want)
	}
	if m.active && now < m.notBefore {
		return fmt.Sprintf("leads at %v, before %v", now, m.notBefore)
	}
	return ""
}

package queue

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// script drives one machine by hand.
type script struct {
	t   testing.TB
	m   *Machine
	now protocol.Reading
	fx  protocol.Effects
	in  protocol.Input

	todo []protocol.Ask // of renew
}

const ms = time.Millisecond

func newScript(t testing.TB, cfg Config) *script {
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, m: m, now: protocol.Reading{Boot: 1e9, Mono: 1e9}}
	s.step(protocol.Input{Kind: protocol.Boot})
	return s
}

func (s *script) step(in protocol.Input) {
	s.in = in
	s.in.Now, s.in.Rand = s.now, uint64(s.now.Boot)*0x9e3779b97f4a7c15|1
	s.fx.Reset()
	s.m.Step(&s.in, &s.fx)
}

func (s *script) after(d time.Duration) {
	s.now.Boot, s.now.Mono = s.now.Boot.Add(d), s.now.Mono.Add(d)
}

func (s *script) do(v protocol.Verb) {
	s.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v, Token: s.m.own.Order}})
}

// fire goes to NextFire.
func (s *script) fire() {
	s.t.Helper()
	at := s.m.NextFire()
	if at == protocol.Never {
		s.t.Fatalf("it waits for nothing, in %s", phaseName(s.m.phase))
	}
	s.after(max(0, at.Sub(s.now.Boot)))
	s.step(protocol.Input{Kind: protocol.Fire})
}

// asked is the ask with that operation of the last step.
func (s *script) asked(op protocol.Op) protocol.Ask {
	s.t.Helper()
	for _, a := range s.fx.Asks {
		if a.Op == op {
			return a
		}
	}
	s.t.Fatalf("no %s among %+v, in %s", op, s.fx.Asks, phaseName(s.m.phase))
	return protocol.Ask{}
}

func (s *script) answer(to protocol.Ask, a protocol.Answer) {
	a.Number = to.Number
	if a.Status == 0 {
		a.Status = protocol.StatusDone
	}
	s.step(protocol.Input{Kind: protocol.Replied, Answer: a})
}

// enter brings the machine into the queue: it has asked for a List.
func (s *script) enter(order uint64) {
	s.t.Helper()
	s.do(protocol.Campaign)
	s.answer(s.asked(protocol.OpenSession), protocol.Answer{Session: 7, TTL: s.m.cfg.TTL})
	e := s.asked(protocol.Enter)
	s.answer(e, protocol.Answer{Entry: protocol.Entry{Order: order, Session: 7, Holder: s.m.cfg.Self, Nonce: e.Nonce}})
}

// list answers a List with other entries of these orders, and the machine's own.
func (s *script) list(mark protocol.QueueMark, before ...uint64) {
	s.t.Helper()
	var all []protocol.Entry
	for _, o := range before {
		all = append(all, protocol.Entry{Order: o, Session: 100 + o, Holder: "other"})
	}
	s.answer(s.asked(protocol.List), protocol.Answer{Entries: append(all, s.m.own), Mark: mark, Revision: 50})
}

// lead makes the machine lead, with the order 9 as its token.
func (s *script) lead() {
	s.t.Helper()
	free := protocol.QueueMark{Order: 1}
	s.enter(9)
	s.list(free)
	if s.m.cfg.Dialect == ZooKeeper {
		s.answer(s.asked(protocol.Touch), protocol.Answer{})
		s.list(free)
	} else {
		s.answer(s.asked(protocol.Verify), protocol.Answer{Entry: s.m.own, Revision: 51})
	}
	if s.m.cfg.Hold > 0 {
		s.answer(s.asked(protocol.Mark), protocol.Answer{})
	}
	if s.m.cfg.Hold > 0 && s.m.cfg.Dialect == Etcd {
		s.ordered(protocol.Lead, "")
		s.answer(s.asked(protocol.Touch), protocol.Answer{Entry: s.m.own, Revision: 52})
	}
	if v := s.m.View(); !v.Active || v.Token != 9 {
		s.t.Fatalf("it does not lead: %+v", v)
	}
}

func (s *script) want(p phase) {
	s.t.Helper()
	if s.m.phase != p {
		s.t.Fatalf("in %s; want %s", phaseName(s.m.phase), phaseName(p))
	}
}

func (s *script) ordered(k protocol.OrderKind, why protocol.Reason) {
	s.t.Helper()
	for _, o := range s.fx.Orders {
		if o.Kind == k && o.Reason == why {
			return
		}
	}
	s.t.Fatalf("no %s %s among %+v", k, why, s.fx.Orders)
}

// Q5: a lease that was granted with another TTL is given back, and the machine halts.
func TestGrantedOtherwise(t *testing.T) {
	for _, c := range []struct {
		cfg     Config
		granted time.Duration
		halts   bool
	}{
		{Config{Self: "n1", Dialect: Etcd, TTL: 3 * time.Second, ServersFixed: true}, 5 * time.Second, true},
		{Config{Self: "n1", Dialect: Etcd, TTL: 3 * time.Second, ServersFixed: true}, 0, true},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: 5 * time.Second}, 4 * time.Second, true},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: 5 * time.Second}, 5 * time.Second, false},
		{Config{Self: "n1", Dialect: ZooKeeper, Hold: 5 * time.Second}, 40 * time.Second, false},
	} {
		s := newScript(t, c.cfg)
		s.do(protocol.Campaign)
		s.answer(s.asked(protocol.OpenSession), protocol.Answer{Session: 7, TTL: c.granted})
		if !c.halts {
			s.want(entering)
			continue
		}
		if v := s.m.View(); v.Role != protocol.Halted || v.Fault == "" {
			t.Errorf("granted %v: view %+v", c.granted, v)
		}
		s.answer(s.asked(protocol.CloseSession), protocol.Answer{})
		s.want(halted)
		s.do(protocol.Campaign)
		if len(s.fx.Asks) != 0 || s.m.NextFire() != protocol.Never {
			t.Errorf("it goes on after %q", s.m.View().Fault)
		}
	}
}

// Q9: an order that does not fit a token is refused.
func TestOrderTooGreat(t *testing.T) {
	s := newScript(t, Config{Self: "n1", Dialect: ZooKeeper})
	s.enter(protocol.MaxCount + 1)
	s.asked(protocol.CloseSession)
	if s.m.View().Fault == "" {
		t.Error("no fault")
	}
	s = newScript(t, Config{Self: "n1", Dialect: ZooKeeper})
	s.enter(protocol.MaxCount)
	s.want(listing)
}

// Q3: only the candidate behind the entry that went is woken.
func TestWatchesThePredecessor(t *testing.T) {
	if got := watches(t, Config{Self: "n1", Dialect: Etcd, ServersFixed: true}); got != [2]uint64{8, 9} {
		t.Errorf("watches %v; want the one before it, 8, and its own, 9", got)
	}
}

// watches are the entries that the last of four candidates watches.
func watches(t *testing.T, cfg Config) (orders [2]uint64) {
	s := newScript(t, cfg)
	s.enter(9)
	s.list(protocol.QueueMark{}, 3, 5, 8)
	if len(s.fx.Asks) != len(orders) {
		t.Fatalf("asks %+v; want two watches", s.fx.Asks)
	}
	for i, a := range s.fx.Asks {
		if a.Op != protocol.WatchEntry || a.Revision != 50 {
			t.Fatalf("asks %+v; want watches from revision 50", s.fx.Asks)
		}
		orders[i] = a.Entry.Order
	}
	return orders
}

// Q7: a suspicion changes nothing.
func TestSuspect(t *testing.T) {
	for _, cfg := range settings() {
		s := newScript(t, cfg)
		s.lead()
		before := s.m.AppendState(nil)
		s.step(protocol.Input{Kind: protocol.PeerClosed})
		if v := s.m.View(); !v.Proven(s.now) || string(s.m.AppendState(nil)) != string(before) || len(s.fx.Asks)+len(s.fx.Orders) != 0 {
			t.Errorf("%v: a disconnection did something: %+v", cfg.Dialect, s.fx)
		}
	}
}

// A Confirm counts when an ask that was sent after it is answered, and not before.
func TestConfirm(t *testing.T) {
	for name, cfg := range settings() {
		op := protocol.Verify
		if cfg.Dialect == ZooKeeper {
			op = protocol.Touch
		}
		s := newScript(t, cfg)
		s.lead()
		s.after(10 * ms)
		s.do(protocol.Confirm)
		first := s.asked(op)
		s.do(protocol.Confirm)
		s.do(protocol.Confirm)
		if len(s.fx.Asks) != 0 {
			t.Errorf("%s: two at once: %+v", name, s.fx.Asks)
		}
		s.after(10 * ms)
		s.answer(first, protocol.Answer{Entry: s.m.own})
		if got := s.m.View().Confirmed; got != 1 {
			t.Errorf("%s: %d confirmed; want 1", name, got)
		}
		second := s.asked(op)
		s.answer(second, protocol.Answer{Status: protocol.StatusUnknown})
		if got := s.m.View().Confirmed; got != 1 {
			t.Errorf("%s: %d confirmed by nothing; want 1", name, got)
		}
		s.fire()
		s.answer(s.asked(op), protocol.Answer{Entry: s.m.own})
		if got := s.m.View().Confirmed; got != 3 {
			t.Errorf("%s: %d confirmed; want 3", name, got)
		}
		s.do(protocol.Confirm)
		s.answer(s.asked(op), protocol.Answer{Status: protocol.StatusGone})
		s.ordered(protocol.Stop, EntryGone)
		if got := s.m.View().Confirmed; got != 3 {
			t.Errorf("%s: %d confirmed after the loss; want 3", name, got)
		}
	}
}

// A winner whose claim lapsed during the wait renews first, and leaves if that answer comes too
// late as well.
func TestTooSlowToLead(t *testing.T) {
	s := newScript(t, Config{Self: "n1", Dialect: Etcd, ServersFixed: true})
	s.enter(9)
	list := s.asked(protocol.List)
	s.after(20 * time.Second)
	s.answer(list, protocol.Answer{Entries: []protocol.Entry{s.m.own}})
	s.want(renewing)
	s.answer(s.asked(protocol.KeepAlive), protocol.Answer{TTL: s.m.cfg.TTL})
	s.want(verifying)
	verify := s.asked(protocol.Verify)
	s.after(20 * time.Second)
	s.answer(verify, protocol.Answer{Entry: s.m.own})
	s.want(closing)

	s = newScript(t, Config{Self: "n1", Dialect: Etcd, ServersFixed: true})
	s.enter(9)
	list = s.asked(protocol.List)
	s.after(20 * time.Second)
	s.answer(list, protocol.Answer{Entries: []protocol.Entry{s.m.own}})
	alive := s.asked(protocol.KeepAlive)
	s.after(20 * time.Second)
	s.answer(alive, protocol.Answer{TTL: s.m.cfg.TTL})
	s.want(closing)
}

// Q6: the machine waits for a hold in the mark that is longer than its own, but not for an invalid
// one.
func TestHoldOff(t *testing.T) {
	for _, c := range []struct {
		mark protocol.QueueMark
		want time.Duration
	}{
		{protocol.QueueMark{Order: 3}, 0},
		{protocol.QueueMark{}, 5 * time.Second},         // MaxHold: it is not known whose hold it was
		{protocol.QueueMark{Order: 9}, 5 * time.Second}, // no later entry can have led
		{protocol.QueueMark{Order: 3, Held: true}, 5 * time.Second},
		{protocol.QueueMark{Order: 3, Held: true, Hold: 3 * time.Second}, 4 * time.Second},
		{protocol.QueueMark{Order: 3, Held: true, Hold: 6 * time.Second}, 6 * time.Second},
		{protocol.QueueMark{Order: 3, Held: true, Hold: 1 << 62}, MaxTTL},
		{protocol.QueueMark{Order: 3, Held: true, Hold: -1 << 62}, 5 * time.Second},
	} {
		s := newScript(t, Config{Self: "n1", Dialect: ZooKeeper, Hold: 4 * time.Second})
		s.enter(9)
		s.list(c.mark)
		from := s.now.Boot
		s.after(100 * ms)
		s.answer(s.asked(protocol.Touch), protocol.Answer{})
		s.list(c.mark)
		s.ordered(protocol.Elected, "")
		for s.m.main.op != protocol.Mark && s.m.phase == leading {
			s.fire()
			if len(s.fx.Asks) > 0 && s.fx.Asks[0].Op == protocol.Touch {
				s.answer(s.fx.Asks[0], protocol.Answer{})
			}
		}
		s.want(leading)
		if got := s.now.Boot.Sub(from); c.want == 0 && got != 100*ms || c.want != 0 && got != c.want {
			t.Errorf("%+v: the mark is written after %v; want %v", c.mark, got, c.want)
		}
	}
}

// Q8: an Enter that was on its way at Withdraw may have been carried out in a session that the
// client opened by itself; that one is closed too.
func TestStrayEnter(t *testing.T) {
	for _, c := range []struct {
		answer protocol.Answer
		early  bool // before CloseSession is answered
		closes uint64
	}{
		{protocol.Answer{Session: 8}, true, 8},
		{protocol.Answer{Session: 8}, false, 8},
		{protocol.Answer{Status: protocol.StatusUnknown}, true, 7},
		{protocol.Answer{Status: protocol.StatusUnknown}, false, 0},
		{protocol.Answer{Status: protocol.StatusGone, Session: 7}, false, 0},
	} {
		s := newScript(t, Config{Self: "n1", Dialect: ZooKeeper})
		s.do(protocol.Campaign)
		s.answer(s.asked(protocol.OpenSession), protocol.Answer{Session: 7, TTL: s.m.cfg.TTL})
		enter := s.asked(protocol.Enter)
		s.do(protocol.Withdraw)
		ask := s.asked(protocol.CloseSession)
		if !c.early {
			s.answer(ask, protocol.Answer{Status: protocol.StatusGone})
			s.want(closing)
		}
		s.answer(enter, c.answer)
		if c.closes == 8 {
			if ask = s.asked(protocol.CloseSession); ask.Session != 8 {
				t.Errorf("closes session %d; want 8", ask.Session)
			}
		}
		if c.closes != 0 {
			s.answer(ask, protocol.Answer{})
		}
		s.want(idle)
	}
}

// vainly lets time pass, and answers every ask in vain, until a session is to be closed. It returns
// how long that took.
func (s *script) vainly(status protocol.Status) time.Duration {
	s.t.Helper()
	from := s.now.Boot
	for s.now.Boot.Sub(from) < time.Hour {
		for _, a := range append([]protocol.Ask(nil), s.fx.Asks...) {
			switch a.Op {
			case protocol.CloseSession:
				return s.now.Boot.Sub(from)
			case protocol.WatchEntry:
			case protocol.KeepAlive: // is heard
				s.answer(a, protocol.Answer{TTL: s.m.cfg.TTL})
			default:
				s.after(10 * ms)
				s.answer(a, protocol.Answer{Status: status})
			}
		}
		if len(s.fx.Asks) == 0 {
			s.fire()
		}
	}
	s.t.Fatalf("after %v it still asks in vain, in %s", time.Hour, phaseName(s.m.phase))
	return 0
}

// Q8: a candidate that asks in vain for the time of a session leaves if it may be first: its
// session may live on, and others wait for it. Behind another entry it stays.
func TestAsksInVain(t *testing.T) {
	for name, cfg := range settings() {
		for _, status := range []protocol.Status{protocol.StatusUnknown, protocol.StatusRefused} {
			s := newScript(t, cfg)
			s.enter(9)
			ttl := s.m.cfg.TTL
			if took := s.vainly(status); took < ttl-ms || took > ttl+2*time.Second {
				t.Errorf("%s, %s from the list on: left after %v; want %v", name, status, took, ttl)
			}
			s.want(closing)

			// The one before it has gone, and the list that would show it fails.
			s = newScript(t, cfg)
			s.enter(9)
			s.list(protocol.QueueMark{}, 8)
			watch := s.asked(protocol.WatchEntry)
			s.answer(watch, protocol.Answer{Status: protocol.StatusEvent})
			if took := s.vainly(status); took < ttl-ms || took > ttl+2*time.Second {
				t.Errorf("%s, %s after an event: left after %v; want %v", name, status, took, ttl)
			}

			// A watch that ends does not tell whether the entry went.
			s = newScript(t, cfg)
			s.enter(9)
			s.list(protocol.QueueMark{}, 8)
			watch = s.asked(protocol.WatchEntry)
			s.answer(watch, protocol.Answer{Status: protocol.StatusClosed})
			if took := s.vainly(status); took < MaxTTL-ms || took > MaxTTL+2*time.Second {
				t.Errorf("%s, %s behind another: left after %v; want %v", name, status, took, MaxTTL)
			}
		}
	}
}

// An answer in between is enough to stay.
func TestHeardInTime(t *testing.T) {
	for name, cfg := range settings() {
		s := newScript(t, cfg)
		s.enter(9)
		for range 20 {
			s.after(s.m.cfg.TTL / 2)
			s.answer(s.asked(protocol.List), protocol.Answer{Status: protocol.StatusUnknown})
			for len(s.fx.Asks) == 0 || s.fx.Asks[0].Op != protocol.List {
				s.fire()
			}
			s.list(protocol.QueueMark{}, 8)
			if s.m.phase != waiting {
				t.Fatalf("%s: in %s; want waiting", name, phaseName(s.m.phase))
			}
			for _, a := range s.fx.Asks {
				if a.Op == protocol.WatchEntry && a.Entry.Order == 8 {
					s.answer(a, protocol.Answer{Status: protocol.StatusEvent})
					break
				}
			}
		}
	}
}

// Q8: an entry that cannot be deleted goes with its session, after as long as the next winner would
// wait anyway.
func TestLeavesInVain(t *testing.T) {
	for name, cfg := range settings() {
		if cfg.Hold == 0 && cfg.Dialect == Etcd {
			continue // it leaves by its session alone
		}
		s := newScript(t, cfg)
		s.lead()
		s.do(protocol.Resign)
		s.do(protocol.Joined)
		s.asked(protocol.Leave)
		if took, hold := s.vainly(protocol.StatusRefused), s.m.cfg.Hold; took < hold-ms || took > hold+2*time.Second {
			t.Errorf("%s: closes its session after %v; want %v", name, took, hold)
		}
		s.want(closing)
	}
}

// A tenure that ends by command keeps its claim and its entry for as long as the work takes, unless an answer says that
// the entry is gone.
func TestWorkThatTakesLong(t *testing.T) {
	for name, cfg := range settings() {
		s := newScript(t, cfg)
		s.lead()
		s.do(protocol.Resign)
		begun := s.now.Boot
		for s.now.Boot.Sub(begun) < 10*s.m.cfg.TTL {
			s.fire()
			for _, a := range append([]protocol.Ask(nil), s.fx.Asks...) {
				s.answer(a, protocol.Answer{Entry: s.m.own, TTL: s.m.cfg.TTL})
			}
			if v := s.m.View(); v.Role != protocol.Fencing || v.Leader.ID != cfg.Self || v.LeaseEnd <= s.now.Boot {
				t.Fatalf("%s: after %v: %+v; want a claim", name, s.now.Boot.Sub(begun), v)
			}
		}
		if cfg.Hold == 0 && cfg.Dialect == Etcd {
			s.do(protocol.Joined)
			s.asked(protocol.CloseSession)
			continue
		}
		late := *s
		late.m = new(*s.m)
		late.do(protocol.Joined)
		late.asked(protocol.Leave)
		for s.m.View().LeaseEnd != 0 {
			s.fire()
			for _, a := range append([]protocol.Ask(nil), s.fx.Asks...) {
				switch a.Op {
				case protocol.Verify, protocol.Touch:
					s.answer(a, protocol.Answer{Status: protocol.StatusGone})
				default:
					s.answer(a, protocol.Answer{TTL: s.m.cfg.TTL})
				}
			}
		}
		if v := s.m.View(); v.Role != protocol.Fencing || v.Leader.ID != "" {
			t.Errorf("%s: %+v; want no leader once the entry is gone", name, v)
		}
	}
}

// Work that does not return does not block the election for ever: after its claim has lapsed the
// session is closed, a TTL after the claim was last renewed. The candidacy goes on until the work
// has returned.
func TestWorkThatNeverReturns(t *testing.T) {
	s := newScript(t, Config{Self: "n1", Dialect: ZooKeeper, TTL: 10 * time.Second, Hold: 4 * time.Second})
	s.lead()
	for s.m.phase == leading {
		s.fire()
		for _, a := range append([]protocol.Ask(nil), s.fx.Asks...) {
			s.answer(a, protocol.Answer{Status: protocol.StatusRefused})
		}
	}
	s.ordered(protocol.Stop, Expired)
	stopped := s.now.Boot
	s.fire()
	ask := s.asked(protocol.CloseSession)
	if got := s.now.Boot.Sub(stopped); got != 6*time.Second {
		t.Errorf("closes its session %v after its claim; want 6s", got)
	}
	s.answer(ask, protocol.Answer{Status: protocol.StatusUnknown})
	s.want(fencing)
	s.fire()
	s.answer(s.asked(protocol.CloseSession), protocol.Answer{})
	s.want(fencing)
	if at := s.m.NextFire(); at != protocol.Never {
		t.Errorf("wants to be woken at %v; want nothing until the work has returned", at)
	}
	s.do(protocol.Joined)
	s.want(opening)

	// Work that returns in time writes "free".
	s = newScript(t, Config{Self: "n1", Dialect: ZooKeeper})
	s.lead()
	s.after(20 * time.Second)
	s.step(protocol.Input{Kind: protocol.Fire})
	s.ordered(protocol.Stop, Expired)
	s.after(ms)
	s.do(protocol.Joined)
	if a := s.asked(protocol.Leave); !a.SetMark || a.Mark.Held {
		t.Errorf("leaves with %+v; want the mark free", a)
	}
}

// Q6: the hold-off begins when the last touch of the last tenure was first seen, if it was seen before
// the entry was missed.
func TestSight(t *testing.T) {
	const hold = 5 * time.Second
	held := func(touched uint64) protocol.QueueMark {
		return protocol.QueueMark{Order: 3, Held: true, Hold: hold, Touched: touched}
	}
	seen := func(order, touched uint64) protocol.Answer {
		return protocol.Answer{Status: protocol.StatusEvent, Mark: protocol.QueueMark{Order: order, Touched: touched}}
	}
	closed := protocol.Answer{Status: protocol.StatusClosed}
	for name, c := range map[string]struct {
		first  protocol.QueueMark // in the list that shows the holder, at 0
		events []protocol.Answer  // of the watch of touches, one each second
		last   protocol.QueueMark // in the list that does not, at 4 s
		from   time.Duration
	}{
		"the last touch":           {held(20), []protocol.Answer{seen(3, 21), seen(3, 22)}, held(22), 2 * time.Second},
		"by the list":              {held(20), nil, held(20), 0},
		"late, doubled, disorder":  {held(20), []protocol.Answer{seen(3, 22), seen(3, 21), seen(3, 22)}, held(22), time.Second},
		"a touch was missed":       {held(20), []protocol.Answer{seen(3, 21)}, held(22), 4 * time.Second},
		"after the watch's end":    {held(20), []protocol.Answer{closed, seen(3, 21)}, held(21), 4 * time.Second},
		"another tenure's":         {held(20), []protocol.Answer{seen(2, 21)}, held(21), 4 * time.Second},
		"an untouched tenure":      {held(0), nil, held(0), 4 * time.Second},
		"an event without a touch": {held(0), []protocol.Answer{seen(3, 0)}, held(0), 4 * time.Second},
		"a store that went back":   {held(20), []protocol.Answer{seen(3, 21)}, held(20), 4 * time.Second},
	} {
		s := newScript(t, Config{Self: "n1", Dialect: Etcd, Hold: hold})
		s.enter(9)
		start := s.now.Boot
		s.list(c.first, 3)
		watch, touches := s.asked(protocol.WatchEntry), s.asked(protocol.WatchTouch)
		for _, e := range c.events {
			s.after(time.Second)
			s.answer(touches, e)
		}
		s.after(start.Add(4 * time.Second).Sub(s.now.Boot))
		s.answer(watch, protocol.Answer{Status: protocol.StatusEvent})
		s.list(c.last)
		s.after(time.Millisecond)
		s.answer(s.asked(protocol.Verify), protocol.Answer{Entry: s.m.own, Revision: 60})
		if got, want := s.m.notBefore, start.Add(c.from+hold); got != want {
			t.Errorf("%s: it may lead %v after the first list; want %v", name, got.Sub(start), want.Sub(start))
		}
	}
}

// Q6: the touches of the first entry are watched by the candidate behind it alone, and once it is.
func TestWatchTouches(t *testing.T) {
	watched := func(s *script) (n int) {
		for _, a := range s.fx.Asks {
			if a.Op == protocol.WatchTouch {
				n++
			}
		}
		return n
	}
	s := newScript(t, Config{Self: "n1", Dialect: Etcd, Hold: 5 * time.Second})
	s.enter(9)
	if s.list(protocol.QueueMark{}, 3, 5); watched(s) != 0 {
		t.Error("the third watches the touches of the first")
	}
	s.after(s.m.pollAt.Sub(s.now.Boot))
	s.step(protocol.Input{Kind: protocol.Fire})
	s.answer(s.asked(protocol.Verify), protocol.Answer{Entry: protocol.Entry{Order: 5, Session: 105, Holder: "other"}, Revision: 55})
	if a := s.asked(protocol.WatchTouch); a.Entry.Order != 5 || a.Revision != 55 {
		t.Errorf("it watches %+v; want the touches of 5 since its last check, at 55", a)
	}
	for _, cfg := range []Config{{Self: "n1", Dialect: Etcd, ServersFixed: true}, {Self: "n1", Dialect: ZooKeeper}} {
		s := newScript(t, cfg)
		s.enter(9)
		if s.list(protocol.QueueMark{}, 3); watched(s) != 0 {
			t.Errorf("%v: it watches touches, and there are none", cfg.Dialect)
		}
	}
}

// Q6: from the mark on the claim of etcd's leader counts from touches alone.
func TestTouch(t *testing.T) {
	s := newScript(t, Config{Self: "n1", Dialect: Etcd, Hold: 5 * time.Second})
	s.lead()
	end := s.m.holdEnd
	s.after(10 * ms)
	s.do(protocol.Confirm) // between two touches
	s.answer(s.asked(protocol.Verify), protocol.Answer{Entry: s.m.own, Revision: 53})
	if s.m.holdEnd != end {
		t.Errorf("a read has moved the claim from %v to %v", end, s.m.holdEnd)
	}
	s.fire()
	s.answer(s.asked(protocol.Touch), protocol.Answer{Status: protocol.StatusUnknown})
	if s.m.holdEnd != end {
		t.Errorf("a touch whose outcome is unknown has moved the claim from %v to %v", end, s.m.holdEnd)
	}
	s.fire()
	sent := s.now.Boot
	touch := s.asked(protocol.Touch)
	s.after(10 * ms)
	s.answer(touch, protocol.Answer{Entry: s.m.own, Revision: 54})
	if want := sent.Add(s.m.cfg.Claim()); s.m.holdEnd != want {
		t.Errorf("the claim ends at %v; want %v", s.m.holdEnd, want)
	}
}

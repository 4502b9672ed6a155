package storetest

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

const (
	// life is the TTL of a session that does not end by itself, short that of one that does. ZooKeeper grants no longer
	// one by default.
	life  = 40 * time.Second
	short = 5 * time.Second
)

// open opens a session.
func (s *script) open(by int, ttl time.Duration) uint64 {
	s.Helper()
	a := s.do(by, done, protocol.Ask{Op: protocol.OpenSession, TTL: ttl})
	if a.Session == 0 || a.TTL != ttl {
		s.Fatalf("session %d of %v; want one of %v", a.Session, a.TTL, ttl)
	}
	return a.Session
}

func holder(by int) protocol.NodeID { return protocol.NodeID("n" + string(rune('1'+by))) }

func entering(by int, session, nonce uint64) protocol.Ask {
	return protocol.Ask{
		Op: protocol.Enter, Session: session, Nonce: protocol.Nonce{nonce, 1},
		Entry: protocol.Entry{Holder: holder(by), Session: session},
	}
}

// enter enters with a session.
func (s *script) enter(by int, session uint64) protocol.Entry {
	s.Helper()
	e := s.do(by, done, entering(by, session, session)).Entry
	if want := (protocol.Entry{Order: e.Order, Session: session, Holder: holder(by), Nonce: protocol.Nonce{session, 1}}); e != want || e.Order == 0 {
		s.Fatalf("entered as %+v; want %+v with an order", e, want)
	}
	return e
}

// join opens a session and enters.
func (s *script) join(by int) protocol.Entry {
	s.Helper()
	return s.enter(by, s.open(by, life))
}

// about asks for an operation on an entry.
func (s *script) about(by int, o protocol.Op, e protocol.Entry, want protocol.Status) protocol.Answer {
	s.Helper()
	return s.do(by, want, protocol.Ask{Op: o, Session: e.Session, Entry: e})
}

// verify expects the entry to be there, and another or itself to be the first.
func (s *script) verify(by int, own, first protocol.Entry) {
	s.Helper()
	if a := s.about(by, protocol.Verify, own, done); a.Entry != first {
		s.Fatalf("the first is %+v; want %+v", a.Entry, first)
	}
}

// list expects the first entry, the own one and the one before it to be these, all by rising order.
// Others may be shown as well. A participant without an entry expects the first.
func (s *script) list(by int, want ...protocol.Entry) protocol.Answer {
	s.Helper()
	var own protocol.Entry
	if len(want) > 0 {
		own = want[len(want)-1]
	}
	a := s.do(by, done, protocol.Ask{Op: protocol.List, Session: own.Session})
	var shown []protocol.Entry
	for i, e := range a.Entries {
		if i > 0 && e.Order <= a.Entries[i-1].Order {
			s.Fatalf("entries %+v; want rising orders", a.Entries)
		}
		if i == 0 || e == own || i+1 < len(a.Entries) && a.Entries[i+1] == own {
			shown = append(shown, e)
		}
	}
	if len(shown) != len(want) {
		s.Fatalf("entries %+v; want %+v", a.Entries, want)
	}
	for i := range want {
		if shown[i] != want[i] {
			s.Fatalf("entries %+v; want %+v", a.Entries, want)
		}
	}
	return a
}

// ended expects every operation that needs the session or its entry to fail.
func (s *script) ended(by int, e protocol.Entry) {
	s.Helper()
	s.do(by, gone, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
	s.do(by, gone, entering(by, e.Session, 99))
	s.about(by, protocol.Verify, e, gone)
	s.about(by, protocol.Touch, e, gone)
	s.do(by, gone, marking(protocol.Mark, e, held(e)))
	s.do(by, gone, marking(protocol.Leave, e, free(e)))
	s.do(by, gone, protocol.Ask{Op: protocol.CloseSession, Session: e.Session})
}

func held(e protocol.Entry) protocol.QueueMark {
	return protocol.QueueMark{Order: e.Order, Held: true, Hold: 1500 * time.Millisecond}
}

func free(e protocol.Entry) protocol.QueueMark { return protocol.QueueMark{Order: e.Order} }

func marking(o protocol.Op, e protocol.Entry, m protocol.QueueMark) protocol.Ask {
	return protocol.Ask{Op: o, Session: e.Session, Entry: e, SetMark: true, Mark: m}
}

// marked expects a mark.
func (s *script) marked(by int, m protocol.QueueMark, want ...protocol.Entry) {
	s.Helper()
	if a := s.list(by, want...); a.Mark != m {
		s.Fatalf("the mark is %+v; want %+v", a.Mark, m)
	}
}

// watching opens a watch of an entry from the state that a list shows, and returns what waits for
// its first event.
func (s *script) watching(by int, e protocol.Entry, revision uint64) func() {
	s.Helper()
	heard := s.begin(by, protocol.WatchEntry, e, revision)
	return func() { s.Helper(); heard() }
}

func (s *script) begin(by int, o protocol.Op, e protocol.Entry, revision uint64) func() protocol.Answer {
	s.Helper()
	ask := protocol.Ask{Op: o, Session: e.Session, Entry: e, Revision: revision}
	answer := s.s.Ask(by, ask)
	return func() protocol.Answer { s.Helper(); return s.got(by, event, &ask, answer()) }
}

// touch touches an entry, and expects another or itself to be the first.
func (s *script) touch(by int, own, first protocol.Entry) {
	s.Helper()
	if a := s.about(by, protocol.Touch, own, done); a.Entry != first {
		s.Fatalf("the first is %+v; want %+v", a.Entry, first)
	}
}

// touched expects that mark with a touch that came after one at that revision, and returns its own.
func (s *script) touched(by int, m protocol.QueueMark, after uint64, want ...protocol.Entry) uint64 {
	s.Helper()
	is := s.list(by, want...).Mark
	at := is.Touched
	if is.Touched = 0; is != m || at <= after {
		s.Fatalf("the mark is %+v, touched at %d; want %+v, touched after %d", is, at, m, after)
	}
	return at
}

// Queue are the cases of a queue in etcd's dialect. As the machines do, a participant names only
// entries that it has seen.
var Queue = []Case{
	{"an empty queue", func(s *script) { s.marked(0, protocol.QueueMark{}) }},
	{"enter", func(s *script) {
		a := s.join(0)
		s.list(0, a)
		s.verify(0, a, a)
		s.do(0, done, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session})
	}},
	{"enter again", func(s *script) {
		a := s.join(0)
		if again := s.do(0, done, entering(0, a.Session, 99)).Entry; again != a {
			s.Errorf("%+v; want the entry that is there, %+v", again, a)
		}
		s.list(0, a)
	}},
	{"the order", func(s *script) {
		a, b, c := s.join(0), s.join(1), s.join(2)
		s.list(0, a)
		s.list(1, a, b)
		s.list(2, a, b, c)
		s.verify(2, c, a)
		s.about(1, protocol.Leave, b, done)
		s.list(2, a, c)
		s.about(0, protocol.Leave, a, done)
		s.list(2, c)
		s.verify(2, c, c)
	}},
	{"a second entry is a later one", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.about(0, protocol.Leave, a, done)
		if again := s.enter(0, a.Session); again.Order <= b.Order {
			s.Errorf("order %d after %d", again.Order, b.Order)
		} else {
			s.list(0, b, again)
		}
	}},
	{"an unknown session", func(s *script) {
		s.do(0, gone, protocol.Ask{Op: protocol.KeepAlive, Session: 12345})
		s.do(0, gone, protocol.Ask{Op: protocol.CloseSession, Session: 12345})
		s.do(0, gone, entering(0, 12345, 1))
	}},
	{"a keep-alive tells the TTL", func(s *script) {
		session := s.open(0, life)
		if a := s.do(0, done, protocol.Ask{Op: protocol.KeepAlive, Session: session}); a.TTL != life {
			s.Errorf("%v; want %v", a.TTL, life)
		}
	}},
	{"close a session", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.list(0, a)
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.list(1, b)
		s.do(0, gone, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session})
		s.do(0, gone, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.do(0, gone, entering(0, a.Session, 99))
		s.verify(1, b, b)
	}},
	{"a session expires", func(s *script) {
		b := s.join(1)
		a := s.enter(0, s.open(0, short))
		s.list(0, b, a)
		s.until("an entry is gone after the TTL of its session", func() bool {
			return len(s.do(0, done, protocol.Ask{Op: protocol.List, Session: a.Session}).Entries) == 1
		})
		s.ended(0, a)
		s.verify(1, b, b)
	}},
	{"an entry is deleted by hand", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.list(0, a)
		s.s.Delete(a)
		s.about(0, protocol.Verify, a, gone)
		s.about(0, protocol.Touch, a, gone)
		s.do(0, gone, marking(protocol.Mark, a, held(a)))
		s.do(0, gone, marking(protocol.Leave, a, free(a)))
		s.marked(1, protocol.QueueMark{}, b)
		s.do(0, done, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session})
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
	}},
	{"the mark", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		s.marked(1, held(a), a, b)
		s.do(0, done, marking(protocol.Leave, a, free(a)))
		s.marked(1, free(a), b)
		s.do(0, gone, marking(protocol.Leave, a, held(a)))
		s.marked(1, free(a), b)
	}},
	{"the end of a session leaves the mark", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.marked(1, held(a), b)
	}},
	{"touch", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		s.marked(1, held(a), a, b)
		s.touch(0, a, a)
		first := s.touched(1, held(a), 0, a, b)
		s.touch(0, a, a)
		s.touched(1, held(a), first, a, b)
	}},
	{"a touch is of one entry", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.touch(0, a, a)
		s.marked(1, protocol.QueueMark{}, a, b)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		s.touch(0, a, a)
		last := s.touched(1, held(a), 0, a, b)
		s.about(0, protocol.Leave, a, done)
		if at := s.touched(1, held(a), 0, b); at != last {
			s.Errorf("touched at %d; want %d, as before the entry was deleted", at, last)
		}
		s.about(0, protocol.Touch, a, gone)
		s.do(1, done, marking(protocol.Mark, b, held(b)))
		s.marked(1, held(b), b)
		s.touch(1, b, b)
		s.touched(1, held(b), last, b)
	}},
	{"the answer to a touch is lost", func(s *script) {
		a := s.join(0)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		s.s.Lose(0)
		s.about(0, protocol.Touch, a, unknown)
		s.touched(0, held(a), 0, a)
	}},
	{"watch touches", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
		before := s.list(1, a, b).Revision
		heard := s.begin(1, protocol.WatchTouch, a, before)
		s.touch(0, a, a)
		at := s.touched(1, held(a), 0, a, b)
		for range 2 { // and once more, for what has happened already
			if m := heard().Mark; m.Order != a.Order || m.Touched != at {
				s.Errorf("an event of %+v; want a touch of %d at %d", m, a.Order, at)
			}
			heard = s.begin(1, protocol.WatchTouch, a, before)
		}
	}},
	{"watch the one ahead", func(s *script) {
		a, b := s.join(0), s.join(1)
		heard := s.watching(1, a, s.list(1, a, b).Revision)
		s.about(0, protocol.Leave, a, done)
		heard()
	}},
	{"watch the one ahead, whose session ends", func(s *script) {
		a, b := s.join(0), s.join(1)
		heard := s.watching(1, a, s.list(1, a, b).Revision)
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		heard()
	}},
	{"watch what has happened already", func(s *script) {
		a, b := s.join(0), s.join(1)
		revision := s.list(1, a, b).Revision
		s.about(0, protocol.Leave, a, done)
		s.watching(1, a, revision)()
	}},
	{"watch the own entry", func(s *script) {
		a := s.join(0)
		heard := s.watching(0, a, s.list(0, a).Revision)
		s.s.Delete(a)
		heard()
	}},
	{"the answer to an entry is lost", func(s *script) {
		session := s.open(0, life)
		s.s.Lose(0)
		s.do(0, unknown, entering(0, session, 1))
		s.join(1)
		a := s.do(0, done, entering(0, session, 2)).Entry
		if a.Nonce != (protocol.Nonce{1, 1}) || a.Session != session {
			s.Errorf("entered as %+v; want the first attempt", a)
		}
		s.verify(0, a, a)
	}},
	{"the answer to a mark is lost", func(s *script) {
		a := s.join(0)
		s.s.Lose(0)
		s.do(0, unknown, marking(protocol.Mark, a, held(a)))
		s.marked(0, held(a), a)
		s.do(0, done, marking(protocol.Mark, a, held(a)))
	}},
	{"the answer to leaving is lost", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.s.Lose(0)
		s.do(0, unknown, marking(protocol.Leave, a, free(a)))
		s.do(0, gone, marking(protocol.Leave, a, free(a)))
		s.marked(1, free(a), b)
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
	}},
	{"the answer to a close is lost", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.s.Lose(0)
		s.do(0, unknown, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.do(0, gone, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.list(1, b)
	}},
}

// ZooKeeper returns the cases of a queue in ZooKeeper's dialect: those of [Queue] that hold there, and its own.
func ZooKeeper() []Case {
	shared := slices.DeleteFunc(slices.Clone(Queue), func(c Case) bool { return slices.Contains(ofEtcd, c.Name) })
	return append(shared, ofZooKeeper...)
}

var ofZooKeeper = []Case{
	{"another entry", func(s *script) {
		a := s.join(0)
		b := s.enter(0, a.Session)
		if b.Order <= a.Order {
			s.Errorf("order %d after %d", b.Order, a.Order)
		}
		s.list(0, a, b)
		s.about(0, protocol.Leave, a, done)
		s.list(0, b)
	}},
	{"sync", func(s *script) {
		a := s.join(0)
		s.do(0, done, protocol.Ask{Op: protocol.Sync, Session: a.Session})
		s.do(0, done, protocol.Ask{Op: protocol.CloseSession, Session: a.Session})
		s.do(0, gone, protocol.Ask{Op: protocol.Sync, Session: a.Session})
	}},
	{"the answer to an entry is lost, and it is found after a sync", func(s *script) {
		session := s.open(0, life)
		s.s.Lose(0)
		s.do(0, unknown, entering(0, session, session))
		s.do(0, done, protocol.Ask{Op: protocol.Sync, Session: session})
		all := s.do(0, done, protocol.Ask{Op: protocol.List, Session: session}).Entries
		if len(all) != 1 || all[0].Session != session || all[0].Nonce != (protocol.Nonce{session, 1}) {
			s.Fatalf("entries %+v; want that of session %d", all, session)
		}
		s.about(0, protocol.Touch, all[0], done)
		s.verify(0, all[0], all[0])
		s.list(1, all[0], s.join(1))
	}},
	{"the answer to a sync is lost", func(s *script) {
		a := s.join(0)
		s.s.Lose(0)
		s.do(0, unknown, protocol.Ask{Op: protocol.Sync, Session: a.Session})
		s.do(0, done, protocol.Ask{Op: protocol.Sync, Session: a.Session})
		s.list(0, a)
	}},
	{"the answer to a touch is lost, and it is repeated", func(s *script) {
		a := s.join(0)
		for range 2 { // the first touch of an entry may be another request than the others
			s.s.Lose(0)
			s.about(0, protocol.Touch, a, unknown)
			s.about(0, protocol.Touch, a, done)
		}
	}},
	{"the answer to a close is lost, and it is not repeated", func(s *script) {
		a, b := s.join(0), s.join(1)
		s.s.Lose(0)
		closing := protocol.Ask{Op: protocol.CloseSession, Session: a.Session}
		if is := s.s.Ask(0, closing)().Status; is != done && is != unknown { // a client that ends with it may not tell
			s.Errorf("a close without an answer is answered by %q", is)
		}
		s.do(0, gone, closing)
		s.list(1, b)
	}},
}

// ofEtcd are the cases of Queue that do not hold in ZooKeeper's dialect.
var ofEtcd = []string{
	"enter again", "the answer to an entry is lost", // each Enter makes an entry
	"a session expires",                                                                  // the client keeps it alive
	"touch", "a touch is of one entry", "watch touches", "the answer to a touch is lost", // no candidate sees them
	"the answer to a close is lost",
}

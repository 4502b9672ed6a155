package count

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// store is a register and a queue that answer at once and lose nothing.
type store struct {
	waiting  []request // in the order of asking
	answers  []reply   // of watches
	revision uint64

	record  protocol.Record
	version uint64
	readers []watch

	sessions uint64
	entries  []protocol.Entry // by rising order
	mark     protocol.QueueMark
	watches  map[uint64][]watch // by the entry's order
}

type request struct {
	node int
	ask  protocol.Ask
}

type reply struct {
	node   int
	answer protocol.Answer
}

type watch struct {
	node   int
	number uint64
}

func (s *store) ask(node int, a protocol.Ask) { s.waiting = append(s.waiting, request{node, a}) }

// answer carries out the next request that has an answer, and returns it.
// Entries in it are valid until the next one.
func (s *store) answer() (node int, a protocol.Answer, ok bool) {
	for {
		if len(s.answers) > 0 {
			r := s.answers[0]
			s.answers = s.answers[1:]
			return r.node, r.answer, true
		}
		if len(s.waiting) == 0 {
			return 0, protocol.Answer{}, false
		}
		r := s.waiting[0]
		s.waiting = s.waiting[1:]
		if a, ok := s.apply(r.node, &r.ask); ok {
			return r.node, a, true
		}
	}
}

// apply carries out a request; false if its answer comes later.
func (s *store) apply(node int, a *protocol.Ask) (protocol.Answer, bool) {
	out := protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Session: a.Session, Store: "store"}
	switch a.Op {
	case protocol.Read:
	case protocol.Write, protocol.Delete:
		if a.Version != s.version {
			out.Status = protocol.StatusConflict
			break
		}
		s.revision++
		s.version, s.record = s.revision, a.Record
		if a.Op == protocol.Delete {
			s.version, s.record = 0, protocol.Record{}
		}
		for _, w := range s.readers {
			s.answers = append(s.answers, reply{w.node, protocol.Answer{Number: w.number, Status: protocol.StatusEvent, Version: s.version, Record: s.record, Store: "store"}})
		}
	case protocol.Watch:
		s.readers = append(s.readers, watch{node, a.Number})
		return out, false
	default:
		return s.queue(node, a, out)
	}
	out.Version, out.Record = s.version, s.record
	return out, true
}

// queue carries out a request to the queue.
func (s *store) queue(node int, a *protocol.Ask, out protocol.Answer) (protocol.Answer, bool) {
	gone := func(ok bool) {
		if !ok {
			out.Status = protocol.StatusGone
		}
	}
	switch a.Op {
	case protocol.OpenSession:
		s.sessions++
		out.Session, out.TTL = s.sessions, a.TTL
	case protocol.KeepAlive:
		out.TTL = a.TTL
	case protocol.CloseSession:
		s.expire(a.Session)
	case protocol.Enter:
		s.revision++
		out.Entry = protocol.Entry{Order: s.revision, Session: a.Session, Holder: a.Entry.Holder, Nonce: a.Nonce}
		s.entries = append(s.entries, out.Entry)
	case protocol.List:
		out.Entries, out.Mark = s.entries, s.mark
	case protocol.Sync:
		s.revision++
	case protocol.WatchEntry:
		if s.find(a.Entry.Order) < 0 {
			out.Status = protocol.StatusEvent
			break
		}
		if s.watches == nil {
			s.watches = make(map[uint64][]watch)
		}
		s.watches[a.Entry.Order] = append(s.watches[a.Entry.Order], watch{node, a.Number})
		return out, false
	case protocol.Verify:
		gone(s.find(a.Entry.Order) >= 0)
		if len(s.entries) > 0 {
			out.Entry = s.entries[0]
		}
	case protocol.Touch:
		s.revision++
		gone(s.find(a.Entry.Order) >= 0)
	case protocol.Mark:
		if gone(s.find(a.Entry.Order) >= 0); out.Status == protocol.StatusDone {
			s.revision++
			s.mark = a.Mark
		}
	case protocol.Leave:
		gone(s.find(a.Entry.Order) >= 0)
		if a.SetMark && out.Status == protocol.StatusDone {
			s.mark = a.Mark
		}
		s.remove(func(e protocol.Entry) bool { return e.Order == a.Entry.Order })
	default:
		out.Status = protocol.StatusRefused
	}
	out.Revision = s.revision
	return out, true
}

func (s *store) find(order uint64) int {
	i, ok := slices.BinarySearchFunc(s.entries, order, func(e protocol.Entry, o uint64) int {
		switch {
		case e.Order < o:
			return -1
		case e.Order > o:
			return 1
		}
		return 0
	})
	if !ok {
		return none
	}
	return i
}

// expire ends a session: its entries go.
func (s *store) expire(session uint64) {
	s.remove(func(e protocol.Entry) bool { return e.Session == session })
}

func (s *store) remove(which func(protocol.Entry) bool) {
	s.entries = slices.DeleteFunc(s.entries, func(e protocol.Entry) bool {
		if !which(e) {
			return false
		}
		s.revision++
		for _, w := range s.watches[e.Order] {
			s.answers = append(s.answers, reply{w.node, protocol.Answer{Number: w.number, Status: protocol.StatusEvent, Entry: e, Revision: s.revision}})
		}
		delete(s.watches, e.Order)
		return true
	})
}

// leave is the effect of a process's death on its connections: watches end.
func (s *store) leave(node int) {
	s.readers = slices.DeleteFunc(s.readers, func(w watch) bool { return w.node == node })
}

// waits reports whether a watch is set on the entry before the last one.
func (s *store) waits(node int) bool {
	n := len(s.entries)
	return n > 1 && slices.ContainsFunc(s.watches[s.entries[n-2].Order], func(w watch) bool { return w.node == node })
}

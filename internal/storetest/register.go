package storetest

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// record returns content number n. All contents differ; 0 is none, and even ones are free.
func record(n int) protocol.Record {
	switch {
	case n == 0:
		return protocol.Record{}
	case n%2 == 0:
		last := record(n - 1)
		return protocol.Record{
			Nonce: last.Nonce, Count: last.Count, Attempt: uint64(n), Duration: last.Duration,
			Free: protocol.FreeMark{Holder: last.Holder, Nonce: last.Nonce, Count: last.Count},
		}
	}
	return protocol.Record{
		Holder: "n1", Nonce: protocol.Nonce{1 << 63, uint64(n)}, Count: uint64(n) + 7, Attempt: uint64(n),
		Duration: 5*time.Second + time.Duration(n), Store: "store-1",
	}
}

// heard checks the answer that has, or has written, content n, and returns its version.
func (s *script) heard(n int, a protocol.Answer) uint64 {
	s.Helper()
	if a.Record != record(n) || (a.Version == 0) != (n == 0) {
		s.Fatalf("version %d with %+v; want %+v", a.Version, a.Record, record(n))
	}
	if was, known := s.contents[a.Version]; known && was != n && n != 0 {
		s.Fatalf("contents %d and %d have one version", was, n)
	}
	s.contents[a.Version] = n
	if s.asked && a.Store != s.store {
		s.Fatalf("the incarnation of the store is %q, and was %q", a.Store, s.store)
	}
	s.asked, s.store = true, a.Store
	return a.Version
}

// read expects to read content n.
func (s *script) read(by, n int) uint64 {
	s.Helper()
	return s.heard(n, s.do(by, done, protocol.Ask{Op: protocol.Read}))
}

// write expects to replace a version by content n.
func (s *script) write(by int, over uint64, n int) uint64 {
	s.Helper()
	return s.heard(n, s.do(by, done, writing(over, n)))
}

func writing(over uint64, n int) protocol.Ask {
	return protocol.Ask{Op: protocol.Write, Version: over, Record: record(n)}
}

// same expects two versions to be one.
func (s *script) same(is, was uint64) {
	s.Helper()
	if is != was {
		s.Fatalf("one content has versions %d and %d", was, is)
	}
}

// lost writes content n, without an answer.
func (s *script) lost(by int, over uint64, n int) {
	s.Helper()
	s.s.Lose(by)
	s.do(by, unknown, writing(over, n))
}

// Register are the cases of a register. As the machines do, a participant replaces only versions that
// it has seen, and writes no content twice.
var Register = []Case{
	{"no record", func(s *script) {
		s.read(0, 0)
		s.read(1, 0)
	}},
	{"create", func(s *script) {
		v := s.write(0, 0, 1)
		s.same(s.read(0, 1), v)
		s.same(s.read(1, 1), v)
	}},
	{"create what is there", func(s *script) {
		v := s.write(0, 0, 1)
		s.do(0, conflict, writing(0, 2))
		s.do(1, conflict, writing(0, 3))
		s.same(s.read(1, 1), v)
	}},
	{"replace", func(s *script) {
		v := s.write(0, s.write(0, 0, 1), 2)
		s.same(s.read(1, 2), v)
		v = s.write(1, v, 3)
		s.same(s.read(2, 3), v)
	}},
	{"replace an old version", func(s *script) {
		old := s.write(0, 0, 1)
		v := s.write(0, old, 2)
		s.do(0, conflict, writing(old, 3))
		s.same(s.read(1, 2), v)
	}},
	{"replace what another has replaced", func(s *script) {
		s.write(0, 0, 1)
		seen := s.read(1, 1)
		v := s.write(0, s.read(0, 1), 2)
		s.do(1, conflict, writing(seen, 3))
		s.same(s.read(1, 2), v)
		s.write(1, v, 3)
	}},
	{"replace at the same time", func(s *script) {
		s.write(0, 0, 1)
		var answers [Participants]func() protocol.Answer
		for i := range answers {
			s.read(i, 1)
		}
		v := s.read(0, 1)
		for i := range answers {
			answers[i] = s.s.Ask(i, writing(v, 3+i))
		}
		winner := 0
		for i, answer := range answers {
			switch a := answer(); {
			case a.Status == done && winner == 0:
				winner = 3 + i
			case a.Status != conflict:
				s.Fatalf("n%d: %q; want one write to be done, and conflicts", i+1, a.Status)
			}
		}
		s.read(0, winner)
	}},
	{"the record is deleted by hand", func(s *script) {
		old := s.write(0, 0, 1)
		s.s.Delete(protocol.Entry{})
		s.read(1, 0)
		s.do(0, conflict, writing(old, 2))
		s.read(0, 0)
		v := s.write(1, 0, 3)
		s.same(s.read(0, 3), v)
		s.do(0, conflict, writing(old, 4))
	}},
	{"the answer to a creation is lost", func(s *script) {
		s.lost(0, 0, 1)
		v := s.read(0, 1)
		s.do(0, conflict, writing(0, 2))
		s.write(0, v, 3)
	}},
	{"the answer to a replacement is lost", func(s *script) {
		old := s.write(0, 0, 1)
		s.lost(0, old, 2)
		s.do(0, conflict, writing(old, 3))
		s.same(s.read(1, 2), s.read(0, 2))
		s.write(0, s.read(0, 2), 3)
	}},
	{"the answer to a conflict is lost", func(s *script) {
		s.write(0, 0, 1)
		seen := s.read(1, 1)
		v := s.write(0, s.read(0, 1), 2)
		s.lost(1, seen, 3)
		s.same(s.read(1, 2), v)
	}},
}

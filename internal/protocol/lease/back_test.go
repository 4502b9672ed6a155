package lease

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// These tests have a store that goes back under the same incarnation: it was restored from a
// backup, or an asynchronous replica took over.

// asked steps once, without an answer, and returns the read or write of that step.
func (s *solo) asked(t *testing.T, in protocol.Input) protocol.Ask {
	t.Helper()
	in.Now = s.in.Now
	s.fx.Reset()
	s.m.Step(&in, &s.fx)
	for _, a := range s.fx.Asks {
		if a.Op != protocol.Watch {
			return a
		}
	}
	t.Fatalf("asks %v; want a read or a write", s.fx.Asks)
	return protocol.Ask{}
}

// TestNoTokenBelowOneSeen: an attempt that lands after a greater count was seen opens no term, and
// neither does one that lands after another participant's tenure with its count was seen.
func TestNoTokenBelowOneSeen(t *testing.T) {
	for name, seen := range map[string]protocol.Record{
		"greater, held":  {Holder: "n3", Nonce: protocol.Nonce{5, 6}, Count: 90, Attempt: 1, Duration: 15 * time.Second},
		"greater, free":  {Nonce: protocol.Nonce{5, 6}, Count: 90, Attempt: 2, Duration: 15 * time.Second, Free: protocol.FreeMark{Holder: "n3", Nonce: protocol.Nonce{5, 6}, Count: 90}},
		"equal, another": {Holder: "n3", Nonce: protocol.Nonce{5, 6}, Count: 4, Attempt: 1, Duration: 15 * time.Second},
	} {
		s := waiting(t)
		s.in.Now.Boot, s.in.Now.Mono = s.in.Now.Boot+20e9, s.in.Now.Mono+20e9
		ask := s.asked(t, protocol.Input{Kind: protocol.Fire})
		if ask.Op != protocol.Write || ask.Record.Count != 4 {
			t.Fatalf("asks %v; want an acquisition with 4", ask)
		}
		// The watch shows another's tenure. Then the store goes back, and the attempt lands.
		event := protocol.Input{Kind: protocol.Replied, Now: s.in.Now, Answer: protocol.Answer{Number: s.watch, Status: protocol.StatusEvent, Version: 30, Record: seen}}
		s.m.Step(&event, &s.fx)
		s.version, s.record = 8, ask.Record
		s.give(protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: ask.Number, Status: protocol.StatusDone, Version: 8}})
		if v := s.m.View(); v.Elected {
			t.Errorf("%s: elected with %d; want no term", name, v.Token)
		}
		for !s.m.View().Elected {
			s.fire()
		}
		if v := s.m.View(); v.Token <= seen.Count {
			t.Errorf("%s: elected with %d, and has seen %d", name, v.Token, seen.Count)
		}
	}
}

// TestHolderOfAStoreThatWentBack: the record shows an older renewal of the tenure than was
// acknowledged. The term ends, and the next one is won as if for the first time.
func TestHolderOfAStoreThatWentBack(t *testing.T) {
	s := leading(t)
	version, record := s.version, s.record
	for range 3 {
		s.fire()
	}
	token := s.m.View().Token
	s.version, s.record = version, record
	s.fire()
	if v := s.m.View(); v.Elected || len(s.orders) != 1 || s.orders[0].Kind != protocol.Stop || s.orders[0].Reason != "store-went-back" {
		t.Fatalf("%+v, ordered %v; want the term stopped", v, s.orders)
	}
	if s.version != version || s.record != record {
		t.Errorf("it wrote %+v", s.record)
	}
	s.command(protocol.Joined, token)
	from := s.in.Now.Boot
	for !s.m.View().Elected {
		s.fire()
	}
	if took := s.in.Now.Boot.Sub(from); took < 14*time.Second || s.m.View().Token <= token {
		t.Errorf("token %d after %v; want more than %d, after the longest lease there may be", s.m.View().Token, took, token)
	}
}

// TestReleaseOnAStoreThatWentBack: the record is not released there.
func TestReleaseOnAStoreThatWentBack(t *testing.T) {
	s := leading(t)
	version, record := s.version, s.record
	for range 3 {
		s.fire()
	}
	token := s.m.View().Token
	s.version, s.record = version, record
	s.command(protocol.Resign, 0)
	s.command(protocol.Joined, token)
	if s.m.stage != watching {
		t.Errorf("stage %v; want it to wait", s.m.stage)
	}
	if s.record.Holder == "" {
		t.Errorf("it set the record free: %+v", s.record)
	}
}

// TestOlderRenewalComesBack: a record that is older than one that was seen, by its attempt or by
// its version, does not tell whose lease may be left.
func TestOlderRenewalComesBack(t *testing.T) {
	held := protocol.Record{Holder: "n2", Nonce: protocol.Nonce{3, 4}, Count: 4, Attempt: 9, Duration: 5 * time.Second}
	older, free := held, held
	older.Attempt = 7
	free.Holder, free.Free = "", protocol.FreeMark{Holder: "n2", Nonce: held.Nonce, Count: 4}
	for _, c := range []struct {
		name   string
		global bool
		back   protocol.Record
		least  time.Duration
	}{
		{"an older attempt", false, older, 20 * time.Second},
		{"an older version", true, held, 20 * time.Second},
		{"an older version, free", true, free, 20 * time.Second},
		{"versions that begin anew", false, held, 5 * time.Second},
	} {
		s := newSolo(t, Config{Self: "n3", Duration: 5 * time.Second, MaxDuration: 20 * time.Second, GlobalVersions: c.global})
		s.version, s.record = 19, held
		s.command(protocol.Campaign, 0)
		s.shows(held)
		s.version = 17
		s.shows(c.back)
		from := s.in.Now.Boot
		for !s.m.View().Elected {
			s.fire()
		}
		if took := s.in.Now.Boot.Sub(from); took < c.least || took > c.least+time.Second || s.m.View().Token < 5 {
			t.Errorf("%s: token %d after %v; want at least 5, after %v", c.name, s.m.View().Token, took, c.least)
		}
		if s.version != 19 {
			t.Errorf("%s: version %d; want 19, and no term lost on the way", c.name, s.version)
		}
	}
}

// TestOwnOlderRenewalIsNotRetaken: what was lost may contain another participant's tenure.
func TestOwnOlderRenewalIsNotRetaken(t *testing.T) {
	s := leading(t)
	version, record := s.version, s.record
	for range 3 {
		s.fire()
	}
	token := s.unclocked()
	s.refuses = true
	s.command(protocol.Joined, token)
	s.refuses = false
	s.version = version - 1
	s.shows(record)
	from := s.in.Now.Boot
	for !s.m.View().Elected {
		s.fire()
	}
	if took := s.in.Now.Boot.Sub(from); took < 14*time.Second {
		t.Errorf("it leads again after %v; want it to wait for the longest lease there may be", took)
	}
}

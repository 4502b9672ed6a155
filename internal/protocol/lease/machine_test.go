package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func (s *solo) command(v protocol.Verb, token uint64) {
	s.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v, Token: token}})
}

// TestConfirm: a renewal that was sent after the command counts, one that was sent before does not.
func TestConfirm(t *testing.T) {
	s := leading(t)
	s.command(protocol.Confirm, 0)
	if got := s.m.View().Confirmed; got != 1 {
		t.Fatalf("%d confirmed after a renewal; want 1", got)
	}
	// A renewal leaves, and a Confirm comes before its answer.
	fire, confirm := s.in, s.in
	fire.Kind, fire.Now.Boot = protocol.Fire, s.m.NextFire()
	fire.Now.Mono = fire.Now.Boot
	s.fx.Reset()
	s.m.Step(&fire, &s.fx)
	ask := s.fx.Asks[0]
	confirm.Kind, confirm.Command, confirm.Now = protocol.Do, protocol.Command{Verb: protocol.Confirm}, fire.Now
	s.fx.Reset()
	s.m.Step(&confirm, &s.fx)
	if len(s.fx.Asks) != 0 {
		t.Fatalf("asks %v while a write is under way; want none", s.fx.Asks)
	}
	s.version, s.record = s.version+1, ask.Record
	answer := protocol.Input{Kind: protocol.Replied, Now: fire.Now, Answer: protocol.Answer{Number: ask.Number, Status: protocol.StatusDone, Version: s.version}}
	s.m.Step(&answer, &s.fx)
	if got := s.m.View().Confirmed; got != 1 {
		t.Fatalf("%d confirmed by a renewal from before; want 1", got)
	}
	if len(s.fx.Asks) != 1 || s.fx.Asks[0].Op != protocol.Write {
		t.Fatalf("asks %v after that; want another renewal at once", s.fx.Asks)
	}
	answer.Answer = protocol.Answer{Number: s.fx.Asks[0].Number, Status: protocol.StatusDone, Version: s.version + 1}
	s.m.Step(&answer, &s.fx)
	if got := s.m.View().Confirmed; got != 2 {
		t.Fatalf("%d confirmed; want 2", got)
	}
}

// TestConfirmOfNoTerm: a Confirm does not revive a term that is over.
func TestConfirmOfNoTerm(t *testing.T) {
	s := waiting(t)
	before := s.version
	s.command(protocol.Confirm, 0)
	if v := s.m.View(); v.Confirmed != 0 || v.Elected || s.version != before {
		t.Errorf("%+v, version %d; want nothing confirmed and nothing written", v, s.version)
	}
}

// TestNoCountLeft: a count that leaves no token halts the machine, with the reason.
func TestNoCountLeft(t *testing.T) {
	for _, c := range []struct {
		record, version uint64
		global, halts   bool
	}{
		{protocol.MaxCount - 1, 7, false, false},
		{protocol.MaxCount, 7, false, true},
		{1<<64 - 1, 7, false, true},
		{5, protocol.MaxCount, false, false},
		{5, protocol.MaxCount, true, true},
	} {
		s := newSolo(t, Config{Self: "n2", GlobalVersions: c.global})
		mark := protocol.FreeMark{Holder: "n1", Nonce: protocol.Nonce{1, 2}, Count: c.record}
		s.version, s.record = c.version, protocol.Record{Count: c.record, Attempt: 1, Free: mark}
		s.command(protocol.Campaign, 0)
		for range 10 {
			s.fire()
		}
		v := s.m.View()
		if halted := v.Role == protocol.Halted; halted != c.halts || halted != strings.Contains(v.Fault, "raise the era") || v.Active == c.halts {
			t.Errorf("%+v: %+v", c, v)
		}
		if c.halts && s.m.NextFire() != protocol.Never {
			t.Errorf("%+v: wants to be woken", c)
		}
	}
}

// TestWatchesComeBack: one watch is open while the machine waits, and the pauses before the next
// one grow while watches end at once.
func TestWatchesComeBack(t *testing.T) {
	s := waiting(t)
	var pauses []time.Duration
	for range 12 {
		number := s.watch
		closed := s.in.Now.Boot
		s.give(protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: number, Status: protocol.StatusClosed}})
		for s.watch == number {
			s.renewed() // by another path, so that it goes on waiting
			s.fire()
		}
		pauses = append(pauses, s.in.Now.Boot.Sub(closed))
	}
	most := s.m.c.Poll * 8
	if pauses[0] > 2*s.m.c.pause() || pauses[11] < most/2 || pauses[11] > most*3/2+s.m.c.Poll*2 {
		t.Errorf("pauses %v; want the first about %v, the last about %v", pauses, s.m.c.pause(), most)
	}
	s.renewed()
	if s.m.watch.pause != 0 {
		t.Errorf("a pause of %v after an event; want 0", s.m.watch.pause)
	}
}

// TestObserver: a participant that is no candidate reports the leader until its record has lapsed.
func TestObserver(t *testing.T) {
	s := waiting(t)
	s.command(protocol.Withdraw, 0)
	if v := s.m.View(); v.Role != protocol.Observer || v.Leader.ID != "n1" || v.Leader.Term != 3 {
		t.Fatalf("%+v; want an observer that sees n1 with 3", v)
	}
	end := s.in.Now.Boot.Add(16 * time.Second)
	for s.in.Now.Boot < end {
		s.fire()
	}
	if v := s.m.View(); v.Leader.ID != "" || s.version != 7 {
		t.Fatalf("%+v, version %d; want no leader, and nothing written", v, s.version)
	}
}

// TestResignLetsOthersGoFirst: a participant that has resigned takes its released record only after
// all others had the time to read it.
func TestResignLetsOthersGoFirst(t *testing.T) {
	s := leading(t)
	s.command(protocol.Resign, 0)
	token := s.orders[len(s.orders)-1].Token
	s.command(protocol.Joined, token)
	if s.record.Holder != "" || s.record.Free.Holder != "n1" || s.record.Free.Count != token {
		t.Fatalf("the record is %+v; want it free, marked by n1 with %d", s.record, token)
	}
	free := s.in.Now.Boot
	for !s.m.View().Elected {
		s.fire()
	}
	if took := s.in.Now.Boot.Sub(free); took < s.m.c.Poll*3/2 || took > 3*s.m.c.Poll {
		t.Errorf("it leads again after %v; want about %v", took, 2*s.m.c.Poll)
	}
	if got := s.m.View().Token; got != token+1 {
		t.Errorf("with the token %d; want %d", got, token+1)
	}
}

// unclocked ends a term without a change of its record: the clock is set.
func (s *solo) unclocked() (token uint64) {
	token = s.m.View().Token
	s.in.Now.Boot += protocol.Instant(time.Hour)
	s.give(protocol.Input{Kind: protocol.Fire})
	return token
}

// shows makes the watch report a record.
func (s *solo) shows(r protocol.Record) {
	s.version++
	s.record = r
	s.give(protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: s.watch, Status: protocol.StatusEvent, Version: s.version, Record: r}})
}

// TestOldRecordPutBack: the record of an ended tenure is put back while another participant leads.
// It must not be taken at once.
func TestOldRecordPutBack(t *testing.T) {
	for name, later := range map[string]protocol.Record{
		"held":     {Holder: "n2", Nonce: protocol.Nonce{3, 4}, Count: 100, Attempt: 1, Duration: 15 * time.Second},
		"released": {Count: 100, Attempt: 1, Duration: 15 * time.Second, Free: protocol.FreeMark{Holder: "n2", Nonce: protocol.Nonce{3, 4}, Count: 100}},
	} {
		s := leading(t)
		old := s.record
		token := s.unclocked()
		s.version++
		s.record = protocol.Record{Holder: "n3", Nonce: protocol.Nonce{5, 6}, Count: 50, Attempt: 1, Duration: 15 * time.Second}
		s.command(protocol.Joined, token) // it is a candidate, and learns that
		s.shows(later)
		if s.m.View().Elected {
			t.Fatalf("%s: elected: %+v", name, s.record)
		}
		s.shows(old)
		from, before := s.in.Now.Boot, s.version
		for s.version == before {
			s.fire()
		}
		if waited := s.in.Now.Boot.Sub(from); waited < old.Duration {
			t.Errorf("%s: it wrote after %v; want it to wait for %v", name, waited, old.Duration)
		}
	}
}

// TestEndedTenureIsRetaken: with no tenure in between the record is taken again at once, also after
// an attempt that was never made.
func TestEndedTenureIsRetaken(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := leading(t)
		token := s.unclocked()
		s.refuses = refuses
		s.command(protocol.Joined, token)
		if refuses {
			s.command(protocol.Withdraw, 0)
			s.refuses = false
			s.command(protocol.Campaign, 0)
		}
		from := s.in.Now.Boot
		for !s.m.View().Elected {
			s.fire()
		}
		if took := s.in.Now.Boot.Sub(from); took > s.m.c.Duration/2 || s.m.View().Token != token+1 {
			t.Errorf("refused %v: token %d after %v; want %d at once", refuses, s.m.View().Token, took, token+1)
		}
	}
}

// TestGarbageDuration: the machine does not wait for a duration that no participant may have, but
// for the longest one allowed.
func TestGarbageDuration(t *testing.T) {
	for _, d := range []time.Duration{longest + 1, 1<<63 - 1, 0, -1 << 63} {
		s := newSolo(t, Config{Self: "n2", Duration: 5 * time.Second, MaxDuration: 20 * time.Second})
		s.version, s.record = 7, protocol.Record{Holder: "n1", Nonce: protocol.Nonce{1, 2}, Count: 3, Attempt: 1, Duration: d}
		s.command(protocol.Campaign, 0)
		from := s.in.Now.Boot
		for !s.m.View().Elected {
			s.fire()
		}
		const want = 20 * time.Second
		if took := s.in.Now.Boot.Sub(from); took < want || took > want+time.Second {
			t.Errorf("a duration of %v: elected after %v; want %v", d, took, want)
		}
	}
}

// TestOlderTenurePutBack: a record from before a tenure that was seen does not tell that tenure's
// duration, so the machine waits for the longest one allowed.
func TestOlderTenurePutBack(t *testing.T) {
	s := newSolo(t, Config{Self: "n3", Duration: 5 * time.Second, MaxDuration: 20 * time.Second})
	s.version, s.record = 7, protocol.Record{Holder: "n2", Nonce: protocol.Nonce{3, 4}, Count: 4, Attempt: 1, Duration: 20 * time.Second}
	s.command(protocol.Campaign, 0)
	s.shows(s.record)
	s.version, s.record = 8, protocol.Record{Holder: "n1", Nonce: protocol.Nonce{1, 2}, Count: 3, Attempt: 9, Duration: 5 * time.Second}
	s.shows(s.record)
	from := s.in.Now.Boot
	for !s.m.View().Elected {
		s.fire()
	}
	if took := s.in.Now.Boot.Sub(from); took < 20*time.Second || s.m.View().Token < 5 {
		t.Errorf("token %d after %v; want at least 5, and not before n2's 20s are over", s.m.View().Token, took)
	}
}

// TestVersionComesAgain: another record under the version that was seen last is a new sight.
func TestVersionComesAgain(t *testing.T) {
	s := waiting(t)
	s.in.Now.Boot += protocol.Instant(10 * time.Second)
	s.in.Now.Mono += protocol.Instant(10 * time.Second)
	s.version--
	r := s.record
	r.Attempt++
	s.shows(r)
	if seen := s.m.seen; seen.at != s.in.Now.Boot || seen.record != r || seen.version != 7 {
		t.Errorf("seen %+v at %v; want %+v from now, %v", seen.record, seen.at, r, s.in.Now.Boot)
	}
}

// TestNothingBeforeBoot: a machine that was not booted does nothing.
func TestNothingBeforeBoot(t *testing.T) {
	m, err := New(Config{Self: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	var fx protocol.Effects
	m.Step(&protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, &fx)
	if v := m.View(); len(fx.Asks) != 0 || v.Role != protocol.Down || m.NextFire() != protocol.Never {
		t.Errorf("%+v, %+v", fx, v)
	}
	var _ protocol.Machine = m
}

// TestFencingShowsItsLease: after a resignation the view says until when the work may
// take to return, and each renewal moves that. It says so no more once the work has
// returned, or when the lease is not renewed any more.
func TestFencingShowsItsLease(t *testing.T) {
	s := leading(t)
	token, end := s.m.View().Token, s.m.View().LeaseEnd
	s.command(protocol.Resign, 0)
	v := s.m.View()
	if v.Role != protocol.Fencing || v.Active || v.Elected || v.LeaseEnd != end || v.Leader.ID != s.m.c.Self {
		t.Fatalf("%+v; want fencing, with the lease until %d", v, end)
	}
	s.fire()
	if got := s.m.View().LeaseEnd; got <= end {
		t.Errorf("a lease until %d after a renewal; want more than %d", got, end)
	}
	s.command(protocol.Joined, token)
	if v := s.m.View(); v.LeaseEnd != 0 || v.Leader.ID == s.m.c.Self {
		t.Errorf("%+v; want no lease when the work has returned", v)
	}

	s = leading(t)
	s.command(protocol.Resign, 0)
	jumped := protocol.Input{Kind: protocol.Fire, Now: s.in.Now}
	jumped.Now.Boot += protocol.Instant(time.Second)
	s.fx.Reset()
	s.m.Step(&jumped, &s.fx)
	if v := s.m.View(); v.Role != protocol.Fencing || v.LeaseEnd != 0 {
		t.Errorf("%+v after a jump; want fencing without a lease", v)
	}
}

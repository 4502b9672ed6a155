package lease

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// solo is one machine and a register that always answers.
type solo struct {
	m       *Machine
	in      protocol.Input
	fx      protocol.Effects
	version uint64
	record  protocol.Record
	watch   uint64
	orders  []protocol.Order
	refuses bool // every write
}

func newSolo(t testing.TB, c Config) *solo {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &solo{m: m, in: protocol.Input{Now: protocol.Reading{Boot: 1e9, Mono: 1e9}}}
	s.give(protocol.Input{Kind: protocol.Boot})
	return s
}

// give hands in an input, and the answers to its asks, a microsecond each.
func (s *solo) give(in protocol.Input) {
	now := s.in.Now
	s.in = in
	s.in.Now = now
	for {
		s.in.Now.Boot += 1000
		s.in.Now.Mono += 1000
		s.in.Rand = draw(uint64(s.in.Now.Boot), forPause)
		s.fx.Reset()
		s.m.Step(&s.in, &s.fx)
		s.orders = append(s.orders, s.fx.Orders...)
		if len(s.fx.Asks) == 0 {
			return
		}
		for i := range s.fx.Asks {
			a := &s.fx.Asks[i]
			if a.Op == protocol.Watch {
				s.watch = a.Number
				continue
			}
			s.in = protocol.Input{Kind: protocol.Replied, Now: s.in.Now, Answer: protocol.Answer{Number: a.Number, Status: protocol.StatusDone}}
			switch {
			case a.Op == protocol.Read:
				s.in.Answer.Record = s.record
			case s.refuses:
				s.in.Answer.Status = protocol.StatusRefused
			case a.Version == s.version:
				s.version++
				s.record = a.Record
			default:
				s.in.Answer.Status = protocol.StatusConflict
			}
			s.in.Answer.Version = s.version
		}
		if s.in.Kind != protocol.Replied {
			return
		}
	}
}

// fire lets time pass until NextFire.
func (s *solo) fire() {
	d := max(0, s.m.NextFire()-s.in.Now.Boot)
	s.in.Now.Boot += d
	s.in.Now.Mono += d
	s.give(protocol.Input{Kind: protocol.Fire})
}

// leading is a machine that leads.
func leading(t testing.TB) *solo {
	s := newSolo(t, Config{Self: "n1"})
	s.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	for range 100 {
		if s.m.View().Active {
			s.orders = make([]protocol.Order, 0, 16)
			return s
		}
		s.fire()
	}
	t.Fatal("it does not lead")
	return nil
}

// waiting is a machine that waits for a holder.
func waiting(t testing.TB) *solo {
	s := newSolo(t, Config{Self: "n2"})
	s.version, s.record = 7, protocol.Record{Holder: "n1", Nonce: protocol.Nonce{1, 2}, Count: 3, Attempt: 1, Duration: 15 * time.Second}
	s.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	s.fire()
	return s
}

// renewed lets a waiting machine see one more renewal.
func (s *solo) renewed() {
	s.version++
	s.record.Attempt++
	s.give(protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: s.watch, Status: protocol.StatusEvent, Version: s.version, Record: s.record}})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := leading(t)
	if n := testing.AllocsPerRun(1000, s.fire); n != 0 || !s.m.View().Active {
		t.Errorf("a renewal allocates %v times; want 0 (active: %v)", n, s.m.View().Active)
	}
	if s.record.Attempt < 1000 {
		t.Errorf("%d attempts; want at least 1000", s.record.Attempt)
	}
	s = waiting(t)
	if n := testing.AllocsPerRun(1000, func() { s.renewed(); s.fire() }); n != 0 || s.m.stage != watching || s.m.seen.version != s.version {
		t.Errorf("a wait allocates %v times; want 0 (stage %v)", n, s.m.stage)
	}
}

// BenchmarkRenew is two steps: the time has come, the answer has come.
func BenchmarkRenew(b *testing.B) {
	s := leading(b)
	b.ReportAllocs()
	for b.Loop() {
		s.fire()
	}
}

// BenchmarkWait is one step: a watch tells of a renewal.
func BenchmarkWait(b *testing.B) {
	s := waiting(b)
	b.ReportAllocs()
	for b.Loop() {
		s.renewed()
	}
}

// BenchmarkState is what a checker does at each state.
func BenchmarkState(b *testing.B) {
	s := leading(b)
	var state []byte
	b.ReportAllocs()
	for b.Loop() {
		state = s.m.AppendState(state[:0])
	}
}

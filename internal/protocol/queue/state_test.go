package queue

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// pair is a machine and a copy that is loaded from its state before each step; both must do the
// same.
type pair struct {
	t  testing.TB
	m  *Machine
	fx protocol.Effects
}

func newPair(t testing.TB, cfg Config) *pair {
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{t: t, m: m}
}

func (p *pair) step(in *protocol.Input) {
	p.t.Helper()
	before := p.m.AppendState(nil)
	c, err := New(p.m.Config())
	if err != nil {
		p.t.Fatal(err)
	}
	c.cfg.mutants = p.m.cfg.mutants
	p.fx.Reset()
	p.m.Step(in, &p.fx)
	if err := classictest.Reloaded(p.m, &p.fx, c, before, in); err != nil {
		p.t.Fatal(err)
	}
	if !reflect.DeepEqual(p.m, c) {
		p.t.Fatalf("after %+v:\n%+v\nthe copy:\n%+v", in, p.m, c)
	}
}

// chaos makes inputs of random words: valid and invalid ones. Only some of them keep the machine's
// assumptions.
type chaos struct {
	word    func() uint64
	now     protocol.Reading
	asks    []protocol.Ask
	entries [4]protocol.Entry
}

func (c *chaos) pick(n uint64) uint64 { return c.word() % n }

func (c *chaos) entry() protocol.Entry {
	e := protocol.Entry{Order: c.pick(8), Session: c.pick(4), Holder: "n1", Nonce: protocol.Nonce{c.pick(3), c.pick(3)}}
	if c.pick(64) == 0 {
		e.Order = c.word()
	}
	if len(c.asks) > 0 && c.pick(4) > 0 {
		a := &c.asks[c.pick(uint64(len(c.asks)))]
		e.Nonce, e.Session = a.Nonce, a.Session
		if a.Entry != (protocol.Entry{}) && c.pick(2) == 0 {
			e.Nonce, e.Order = a.Entry.Nonce, max(a.Entry.Order, e.Order)
		}
	}
	return e
}

func (c *chaos) next(m *Machine) protocol.Input {
	var d time.Duration
	switch c.pick(24) {
	case 0:
		d = time.Duration(c.pick(uint64(5 * time.Second)))
	case 1, 2, 3, 4, 5, 6:
		if at := m.NextFire(); at != protocol.Never && at > c.now.Boot {
			d = at.Sub(c.now.Boot)
		}
	case 7:
		d = time.Duration(c.pick(uint64(time.Second)))
	}
	c.now.Boot, c.now.Mono = c.now.Boot.Add(d), c.now.Mono.Add(d)
	if c.pick(200) == 0 {
		c.now.Mono = c.now.Mono.Add(time.Duration(c.pick(uint64(time.Minute))) - 30*time.Second)
	}
	in := protocol.Input{Now: c.now, Rand: c.word()}
	switch k := c.pick(32); {
	case k == 0 && c.pick(4) == 0:
		in.Kind = protocol.InputKind(c.pick(10))
	case k < 2:
		in.Kind = protocol.Do
		in.Command = protocol.Command{Verb: protocol.Verb(c.pick(9)), Token: m.own.Order}
		if c.pick(3) > 0 {
			in.Command.Verb = []protocol.Verb{protocol.Campaign, protocol.Joined, protocol.Recover, protocol.Confirm}[c.pick(4)]
		}
	case k < 10 || len(c.asks) == 0:
		in.Kind = protocol.Fire
	default:
		in.Kind = protocol.Replied
		a := &c.asks[len(c.asks)-1-int(c.pick(uint64(len(c.asks))))]
		if i := slices.IndexFunc(c.asks, func(a protocol.Ask) bool { return a.Number == m.main.number }); i >= 0 && c.pick(2) == 0 {
			a = &c.asks[i]
		}
		in.Answer = protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Session: a.Session, TTL: m.cfg.TTL, Revision: c.pick(100)}
		if c.pick(16) == 0 {
			in.Answer.Status = protocol.Status(c.pick(9))
		}
		if c.pick(32) == 0 {
			in.Answer.TTL = time.Duration(c.word())
		}
		if a.Op == protocol.OpenSession || c.pick(64) == 0 {
			in.Answer.Session = 1 + c.pick(3)
		}
		switch a.Op {
		case protocol.Enter:
			in.Answer.Entry = protocol.Entry{Order: 1 + c.pick(8), Session: a.Session, Holder: m.cfg.Self, Nonce: a.Nonce}
		case protocol.Verify:
			in.Answer.Entry = a.Entry
		case protocol.WatchEntry:
			in.Answer.Status = protocol.StatusEvent + protocol.Status(c.pick(2))
		case protocol.List:
			list := append(c.entries[:0], m.own)
			if c.pick(8) == 0 {
				list = list[:0]
			}
			for range c.pick(3) {
				list = append(list, c.entry())
			}
			if c.pick(4) > 0 {
				slices.SortFunc(list, func(x, y protocol.Entry) int { return int(int64(x.Order - y.Order)) })
			}
			in.Answer.Entries = list
		}
		if c.pick(16) == 0 {
			in.Answer.Entry = c.entry()
		}
		if c.pick(2) == 0 {
			in.Answer.Mark = protocol.QueueMark{Order: c.pick(3), Held: c.pick(4) == 0, Hold: time.Duration(c.pick(uint64(10 * time.Second)))}
			if c.pick(32) == 0 {
				in.Answer.Mark.Hold = time.Duration(c.word())
			}
		}
	}
	return in
}

// chaotic runs a machine on random inputs and checks what holds for any inputs.
func chaotic(t testing.TB, cfg Config, steps int, word func() uint64) (leads int) {
	p := newPair(t, cfg)
	c := &chaos{word: word, now: protocol.Reading{Boot: 1e12, Mono: 1e12}}
	p.step(&protocol.Input{Kind: protocol.Boot, Now: c.now})
	var elected, led bool
	var token uint64
	for range steps {
		in := c.next(p.m)
		p.step(&in)
		for _, o := range p.fx.Orders {
			switch {
			case o.Kind == protocol.Elected && !elected:
				elected, led, token = true, false, o.Token
			case o.Kind == protocol.Lead && elected && !led && o.Token == token:
				led = true
				leads++
			case o.Kind == protocol.Stop && elected && o.Token == token && o.Reason != "":
				elected = false
			default:
				t.Fatalf("after %+v: order %v, elected %v, led %v, token %d", in, o, elected, led, token)
			}
		}
		v := p.m.View()
		if v.Elected != elected || v.Active != (elected && led) || v.Elected && v.Token != token {
			t.Fatalf("after %+v: view %+v, orders say elected %v, led %v, token %d", in, v, elected, led, token)
		}
		if v.Active && (v.LeaseEnd <= in.Now.Boot || p.m.NextFire() > v.LeaseEnd) {
			t.Fatalf("after %+v: claims until %v, now %v, wakes at %v", in, v.LeaseEnd, in.Now.Boot, p.m.NextFire())
		}
		if at := p.m.NextFire(); at <= in.Now.Boot {
			t.Fatalf("after %+v: wants to be woken at %v, now %v, in %s", in, at, in.Now.Boot, phaseName(p.m.phase))
		}
		if n := len(p.fx.Asks); n > 10 {
			t.Fatalf("after %+v: %d asks", in, n)
		}
		c.asks = append(c.asks, p.fx.Asks...)
		c.asks = c.asks[max(0, len(c.asks)-6):]
	}
	return leads
}

// TestReloaded compares a machine with its reloaded copy at every step.
func TestReloaded(t *testing.T) {
	for name, cfg := range settings() {
		t.Run(name, func(t *testing.T) {
			leads := 0
			for seed := range long.Or[uint64](100, 10) {
				rng := rand.New(rand.NewPCG(seed, 3))
				leads += chaotic(t, cfg, 1500, rng.Uint64)
			}
			if leads < long.Or(100, 5) {
				t.Errorf("%d tenures in all that; the inputs reach too little", leads)
			}
			t.Logf("%d tenures", leads)
		})
	}
}

// FuzzStep feeds a machine any inputs.
func FuzzStep(f *testing.F) {
	f.Add([]byte("an election"), uint8(0))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 250, 17}, 200), uint8(1))
	f.Add(bytes.Repeat([]byte{9, 200, 31, 64, 5}, 300), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		cfg := []Config{{Self: "n0", Dialect: Etcd, ServersFixed: true}, {Self: "n0", Dialect: Etcd, Hold: 5 * time.Second}, {Self: "n0", Dialect: ZooKeeper}}[which%3]
		rng := rand.New(rand.NewPCG(uint64(len(data)), 4))
		word := func() uint64 {
			w := rng.Uint64() &^ 0xff
			if len(data) > 0 {
				w |= uint64(data[0])
				data = data[1:]
			}
			return w
		}
		chaotic(t, cfg, min(len(data)/3+10, 200), word)
	})
}

func FuzzLoadState(f *testing.F) {
	classictest.FuzzLoadState(f, func() (*Machine, error) { return New(Config{Self: "n0", Dialect: ZooKeeper}) })
}

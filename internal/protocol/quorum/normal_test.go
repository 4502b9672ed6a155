package quorum

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// shadow is a machine that is normalised after every step of another machine, and gets the same
// inputs.
type shadow struct {
	m      *Machine
	zero   protocol.Reading // the other's, when this one's is 0
	number uint64           // of the save that is number 0
	before protocol.Instant // the other's NextFire after the latest step
}

func (s *shadow) in(in protocol.Input) protocol.Input {
	in.Now.Boot -= s.zero.Boot
	in.Now.Mono -= s.zero.Mono
	if in.Kind == protocol.Saved {
		in.Number -= min(in.Number, s.number)
	}
	return in
}

// normalize normalises it at a reading of the other's clocks.
func (s *shadow) normalize(at protocol.Reading) {
	s.number += s.m.Normalize(protocol.Reading{Boot: at.Boot - s.zero.Boot, Mono: at.Mono - s.zero.Mono})
	s.zero = at
}

// equal returns the difference of two machines after a step, or "".
func (s *shadow) equal(m *Machine, fx, own *protocol.Effects, now protocol.Reading) string {
	for i := range own.Saves {
		own.Saves[i].Number += s.number
	}
	for i := range own.Sends {
		if own.Sends[i].After > 0 {
			own.Sends[i].After += s.number
		}
	}
	same := func(what string, a, b any) string {
		if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
			return fmt.Sprintf("%s: %s; normalised, %s", what, x, y)
		}
		return ""
	}
	if d := same("orders", fx.Orders, own.Orders); d != "" {
		return d
	}
	if d := same("saves", fx.Saves, own.Saves); d != "" {
		return d
	}
	if len(fx.Sends) != len(own.Sends) {
		return same("sends", fx.Sends, own.Sends)
	}
	for i := range fx.Sends {
		a, b := fx.Sends[i], own.Sends[i]
		if !reflect.DeepEqual(a, b) {
			return same("send", a, b)
		}
	}
	a, b := max(m.NextFire(), now.Boot), s.m.NextFire()
	if b != protocol.Never {
		b += s.zero.Boot
	}
	if b = max(b, now.Boot); a != b {
		return fmt.Sprintf("NextFire: %v; normalised, %v", a, b)
	}
	v, w := m.View(), s.m.View()
	if v.Proven(now) != w.Proven(protocol.Reading{Boot: now.Boot - s.zero.Boot, Mono: now.Mono - s.zero.Mono}) {
		return "only one of them is proven"
	}
	if w.OwesUntil != 0 {
		w.OwesUntil += s.zero.Boot
	}
	v.LeaseEnd, v.NotBefore, v.Read = w.LeaseEnd, w.NotBefore, w.Read
	return same("view", v, w)
}

// TestNormalize runs each machine of random worlds beside one that is
// normalised after every step, and again later, and once for a hundred steps.
func TestNormalize(t *testing.T) {
	seeds := long.Or[uint64](200, 15)
	steps := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		w := chaos(seed, func(c *Config) { c.Unclocked = true })
		if w.jumps {
			continue // Normalize assumes clocks that do not jump
		}
		shadows := map[string]*shadow{}
		var fx protocol.Effects
		w.after = func(n *node, in *protocol.Input, real *protocol.Effects) {
			key := n.name()
			s := shadows[key]
			if in.Kind == protocol.Boot {
				m, err := New(n.cfg)
				if err != nil {
					t.Fatal(err)
				}
				s = &shadow{m: m}
				shadows[key] = s
			}
			if s == nil {
				return
			}
			if at := in.Now; steps%3 == 0 && in.Kind != protocol.Boot { // time goes on between two steps
				s.normalize(at)
				if early := s.m.NextFire() <= 0; early != (s.before <= at.Boot) {
					t.Fatalf("seed %d, step %d, %s: NextFire was %v; at %v it is past for one only, normalised %v", seed, steps, key, s.before, at.Boot, early)
				}
			}
			own := s.in(*in)
			fx.Reset()
			s.m.Step(&own, &fx)
			if d := s.equal(n.m, real, &fx, in.Now); d != "" {
				t.Fatalf("seed %d, step %d, %s, %v: %s", seed, steps, key, in.Kind, d)
			}
			s.before = n.m.NextFire()
			steps++
			if steps%100 != 0 {
				s.normalize(in.Now)
				b := s.m.AppendState(nil)
				s.m.Normalize(protocol.Reading{})
				if string(b) != string(s.m.AppendState(nil)) {
					t.Fatalf("seed %d, step %d: a normalised machine changes when it is normalised again", seed, steps)
				}
			}
		}
		w.run(2 * time.Second)
	}
	t.Logf("%d steps", steps)
}

// TestNormalizeKnowsAllInstants sets every instant of a machine, wherever it is, and checks that
// Normalize has moved it: a new field must not be forgotten.
func TestNormalizeKnowsAllInstants(t *testing.T) {
	const now, later = protocol.Instant(1000 * time.Hour), protocol.Instant(1000*time.Hour + time.Minute)
	busy := func() *Machine {
		m, err := New(Config{Self: voter(0), Membership: members(3)})
		if err != nil {
			t.Fatal(err)
		}
		var fx protocol.Effects
		at := protocol.Reading{Boot: now, Mono: now}
		m.Step(&protocol.Input{Kind: protocol.Boot, Now: at}, &fx)
		m.badDisk = true
		m.round.kind = voting
		m.promises.n = protocol.MaxVoters
		for i := range m.tenure.marks {
			m.tenure.marks[i].seq = uint64(i + 1)
		}
		return m
	}
	// In which role an instant is alive, if not in all.
	role := map[string]protocol.Role{"tenure": protocol.Leader}
	count := 0
	var walk func(path []int, typ reflect.Type, name string)
	walk = func(path []int, typ reflect.Type, name string) {
		switch {
		case typ == reflect.TypeFor[protocol.Instant]():
			m := busy()
			m.role = protocol.PreCandidate
			for part, r := range role {
				if strings.HasPrefix(name, part+".") {
					m.role = r
				}
			}
			v := reflect.ValueOf(m).Elem()
			for _, i := range path {
				if v.Kind() == reflect.Array {
					v = v.Index(i)
				} else {
					v = v.Field(i)
				}
			}
			field := (*protocol.Instant)(v.Addr().UnsafePointer())
			*field = later
			m.Normalize(protocol.Reading{Boot: now, Mono: now})
			if *field == later {
				t.Errorf("%s is not treated by Normalize", name)
			}
			count++
		case typ == reflect.TypeFor[Config]():
			return
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				walk(append(slices.Clone(path), i), typ.Field(i).Type, strings.TrimPrefix(name+"."+typ.Field(i).Name, "."))
			}
		case typ.Kind() == reflect.Array:
			for i := range typ.Len() {
				walk(append(slices.Clone(path), i), typ.Elem(), fmt.Sprintf("%s[%d]", name, i))
			}
		case typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map:
			if holds(typ.Elem()) {
				t.Errorf("%s contains an instant that this test does not reach", name)
			}
		}
	}
	walk(nil, reflect.TypeFor[Machine](), "")
	if count < 100 {
		t.Errorf("only %d instants were found", count)
	}
}

// holds reports whether values of a type contain an instant.
func holds(typ reflect.Type) bool {
	switch {
	case typ == reflect.TypeFor[protocol.Instant]():
		return true
	case typ.Kind() == reflect.Struct:
		for field := range typ.Fields() {
			if holds(field.Type) {
				return true
			}
		}
	case typ.Kind() == reflect.Array || typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice:
		return holds(typ.Elem())
	}
	return false
}

// TestDeaf hands machines of random worlds messages that Deaf has reported at some earlier time, in
// this incarnation or in an earlier one: each must have no more effect than a hint about an unknown
// node.
func TestDeaf(t *testing.T) {
	type heard struct {
		from protocol.NodeID
		msg  protocol.Message
		deaf bool
	}
	tried := 0
	for seed := uint64(1); seed <= long.Or[uint64](60, 15); seed++ {
		w := chaos(seed, nil)
		if w.jumps {
			continue
		}
		kept, steps := map[protocol.Voter][]heard{}, 0 // a node whose disk was wiped is another voter
		var one, other protocol.Effects
		w.after = func(n *node, in *protocol.Input, _ *protocol.Effects) {
			all := kept[n.cfg.Self]
			if in.Kind == protocol.Receive && len(all) < 60 {
				all = append(all, heard{from: in.From, msg: in.Message})
				kept[n.cfg.Self] = all
			}
			if steps++; steps%5 != 0 {
				return
			}
			state := n.m.AppendState(nil)
			clone := func() *Machine {
				m, err := New(n.cfg)
				if err == nil {
					err = m.LoadState(state)
				}
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			m := clone()
			for i := range all {
				h := &all[i]
				if !h.deaf {
					b, err := DecodeBallot(n.disk)
					h.deaf = err == nil && m.Deaf(h.from, &h.msg) && h.msg.Membership.Compare(b.Membership) <= 0
					continue
				}
				place := m.place(protocol.Voter{ID: h.from, Dir: h.msg.Dir})
				if place >= 0 && (h.msg.Priority != m.priorityOf(place) || h.msg.Position != m.known[place].position) {
					continue // its sender has changed
				}
				a, b := clone(), clone()
				one.Reset()
				other.Reset()
				a.Step(&protocol.Input{Kind: protocol.Receive, Now: in.Now, From: h.from, Message: h.msg}, &one)
				b.Step(&protocol.Input{Kind: protocol.PeerClosed, Now: in.Now, From: "nobody"}, &other)
				a.Normalize(in.Now)
				b.Normalize(in.Now)
				if fmt.Sprint(one) != fmt.Sprint(other) || string(a.AppendState(nil)) != string(b.AppendState(nil)) {
					t.Fatalf("seed %d, step %d: %s hears a %s of %s: %+v\n%+v\n%+v", seed, steps, n.name(), h.msg.Type, h.from, h.msg, one, other)
				}
				tried++
			}
		}
		w.run(2 * time.Second)
	}
	if tried < 1000 {
		t.Errorf("only %d were tried", tried)
	}
	t.Logf("%d messages", tried)
}

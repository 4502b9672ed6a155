package quorum

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// TestStateIsComplete repeats each step of random worlds in a machine that was loaded from the
// state before it: the effects and the state after it must be the same.
func TestStateIsComplete(t *testing.T) {
	steps := 0
	for seed := uint64(1); seed <= long.Or[uint64](25, 5); seed++ {
		w := chaos(seed, nil)
		before := make(map[*node][]byte)
		w.after = func(n *node, in *protocol.Input, fx *protocol.Effects) {
			after := n.m.AppendState(nil)
			m, err := New(n.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if in.Kind != protocol.Boot {
				if err := classictest.Reloaded(n.m, fx, m, before[n], in); err != nil {
					t.Fatalf("seed %d, %v, %s: %v", seed, w.Now, n.name(), err)
				}
			}
			before[n] = after
			steps++
		}
		w.run(3 * time.Second)
		if len(w.violations) > 0 {
			t.Fatalf("seed %d: %v", seed, w.violations)
		}
	}
	t.Logf("%d steps", steps)
}

// TestStateKnowsAllFields changes every field of a machine, wherever it is, and checks that its
// state changes with it, and can be loaded or is refused. A new field must not be forgotten.
func TestStateKnowsAllFields(t *testing.T) {
	busy := func() *Machine {
		m, err := New(Config{Self: voter(0), Membership: members(protocol.MaxVoters)})
		if err != nil {
			t.Fatal(err)
		}
		step(m, &protocol.Input{Kind: protocol.Boot, Now: at(time.Hour)})
		m.role, m.round.kind = protocol.Leader, voting
		m.ballot.VotedFor, m.termSave = voter(1), 9
		next := members(protocol.MaxVoters)
		next.Version = 2
		m.next, m.nextSave = next, 7
		m.promises.n, m.dead.n = protocol.MaxVoters-1, protocol.MaxVoters-1
		for i := range m.known {
			m.known[i].pace.incarnation = 1
		}
		for i := range m.tenure.marks {
			m.tenure.marks[i].seq = uint64(i + marks)
		}
		return m
	}
	apart := map[string]string{
		"cfg":   "it is given",
		"rand":  "of the step",
		"dirty": "false between steps",
		"self":  "follows from the membership",
		"fault": "of another role",
	}
	for i := range protocol.MaxVoters {
		if i == protocol.MaxVoters-1 {
			apart[fmt.Sprintf("promises.all[%d]", i)] = "empty"
			apart[fmt.Sprintf("dead.all[%d]", i)] = "empty"
		}
	}
	count := 0
	var walk func(path []int, typ reflect.Type, name string)
	walk = func(path []int, typ reflect.Type, name string) {
		switch {
		case apart[name] != "":
			return
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				walk(append(slices.Clone(path), i), typ.Field(i).Type, strings.TrimPrefix(name+"."+typ.Field(i).Name, "."))
			}
			return
		case typ.Kind() == reflect.Array && typ.Elem().Kind() != reflect.Uint8:
			for i := range typ.Len() {
				walk(append(slices.Clone(path), i), typ.Elem(), fmt.Sprintf("%s[%d]", name, i))
			}
			return
		}
		m := busy()
		before := m.AppendState(nil)
		field := reflect.ValueOf(m).Elem()
		for _, i := range path {
			if field.Kind() == reflect.Array {
				field = field.Index(i)
			} else {
				field = field.Field(i)
			}
		}
		p := field.Addr().UnsafePointer()
		switch field.Kind() {
		case reflect.Bool:
			*(*bool)(p) = !*(*bool)(p)
		case reflect.Uint8, reflect.Array:
			*(*uint8)(p)++
		case reflect.Uint16:
			*(*uint16)(p) ^= 1
		case reflect.Int, reflect.Int64, reflect.Uint64:
			if *(*uint64)(p)++; strings.HasPrefix(name, "tenure.marks[") && strings.HasSuffix(name, ".seq") {
				*(*uint64)(p) += marks - 1 // its place follows from it
			}
		case reflect.String:
			*(*string)(p) += "x"
		case reflect.Slice:
			*(*[]protocol.NodeID)(p) = []protocol.NodeID{"other"}
		case reflect.Pointer:
			other := **(**protocol.Membership)(p)
			other.Version++
			*(**protocol.Membership)(p) = &other
		default:
			t.Fatalf("%s is a %v, which this test cannot change", name, typ)
		}
		count++
		after := m.AppendState(nil)
		if bytes.Equal(before, after) {
			t.Errorf("%s (%v) is no part of the state", name, typ)
			return
		}
		loaded, err := New(m.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := loaded.LoadState(after); err == nil && !bytes.Equal(loaded.AppendState(nil), after) {
			t.Errorf("%s (%v) is lost when the state is loaded", name, typ)
		}
	}
	walk(nil, reflect.TypeFor[Machine](), "")
	if count < 300 {
		t.Errorf("only %d fields were found", count)
	}
}

func TestLoadStateRefuses(t *testing.T) {
	cfg := Config{Self: voter(0), Membership: members(3)}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step(m, &protocol.Input{Kind: protocol.Boot})
	good := m.AppendState(nil)
	for name, bad := range map[string][]byte{
		"nothing":          nil,
		"half of it":       good[:len(good)/2],
		"a byte too many":  append(bytes.Clone(good), 0),
		"a role of others": append([]byte{byte(protocol.Releasing)}, good[1:]...),
		"no round":         append([]byte{byte(protocol.Candidate)}, good[1:]...),
	} {
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.LoadState(bad); err == nil {
			t.Errorf("%s: loaded without an error", name)
		}
	}
}

// TestLoadStateRefusesTheImpossible loads states that no machine can have.
func TestLoadStateRefusesTheImpossible(t *testing.T) {
	for _, c := range []struct {
		change func(*Machine)
		says   string
	}{
		{func(m *Machine) { m.ballot.Membership = among() }, "0 voters"},
		{func(m *Machine) { m.ballot.Membership = among(1, 2) }, "is not a voter"},
		{func(m *Machine) { m.ballot.MaxPromise = -1 }, "a promise of -1ns"},
		{func(m *Machine) { m.next = among() }, "0 voters"},
		{func(m *Machine) { m.failed = mostFailures + 1 }, "65 failures"},
		{func(m *Machine) { m.yields = mostYields + 1 }, "want at most"},
		{func(m *Machine) { m.priority = protocol.MaxPriority + 1 }, "a priority of 1001"},
		{func(m *Machine) { m.known[1].priority = protocol.MaxPriority + 1 }, "a priority of 1001"},
		{func(m *Machine) { m.known[2].priority = protocol.NeverLead - 1 }, "a priority of -2"},
		{func(m *Machine) { m.role, m.round.kind = protocol.Candidate, voting; m.round.ahead = 4 }, "ahead has the place 4"},
		{func(m *Machine) { m.role, m.round.kind = protocol.Candidate, voting; m.round.granted = 1 << 9 }, "a set of places of 512; want 0 to 511"},
		{func(m *Machine) { m.role, m.round.kind = protocol.Candidate, voting+1 }, "a round of kind 3"},
		{func(m *Machine) { m.role = protocol.Candidate }, "does not go with its round"},
	} {
		m := start(t, Config{Self: voter(0), Membership: members(3)}, nil)
		other := *m
		c.change(&other)
		state := other.AppendState(nil)
		if err := m.LoadState(state); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error that says %q: %v", c.says, err)
		}
	}
}

// step makes one step and returns its effects.
func step(m *Machine, in *protocol.Input) *protocol.Effects {
	fx := new(protocol.Effects)
	m.Step(in, fx)
	return fx
}

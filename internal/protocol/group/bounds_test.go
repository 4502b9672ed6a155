package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// refused is the text with which the coordinator has refused a connection in the last step, or "".
func (f *played) refused(conn Conn) string {
	for _, s := range f.fx.Sends {
		if s.Conn == conn && s.Message.Type == Refuse {
			return s.Message.Text
		}
	}
	return ""
}

func (f *played) wantRefused(t *testing.T, conn Conn, text string) {
	t.Helper()
	if got := f.refused(conn); !strings.Contains(got, text) || text == "" && got != "" {
		t.Errorf("refused with %.200q; want %q", got, text)
	}
}

// TestKeysOfOneMember: a member wants, holds and has overruns of so many keys, and no more.
func TestKeysOfOneMember(t *testing.T) {
	f := newPlayed(t, 2, 3)
	wants := make([]Want, MaxKeys+1)
	held := make([]Held, MaxKeys+1)
	for i := range wants {
		wants[i].Key = Key(fmt.Sprint(i))
		held[i] = Held{Key: wants[i].Key, Token: Token{1, 1}}
	}
	report := Message{Type: Report, Session: f.sessions[0], Promise: 3 * time.Second, Number: 2, Tenure: 1}
	for i, c := range []struct {
		says   string
		change func(*Message)
	}{
		{"1048577 keys are wanted; want at most 1048576", func(m *Message) { m.Wants = wants }},
		{"1048577 keys are reported as held; want at most 1048576", func(m *Message) { m.Held = held }},
		{"1048577 keys are reported as overruns; want at most 1048576", func(m *Message) { m.Overruns = held }},
	} {
		conn, m := Conn(10+i), report
		c.change(&m)
		f.give(Input{Kind: Opened, Conn: conn, From: "n1"})
		f.give(Input{Kind: Receive, Conn: conn, From: "n1", Message: m})
		f.wantRefused(t, conn, c.says)
	}
	// A change of priorities is none of the number.
	f.c.session(f.sessions[0]).wants = MaxKeys - 1
	f.message(0, Message{Type: Wish, Wants: []Want{{Key: benchKey(0), Priority: 7}, {Key: benchKey(1), Priority: 7}, {Key: "one more"}}})
	f.wantRefused(t, 1, "")
	// Nor is one that takes the place of another.
	f.message(0, Message{Type: Wish, Wants: []Want{{Key: "instead"}}, Unwants: []Key{"one more"}})
	f.wantRefused(t, 1, "")
	f.message(0, Message{Type: Wish, Wants: []Want{{Key: "too"}, {Key: "many"}}, Unwants: []Key{benchKey(0), benchKey(0), "one more"}})
	f.wantRefused(t, 1, "1048577 keys are wanted; want at most 1048576")
	for _, s := range f.c.Sessions(nil) {
		if s.Session == f.sessions[0] && s.Conn != 0 {
			t.Error("a session is attached by a connection that was refused")
		}
	}
	if f.message(1, Message{Type: Wish, Wants: []Want{{Key: "another's"}}}); f.refused(2) != "" {
		t.Errorf("another member is refused: %s", f.refused(2))
	}
}

// TestWantsAreCounted: what is not wanted any more does not count, in the state that is loaded either.
func TestWantsAreCounted(t *testing.T) {
	f := newPlayed(t, 2, 3)
	f.message(0, Message{Type: Wish, Wants: []Want{{Key: "x"}, {Key: "x"}}, Unwants: []Key{benchKey(0), benchKey(0)}})
	f.message(0, Message{Type: Report, Session: f.sessions[0], Promise: 3 * time.Second})
	loaded := makeCoordinator(f.c.cfg)
	if err := loaded.LoadState(f.c.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{3, 3} {
		if a, b := f.c.session(f.sessions[i]).wants, loaded.session(f.sessions[i]).wants; a != want || b != want {
			t.Errorf("%v wants %d keys, and %d when it was loaded; want %d", f.sessions[i], a, b, want)
		}
	}
}

// TestProcessesOfOneMember: a member has so many sessions at a time, and so many processes in a tenure.
func TestProcessesOfOneMember(t *testing.T) {
	f := newPlayed(t, 2, 1)
	conn := Conn(9)
	f.give(Input{Kind: Opened, Conn: conn, From: "n1"})
	report := func(n int) string {
		f.give(Input{Kind: Receive, Conn: conn, From: "n1", Message: Message{
			Type: Report, Session: Session{"n1", protocol.Nonce{7, uint64(n)}, 1}, Promise: 3 * time.Second, Number: 1, Tenure: 1}})
		return f.refused(conn)
	}
	for n := 1; n < MaxSessions; n++ {
		if said := report(n); said != "" {
			t.Fatal(said)
		}
	}
	if said := report(MaxSessions); !strings.Contains(said, "64 processes of n1 have sessions; want at most 64") {
		t.Errorf("refused with %q", said)
	}
	for n := range 2 * MaxProcesses {
		f.give(Input{Kind: Dead, Session: Session{"n1", protocol.Nonce{8, uint64(n)}, 1}})
	}
	if n := len(f.c.processes); n != MaxProcesses+1 || f.c.lives["n1"] != MaxProcesses {
		t.Errorf("%d processes are known, %d of n1; want %d of it", n, f.c.lives["n1"], MaxProcesses)
	}
	f.pass(2 * time.Second)
	f.give(Input{Kind: Opened, Conn: conn, From: "n1"})
	f.give(Input{Kind: Receive, Conn: conn, From: "n1", Message: Message{Type: Goodbye, Session: Session{"n1", protocol.Nonce{9, 9}, 1}, Number: 1}})
	if said := report(1e6); !strings.Contains(said, "65536 processes of n1 have reported to this coordinator; want at most 65536") {
		t.Errorf("refused with %q", said)
	}
}

// TestBytesOfOneMember: what a member leaves for next holders is bounded, and does not take the place of what others do.
func TestBytesOfOneMember(t *testing.T) {
	const keys = 80
	f := newPlayed(t, 2, keys)
	f.give(Input{Kind: Moves, Moves: f.moves(keys)})
	full := make([]byte, MaxState)
	for i := range keys {
		ks, _ := f.c.Key(benchKey(i))
		for n, s := range f.sessions {
			f.message(n, Message{Type: Released, Held: []Held{{Key: ks.Key, Token: ks.Token, State: full}}})
			if n == 0 && s == ks.Session && f.c.Waiting("n1") > MaxWaiting {
				t.Fatalf("%d bytes wait", f.c.Waiting("n1"))
			}
		}
	}
	a, b := f.c.Waiting("n1"), f.c.Waiting("n2")
	if a == 0 || b == 0 {
		t.Fatalf("%d and %d bytes wait; want the keys of both", a, b)
	}
	for i := range 2 * MaxWaiting / MaxState {
		f.c.keys.leave(uint32(1000+i), state{"n1", full})
	}
	if f.c.Waiting("n1") != MaxWaiting || f.c.Waiting("n2") != b {
		t.Errorf("%d and %d bytes wait; want %d and %d", f.c.Waiting("n1"), f.c.Waiting("n2"), MaxWaiting, b)
	}
	for i := range f.c.keys.states {
		f.c.keys.takeState(i)
	}
	if len(f.c.keys.waiting) > 0 {
		t.Errorf("%v wait without a state", f.c.keys.waiting)
	}
}

// TestLongRegistries: two registries as long as a message takes cost the coordinator no time that a renewal misses.
func TestLongRegistries(t *testing.T) {
	var a account
	for n := range 2 {
		all := make([]Session, mostMembers)
		for i := range all {
			all[i] = Session{"n1", protocol.Nonce{uint64(i * 7919 % mostMembers), uint64(n)}, 1}
		}
		all[0] = Session{"n2", protocol.Nonce{1, 1}, 1}
		began := time.Now()
		a.vouch(all)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if len(a.all) != 1 || a.all[0].Member != "n2" {
		t.Errorf("%d sessions are in both; want one", len(a.all))
	}
}

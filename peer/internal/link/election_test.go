package link

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// another takes part in one more election over the Link of a node.
func (r *resident) another(name string, peers Peers) *resident {
	r.t.Helper()
	o := &resident{t: r.t, id: r.id, events: make(chan event, 1<<10), Link: r.Link}
	cfg := r.Election.cfg
	cfg.Enter.Election, cfg.Peers = name, peers
	cfg.Logger = nil
	cfg.Admit = func(from protocol.NodeID, _ *wire.Enter, _ wire.Caller) (*wire.Welcome, *wire.Refusal) {
		if o.shuts.Load() {
			return nil, removed(from)
		}
		return nil, nil
	}
	cfg.Welcomed = func(from protocol.NodeID, m *wire.Welcome) {
		o.events <- event{kind: "welcomed", who: from, welcome: m}
	}
	cfg.Refused = func(by protocol.NodeID, m *wire.Refusal) { o.events <- event{kind: "refused", who: by, refusal: m} }
	cfg.Receive = func(from protocol.NodeID, l *wire.Letter) {
		o.events <- event{kind: "received", who: from, letter: l}
	}
	cfg.Closed = func(from protocol.NodeID, n uint64) { o.events <- event{kind: "closed", who: from, incarnation: n} }
	var err error
	if o.Election, err = r.Link.Join(cfg); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { o.Election.Close() })
	return o
}

// TestElectionsShareAConnection: two elections have one connection; letters come to
// their own one; one that ends is a death there, and nothing in the other.
func TestElectionsShareAConnection(t *testing.T) {
	for _, secured := range []bool{false, true} {
		w, n1, n2 := pair(t, secured)
		n1.talk(n2, 1)
		n2.talk(n1, 2)
		m1 := n1.another("second", Peers{"n2": {w.addrs["n2"]}})
		if e := m1.kind("refused", "n2"); e.refusal.Code != wire.CodeElection || e.refusal.Final || !strings.Contains(e.refusal.Says, `n2 takes no part in the election "second"`) || !strings.Contains(e.refusal.Says, `takes part in "e"`) {
			t.Fatalf("%v; want that n2 is not in that election, and in which it is", e)
		}
		m2 := n2.another("second", Peers{"n1": {w.addrs["n1"]}})
		for seq := range uint64(50) {
			m1.talk(m2, 100+seq)
			n1.talk(n2, 200+seq)
			m2.talk(m1, 300+seq)
		}
		harness.Eventually(t, "one connection", func() bool { return len(n1.conns("n2")) == 1 && len(n2.conns("n1")) == 1 })
		c := n1.conns("n2")[0]
		for len(n2.events) > 0 {
			if e := <-n2.events; e.kind == "received" && e.letter.Message.Seq >= 100 && e.letter.Message.Seq < 200 {
				t.Fatalf("%v came to the wrong election", e)
			}
		}
		if p := m1.peer("n2"); !p.Connected || p.Sent < 50 || p.Received < 50 || p.Received > 60 {
			t.Errorf("of the second election: %+v", p)
		}

		if err := m2.Election.Close(); err != nil {
			t.Error(err)
		}
		if e := m1.kind("closed", "n2"); e.incarnation != 1 {
			t.Errorf("%v; want incarnation 1", e)
		}
		m1.Send("n2", letter(9))
		n1.talk(n2, 3)
		n2.talk(n1, 4)
		if all := n1.conns("n2"); len(all) != 1 || all[0] != c || !n1.connected("n2") || m1.connected("n2") {
			t.Error("the end of one election has ended more than itself")
		}
		again := n2.another("second", Peers{"n1": {w.addrs["n1"]}})
		again.talk(m1, 5)
		m1.talk(again, 6)

		// The end of the process is one for both.
		n2.crash(false)
		n1.kind("closed", "n2")
		m1.kind("closed", "n2")
	}
}

// TestElectionIsRefusedAlone: one election refuses a node, and the other one does not.
func TestElectionIsRefusedAlone(t *testing.T) {
	w, n1, n2 := pair(t, true)
	m1 := n1.another("second", Peers{"n2": {w.addrs["n2"]}})
	m2 := n2.another("second", Peers{"n1": {w.addrs["n1"]}})
	m1.talk(m2, 1)
	n1.talk(n2, 1)
	m1.shuts.Store(true)
	m1.SetPeers(protocol.ConfigID{}, nil, removed)
	m2.await(func(e event) bool { return e.kind == "refused" && e.refusal.Code == wire.CodeRemoved }, "closed")
	n1.talk(n2, 2)
	n2.talk(n1, 3)
	if m2.connected("n1") {
		t.Error("it is connected in the election that it was removed from")
	}
	m1.shuts.Store(false)
	m1.SetPeers(protocol.ConfigID{}, Peers{"n2": {w.addrs["n2"]}}, removed)
	m1.talk(m2, 4)
}

func TestJoinIsBounded(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", nil, nil)
	cfg := n1.Election.cfg
	if _, err := n1.Link.Join(cfg); err == nil || !strings.Contains(err.Error(), `takes part in the election "e" already`) {
		t.Errorf("the same election twice: %v", err)
	}
	for i := range MaxElections {
		cfg.Enter.Election = fmt.Sprint(i)
		e, err := n1.Link.Join(cfg)
		if last := i == MaxElections-1; last != (err != nil) {
			t.Fatalf("election %d: %v", i+2, err)
		}
		if err == nil {
			defer e.Close()
		}
	}
}

// TestManyElections: all that a host may have are open with another one, and each
// letter finds its own.
func TestManyElections(t *testing.T) {
	w := &testNet{t: t}
	patient := func(cfg *Config) { cfg.Idle = deadline } // so much at once may take long on a busy machine
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1, n2 := w.start("n1", l1, patient), w.start("n2", l2, patient)
	const many = 300
	var here, there []*resident
	for i := range many {
		name := fmt.Sprint("e", i)
		here = append(here, n1.another(name, Peers{"n2": {w.addrs["n2"]}}))
		there = append(there, n2.another(name, Peers{"n1": {w.addrs["n1"]}}))
	}
	for i := range many {
		here[i].talk(there[i], uint64(i))
	}
	if len(n1.conns("n2")) > 2 {
		t.Errorf("%d connections", len(n1.conns("n2")))
	}
}

// attacker is a host that was admitted and entered the one election of to, and goes on
// as it likes. says sends frames; heard are those that come back.
func attacker(t *testing.T, w *testNet, to *resident) (says func(...*wire.Frame), heard chan wire.Frame) {
	t.Helper()
	raw, frames := join(t, w, to, "n2")
	t.Cleanup(func() { raw.Close() })
	heard = make(chan wire.Frame, 1<<16)
	go func() {
		defer close(heard)
		for {
			f, err := frames.Next()
			if err != nil {
				return
			}
			heard <- f
		}
	}()
	return func(all ...*wire.Frame) {
		t.Helper()
		if err := newStream(raw).put(all...); err != nil {
			t.Fatal(err)
		}
	}, heard
}

// TestLettersOfNoElection: letters for what their sender has not entered, or was refused
// in, are dropped, and what it has entered goes on.
func TestLettersOfNoElection(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	secret := n1.another("secret", nil)
	secret.shuts.Store(true)
	says, heard := attacker(t, w, n1)
	as := func(number uint32, seq uint64) *wire.Frame {
		l := letter(seq)
		l.Number = number
		return &wire.Frame{Letter: l}
	}
	says(as(2, 100), as(1<<31, 101))
	n1.logged("a letter is dropped: its sender is not in the election")
	says(&wire.Frame{Enter: &wire.Enter{Number: 2, Election: "secret"}}, as(2, 102))
	for f := range heard {
		if f.Refusal != nil && f.Refusal.Number == 2 {
			break
		}
	}
	says(as(2, 103), &wire.Frame{Welcome: &wire.Welcome{Number: 2}}, as(2, 104), as(1, 105))
	n1.await(func(e event) bool {
		if e.kind == "received" && e.letter.Message.Seq != 105 {
			t.Errorf("%v was taken", e)
		}
		return e.kind == "received" && e.letter.Message.Seq == 105
	}, "closed")
	for len(secret.events) > 0 {
		if e := <-secret.events; e.kind == "received" {
			t.Errorf("%v came to an election that its sender is not in", e)
		}
	}
}

// TestLongName: a name of 64 KiB is no name. A caller that says it is cut off, for a reason.
func TestLongName(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	raw, frames := join(t, w, n1, "n2")
	defer raw.Close()
	frame, err := wire.Append(nil, &wire.Frame{Response: &wire.Response{Body: []byte(strings.Repeat("x", 64<<10))}})
	if err != nil {
		t.Fatal(err)
	}
	// The same bytes as an Enter: field 7 of a frame, with a number and a name.
	name := strings.Repeat("x", 64<<10)
	enter := "\x08\x02\x12\x80\x80\x04" + name
	payload := "\x3a" + string([]byte{byte(len(enter)&0x7f | 0x80), byte(len(enter)>>7&0x7f | 0x80), byte(len(enter) >> 14)}) + enter
	size := len(payload)
	frame = append(append(frame[:0], byte(size>>24), byte(size>>16), byte(size>>8), byte(size)), payload...)
	if _, err := raw.Write(frame); err != nil {
		t.Fatal(err)
	}
	_ = raw.SetDeadline(time.Now().Add(deadline))
	for {
		f, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Refusal != nil {
			if f.Refusal.Code != wire.CodeFrame || !strings.Contains(f.Refusal.Says, "enter.election: 65536 bytes; want 1 to 128") {
				t.Errorf("%+v", f.Refusal)
			}
			break
		}
	}
	harness.Eventually(t, "cut off", func() bool { return !n1.connected("n2") })
}

// TestThousandsOfNames: unknown names are refused one by one, and nothing of them is kept. A caller that sends them and
// reads nothing is dropped.
func TestThousandsOfNames(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	says, heard := attacker(t, w, n1)
	const names = 5000
	var all []*wire.Frame
	for i := range uint32(names) {
		all = append(all, &wire.Frame{Enter: &wire.Enter{Number: 2 + i, Election: fmt.Sprint("name", i)}})
	}
	for some := range slices.Chunk(all, 500) {
		says(some...)
		refused := 0
		for f := range heard {
			if f.Refusal != nil && f.Refusal.Code == wire.CodeElection {
				if refused++; refused == len(some) {
					break
				}
			}
		}
	}
	n1.mu.Lock()
	c := n1.peers["n2"].conns[0]
	if len(c.entries) != 1 || len(c.theirs) != 1 || len(n1.members) != 1 {
		t.Errorf("%d entries, %d numbers and %d members are kept; want 1 of each", len(c.entries), len(c.theirs), len(n1.members))
	}
	n1.mu.Unlock()
	says(&wire.Frame{Letter: letter(7)})
	n1.await(func(e event) bool { return e.kind == "received" && e.letter.Message.Seq == 7 }, "closed")

	// Numbers rise, or the connection ends.
	says(&wire.Frame{Enter: &wire.Enter{Number: 1, Election: "e"}})
	for f := range heard {
		if f.Refusal != nil && strings.Contains(f.Refusal.Says, "want rising ones") {
			break
		}
	}
	harness.Eventually(t, "cut off", func() bool { return !n1.connected("n2") })

	w = &testNet{t: t}
	n1 = w.start("n1", w.listen("n1"), nil)
	raw, _ := join(t, w, n1, "n2")
	defer raw.Close()
	_ = raw.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = raw.SetDeadline(time.Now().Add(deadline))
	var flood []byte
	for number := uint32(2); n1.connected("n2"); {
		flood = flood[:0]
		for range 1000 {
			var err error
			if flood, err = wire.Append(flood, &wire.Frame{Enter: &wire.Enter{Number: number, Election: strings.Repeat("n", 128)}}); err != nil {
				t.Fatal(err)
			}
			number++
		}
		if _, err := raw.Write(flood); err != nil {
			break
		}
	}
	harness.Eventually(t, "given up", func() bool { return !n1.connected("n2") })
}

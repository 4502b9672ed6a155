package link

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

func TestLetters(t *testing.T) {
	for _, secured := range []bool{false, true} {
		t.Run(fmt.Sprint("secured=", secured), func(t *testing.T) {
			_, n1, n2 := pair(t, secured)
			n1.kind("welcomed", "n2")
			n2.kind("welcomed", "n1")
			for seq := range uint64(100) {
				n1.talk(n2, seq)
				n2.talk(n1, seq)
			}
			p := n1.peer("n2")
			if p.Sent < 100 || p.Received < 100 || p.Program != "v0" || p.LastHeard == 0 || p.Err != nil || p.Addr == "" {
				t.Errorf("%+v", p)
			}
			if runtime.GOOS == "linux" && (p.RTT <= 0 || p.RTT > time.Second) {
				t.Errorf("round trip %v", p.RTT)
			}
		})
	}
}

// TestTies: two nodes that dial each other end up with one connection. No lost one made either take the other for dead.
func TestTies(t *testing.T) {
	for range 15 {
		w := &testNet{t: t}
		l1, l2 := w.listen("n1"), w.listen("n2")
		n1, n2 := w.start("n1", l1, nil), w.start("n2", l2, nil)
		n1.talk(n2, 1)
		n2.talk(n1, 2)
		// One more handshake may have been under way when the first was complete.
		for changes := 0; ; changes++ {
			if changes > 1 {
				t.Fatal("the connection is exchanged again and again")
			}
			var a, b []*conn
			harness.Eventually(t, "the same connection on both sides", func() bool {
				a, b = n1.conns("n2"), n2.conns("n1")
				return len(a) == 1 && len(b) == 1 && a[0].raw.LocalAddr().String() == b[0].raw.RemoteAddr().String()
			})
			for seq := range uint64(20) {
				n1.talk(n2, 10+seq)
				n2.talk(n1, 10+seq)
			}
			if slices.Equal(n1.conns("n2"), a) && slices.Equal(n2.conns("n1"), b) {
				break
			}
		}
		n1.Close()
		n2.Close()
	}
}

// TestTieRule: of two connections that were dialled by one side each the node with
// the smaller id decides, and what was on the way on the other one arrives.
func TestTieRule(t *testing.T) {
	for _, first := range []protocol.NodeID{"n1", "n2"} {
		w := &testNet{t: t}
		l1, l2 := w.listen("n1"), w.listen("n2")
		only := func(cfg *Config) {
			if cfg.Hello.ID != first {
				cfg.Peers = nil
			}
		}
		n1, n2 := w.start("n1", l1, only), w.start("n2", l2, only)
		n1.talk(n2, 1)
		n2.talk(n1, 2)
		old, other := n1, n2 // who has dialled, and who does now
		if first == "n2" {
			old, other = n2, n1
		}
		before := old.conns(other.id)[0]
		if !before.dialled {
			t.Fatal("it was not dialled by the only one who dials")
		}
		other.work.Go(func() {
			if c, err := other.try(&peer{id: old.id, addrs: []string{w.addrs[old.id]}, ctx: other.Link.ctx}); err == nil {
				other.run(c)
			}
		})
		for seq := range uint64(200) {
			n1.talk(n2, 100+seq)
			n2.talk(n1, 100+seq)
		}
		harness.Eventually(t, "the newer connection alone", func() bool {
			a, b := old.conns(other.id), other.conns(old.id)
			return len(a) == 1 && len(b) == 1 && a[0] != before && b[0].dialled
		})
		select {
		case <-before.done:
		case <-time.After(deadline):
			t.Fatal("the older connection is still open")
		}
		n1.talk(n2, 3)
		n2.talk(n1, 4)
	}
}

func TestCrashIsTold(t *testing.T) {
	for _, c := range []struct{ secured, reset bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("secured=%v,reset=%v", c.secured, c.reset), func(t *testing.T) {
			w := &testNet{t: t}
			if c.secured {
				w = secure(t, "n1", "n2")
			}
			l1, l2 := w.listen("n1"), w.listen("n2")
			n1 := w.start("n1", l1, nil)
			n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
			n1.talk(n2, 1)
			n2.talk(n1, 2)
			n2.send(n1, &wire.Letter{Number: 1, Message: protocol.Message{Type: "heartbeat", Incarnation: 7, Seq: 3}})
			begun := time.Now()
			n2.crash(c.reset)
			if e := n1.kind("closed", "n2"); e.incarnation != 7 {
				t.Errorf("incarnation %d; want that of its letters, 7", e.incarnation)
			}
			t.Logf("told after %v", time.Since(begun))
			harness.Eventually(t, "told why", func() bool { p := n1.peer("n2"); return !p.Connected && p.Err != nil })

			// It comes back by its own dialling, as a new process.
			again := w.start("n2", nil, func(cfg *Config) { cfg.Hello.Starts, cfg.Enter.Incarnation = 8, 8 })
			again.talk(n1, 4)
			n1.talk(again, 5)
		})
	}
}

// TestOwnClosingIsNotTold: neither a connection that this side closes, nor one
// that came to an end otherwise.
func TestOwnClosingIsNotTold(t *testing.T) {
	w := secure(t, "n1", "n2")
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1 := w.start("n1", l1, nil)
	n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
	n1.talk(n2, 1)
	n2.talk(n1, 1)
	c := n1.conns("n2")[0]
	c.abort() // n2 is told, n1 is not
	n2.kind("closed", "n1")
	harness.Eventually(t, "connected anew", func() bool { all := n1.conns("n2"); return len(all) == 1 && all[0] != c })
	n1.talk(n2, 2)
	harness.Eventually(t, "connected anew", func() bool { return n2.connected("n1") })
	n2.talk(n1, 3)
	n1.Close()
	n2.kind("closed", "n1")
}

func TestCutAndHeal(t *testing.T) {
	w := secure(t, "n1", "n2")
	l1, l2 := w.listen("n1"), w.listen("n2")
	c, err := cable.New(w.addrs["n2"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.addrs["n2"] = c.Addr()
	n1 := w.start("n1", l1, nil)
	n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil }) // all goes through the cable
	n1.talk(n2, 1)
	n2.talk(n1, 1)

	c.Cut()
	n1.Send("n2", letter(2))
	n2.Send("n1", letter(3))
	quiet(t, n1)
	quiet(t, n2)
	c.Heal()
	n2.await(func(e event) bool { return e.kind == "received" && e.letter.Message.Seq == 2 }, "closed")
	n1.await(func(e event) bool { return e.kind == "received" && e.letter.Message.Seq == 3 }, "closed")

	c.Reset()
	n1.kind("closed", "n2")
	n2.kind("closed", "n1")
	n1.talk(n2, 4)
	n2.talk(n1, 5)

	// A connection that is made while the network is cut is there when it heals.
	c.Cut()
	c.Reset()
	n1.kind("closed", "n2")
	n2.kind("closed", "n1")
	quiet(t, n2)
	c.Heal()
	n1.talk(n2, 6)
	n2.talk(n1, 7)
}

// quiet holds if nothing happens for a while.
func quiet(t *testing.T, r *resident) {
	t.Helper()
	for while := time.After(50 * time.Millisecond); ; {
		select {
		case e := <-r.events:
			if e.kind != "log" {
				t.Fatalf("%s: %v", r.id, e)
			}
		case <-while:
			return
		}
	}
}

// TestAnotherProcess: a second process with one id is refused, and one with a
// higher incarnation takes the first one's place.
func TestAnotherProcess(t *testing.T) {
	w, n1, n2 := pair(t, true)
	n1.talk(n2, 1)
	n2.talk(n1, 1)

	copied := w.start("n2", nil, func(cfg *Config) { delete(cfg.Peers, "n2") })
	e := copied.kind("refused", "n1")
	if e.refusal.Code != wire.CodeDuplicate {
		t.Fatalf("%v; want duplicate", e)
	}
	n1.logged("refused", "duplicate", "another process with id n2 is connected")
	n1.talk(n2, 2)
	n2.talk(n1, 2)
	copied.Close()

	next := w.start("n2", nil, func(cfg *Config) {
		cfg.Hello.Starts, cfg.Enter.Incarnation = 2, 2
		delete(cfg.Peers, "n2")
	})
	if e := n1.kind("closed", "n2"); e.incarnation != 1 {
		t.Fatalf("%v; want incarnation 1", e)
	}
	next.talk(n1, 3)
	n1.talk(next, 4)
	// The first one is refused now, and disturbs nobody.
	if e := n2.kind("refused", "n1"); e.refusal.Code != wire.CodeDuplicate {
		t.Fatalf("%v; want duplicate", e)
	}
	next.talk(n1, 5)
}

// TestNotAdmitted: a process that no election admits, because it has a directory that
// is not the node's, does not keep out the one that has it; and is a duplicate then.
func TestNotAdmitted(t *testing.T) {
	w := &testNet{t: t}
	wrong := protocol.DirID{9}
	n1 := w.start("n1", w.listen("n1"), func(cfg *Config) {
		admit := cfg.Admit
		cfg.Admit = func(from protocol.NodeID, enter *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
			if enter.Dir == wrong {
				return nil, &wire.Refusal{Code: wire.CodeDirectory, Says: "another directory"}
			}
			return admit(from, enter, caller)
		}
	})
	impostor := w.start("n2", nil, func(cfg *Config) {
		cfg.Hello.Dir, cfg.Enter.Dir = wrong, wrong
		delete(cfg.Peers, "n2")
	})
	if e := impostor.kind("refused", "n1"); e.refusal.Code != wire.CodeDirectory {
		t.Fatalf("%v; want directory", e)
	}
	n2 := w.start("n2", nil, func(cfg *Config) { delete(cfg.Peers, "n2") })
	n2.talk(n1, 1)
	n1.talk(n2, 2)
	impostor.await(func(e event) bool { return e.kind == "refused" && e.refusal.Code == wire.CodeDuplicate })
	n2.talk(n1, 3)
}

func TestSetIncarnation(t *testing.T) {
	w := &testNet{t: t}
	l1 := w.listen("n1")
	n1 := w.start("n1", l1, nil)
	n2 := w.start("n2", nil, func(cfg *Config) { cfg.Enter.Incarnation = 0 })
	n2.talk(n1, 1)
	n2.SetIncarnation(5)
	c := n2.conns("n1")[0]
	c.abort()
	if e := n1.kind("closed", "n2"); e.incarnation != 1 {
		t.Fatalf("%v; want the letter's incarnation, 1", e)
	}
	harness.Eventually(t, "connected anew", func() bool { all := n2.conns("n1"); return len(all) == 1 && all[0] != c })
	n2.talk(n1, 2)
	n2.Close()
	if e := n1.kind("closed", "n2"); e.incarnation != 5 {
		t.Fatalf("%v; want that of Enter, 5", e)
	}
}

func TestAnnounce(t *testing.T) {
	w, n1, n2 := pair(t, false)
	n1.talk(n2, 1)
	n2.talk(n1, 1)
	m := &protocol.Membership{Version: 1, Voters: []protocol.Voter{{ID: "n1", Dir: protocol.DirID{1}}, {ID: "n2", Dir: protocol.DirID{2}}}}
	n1.Announce(&wire.Welcome{Membership: m})
	founded := func(e event) bool { return e.kind == "welcomed" && e.who == "n1" && e.welcome.Membership != nil }
	n2.await(founded)
	// A node that comes later hears of it too, whatever Admit said.
	o1 := w.start("o1", nil, nil)
	o1.await(founded)
	n1.talk(o1, 2) // an observer is sent letters as well
	o1.talk(n1, 3)
}

func TestCloseWritesWhatIsQueued(t *testing.T) {
	w := secure(t, "n1", "n2")
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1 := w.start("n1", l1, nil)
	n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
	n1.talk(n2, 1)
	for seq := range uint64(maxQueue / 2) {
		n1.Send("n2", letter(100+seq))
	}
	n1.Close()
	arrived := make(map[uint64]bool)
	n2.await(func(e event) bool {
		if e.kind == "received" {
			arrived[e.letter.Message.Seq] = true
		}
		return e.kind == "closed"
	})
	if len(arrived) != maxQueue/2 {
		t.Fatalf("%d letters of %d arrived before the end", len(arrived), maxQueue/2)
	}
}

func TestQueueIsBounded(t *testing.T) {
	c := newConn(&Link{}, nil, &wire.Hello{}, false)
	c.peer = &peer{}
	m := new(member)
	c.say(&wire.Frame{Welcome: &wire.Welcome{}}) // and nobody writes it
	const sent = 5 * maxQueue
	for seq := range uint64(sent) {
		c.push(m, 1, letter(seq))
	}
	batch := c.queue[c.head:]
	if batch[0].frame == nil || batch[0].frame.Welcome == nil {
		t.Error("the Welcome was dropped")
	}
	if n := len(batch); n != maxQueue {
		t.Errorf("%d wait; want %d", n, maxQueue)
	}
	if n := m.dropped.Load(); n != sent-maxQueue+1 {
		t.Errorf("%d dropped; want %d", n, sent-maxQueue+1)
	}
	for i, it := range batch[1:] {
		if want := uint64(sent - maxQueue + 1 + i); it.letter.Message.Seq != want {
			t.Fatalf("letter %d at place %d; want %d", it.letter.Message.Seq, i, want)
		}
	}
	if len(c.queue) > 3*maxQueue {
		t.Errorf("the queue has grown to %d", len(c.queue))
	}
}

// TestSendNeverBlocks: a peer that reads nothing costs letters and no time.
func TestSendNeverBlocks(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	raw, _ := join(t, w, n1, "n2") // and from here on it does not read
	defer raw.Close()
	big := letter(1)
	big.Message.Body = string(make([]byte, 32<<10))
	for range 2000 { // 64 MB
		n1.Send("n2", big)
	}
	n1.Send("n9", big) // nobody
	harness.Eventually(t, "dropped", func() bool { return n1.peer("n2").Dropped > 0 })
}

// join connects by hand as a node.
func join(t *testing.T, w *testNet, to *resident, id protocol.NodeID) (net.Conn, *wire.Reader) {
	t.Helper()
	raw, err := net.Dial("tcp", to.Link.cfg.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	h := w.hello(id)
	s := newStream(raw)
	if _, _, err := greet(s, &h, to.id); err != nil {
		t.Fatal(err)
	}
	enter := part()
	if err := s.put(&wire.Frame{Welcome: &wire.Welcome{}}, &wire.Frame{Enter: &enter}); err != nil {
		t.Fatal(err)
	}
	for welcomed := false; !welcomed; {
		f, err := s.frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Enter != nil {
			err = s.put(&wire.Frame{Welcome: &wire.Welcome{Number: f.Enter.Number}})
		}
		if err != nil || f.Refusal != nil {
			t.Fatal(err, f.Refusal)
		}
		welcomed = f.Welcome != nil
	}
	harness.Eventually(t, "connected", func() bool { return to.connected(id) })
	return raw, s.frames
}

// TestSignsOfLife: a connection on which nothing is said still tells that it
// works, and never anything else.
func TestSignsOfLife(t *testing.T) {
	w := &testNet{t: t}
	l1, l2 := w.listen("n1"), w.listen("n2")
	change := func(cfg *Config) { cfg.Idle = 300 * time.Millisecond }
	n1 := w.start("n1", l1, change)
	n2 := w.start("n2", l2, func(cfg *Config) {
		change(cfg)
		cfg.Peers = nil
	})
	n1.talk(n2, 1)
	c := n1.conns("n2")[0]
	for begun := time.Now(); time.Since(begun) < steady+500*time.Millisecond; { // longer than a write may take
		before := n1.peer("n2").LastHeard
		harness.Eventually(t, "heard of", func() bool { return n1.peer("n2").LastHeard > before })
	}
	n1.talk(n2, 2)
	n2.talk(n1, 3)
	if all := n1.conns("n2"); len(all) != 1 || all[0] != c {
		t.Error("the connection was exchanged for another one")
	}
}

func TestCloseJoins(t *testing.T) {
	before := runtime.NumGoroutine()
	w := secure(t, "n1", "n2", "n3")
	l1, l2 := w.listen("n1"), w.listen("n2")
	w.addrs["n3"] = "127.0.0.1:1" // nobody
	n1, n2 := w.start("n1", l1, nil), w.start("n2", l2, nil)
	n1.talk(n2, 1)
	silent, err := net.Dial("tcp", w.addrs["n1"])
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n1.Close()
	n2.Close()
	n1.Close() // twice is once
	n1.Send("n2", letter(2))
	harness.Eventually(t, "as quiet as before", func() bool { return runtime.NumGoroutine() <= before })
}

// TestTimeoutsAreNotTold: what the kernel gives up because nothing came through
// is no sign of a death, nor is a failed write.
func TestTimeoutsAreNotTold(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), func(cfg *Config) { cfg.Idle = 100 * time.Millisecond })
	raw, _ := join(t, w, n1, "n2") // never reads
	defer raw.Close()
	big := letter(1)
	big.Message.Body = string(make([]byte, 60<<10))
	stuck := time.NewTicker(time.Millisecond)
	defer stuck.Stop()
	for late := time.After(deadline); n1.connected("n2"); {
		select {
		case <-stuck.C:
			for range maxQueue {
				n1.Send("n2", big)
			}
		case e := <-n1.events:
			if e.kind == "closed" {
				t.Fatal(e)
			}
		case <-late:
			t.Fatal("a connection that takes nothing was not given up")
		}
	}
	quiet(t, n1)
}

// TestCrashDuringTie: however many connections there were for a moment, the end
// of the process is told.
func TestCrashDuringTie(t *testing.T) {
	for range 30 {
		_, n1, n2 := pair(t, false)
		n2.talk(n1, 1)
		n2.crash(false)
		n1.kind("closed", "n2")
		n1.Close()
		n2.Close()
	}
}

// TestCloseDuringTie likewise.
func TestCloseDuringTie(t *testing.T) {
	for range 30 {
		_, n1, n2 := pair(t, false)
		n1.talk(n2, 1)
		n1.Close()
		n2.kind("closed", "n1")
		n2.Close()
	}
}

package peer

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// These tests hold what the driver of a machine owes it, as internal/protocol/effects.go and
// internal/protocol/input.go say. Package mutation lists the mistakes that they catch, and
// TestDrivingTeeth makes each.

// TestSendsAfterSaves: a message leaves when the save that it names is durable, and
// never if that fails. One that names none leaves at once.
func TestSendsAfterSaves(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		broken := errors.New("no space left on device")
		saves := func(number uint64, what ...protocol.MessageType) effect {
			return func(_ *protocol.Input, fx *protocol.Effects) {
				save(fx, number)
				for _, w := range what {
					send(fx, "n2", w, number)
				}
			}
		}
		var told protocol.Input
		r.on[protocol.Saved] = func(in *protocol.Input, _ *protocol.Effects) { told = *in }

		r.letter(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 2)
			send(fx, "n2", "a", 2)
			send(fx, "n2", "b", 0)
			send(fx, "n3", "c", 2)
		})
		r.happens("b to n2")
		r.letter(func(_ *protocol.Input, fx *protocol.Effects) { send(fx, "n2", "d", 0) })
		r.happens("d to n2") // although others wait
		r.end(nil)
		r.happens("disk: 2 is durable", "a to n2", "c to n3")
		if told.Number != 2 || told.Failed {
			t.Errorf("the machine was told %+v of save 2", told)
		}
		r.letter(func(_ *protocol.Input, fx *protocol.Effects) { send(fx, "n2", "e", 2) })
		r.happens("e to n2") // it is durable

		// After a failure, which the machine is told of, what named it is gone for good.
		r.letter(saves(3, "f"))
		r.end(broken)
		r.happens("disk: 3 has failed")
		if told.Number != 3 || !told.Failed {
			t.Errorf("the machine was told %+v of save 3", told)
		}
		r.letter(saves(4, "g"))
		r.end(nil)
		r.happens("disk: 4 is durable", "g to n2")

		// A save stands for those that it has replaced, and for none after it.
		r.letter(saves(5, "h"))
		r.happens()
		r.letter(saves(6, "i"))
		r.letter(saves(7, "j"))
		r.happens()
		r.end(nil)
		r.happens("disk: 5 is durable", "h to n2")
		r.end(nil)
		r.happens("disk: 7 is durable", "i to n2", "j to n2")
		r.letter(saves(8, "k"))
		r.happens()
		r.letter(saves(9, "l"))
		r.letter(saves(10, "m"))
		r.end(broken)
		r.happens("disk: 8 has failed")
		r.letter(saves(11, "n"))
		r.happens()
		r.end(broken) // of 10, or of 11 in its place
		r.happens("disk: 10 has failed")
		r.end(nil)
		r.happens("disk: 11 is durable", "n to n2")
	})
}

// TestNewestWaits: of each type of message only the newest to each participant waits
// for a save, in the order of time.
func TestNewestWaits(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		ack := func(fx *protocol.Effects, to protocol.NodeID, seq, after uint64) {
			send(fx, to, "ack", after)
			fx.Sends[len(fx.Sends)-1].Message.Seq = seq
		}
		r.letter(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 2)
			ack(fx, "n2", 1, 2)
			ack(fx, "n3", 1, 2)
			ack(fx, "n4", 1, 2)
			send(fx, "n2", "vote", 2)
			send(fx, "n2", "release", 2)
		})
		r.happens()
		const beats = 18_000 // of 100 ms, in half an hour
		for seq := range uint64(beats) {
			r.letter(func(_ *protocol.Input, fx *protocol.Effects) { ack(fx, "n2", seq+2, 2) })
		}
		r.letter(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 3)
			ack(fx, "n3", 2, 3)
			ack(fx, "n4", 2, 0) // what leaves at once replaces nothing
		})
		r.happens("ack 2 to n4")
		r.end(nil)
		r.happens("disk: 2 is durable", "ack 1 to n4", "vote to n2", "release to n2", "ack 18001 to n2")
		r.end(nil)
		r.happens("disk: 3 is durable", "ack 2 to n3")
	})
}

// lead has the machine win with an exclusive lease, and returns the mandate.
func (r *rig) lead(token uint64, lease time.Duration) driver.Mandate {
	r.t.Helper()
	waits := campaign(r.t.Context(), r.node)
	synctest.Wait()
	r.letter(func(in *protocol.Input, fx *protocol.Effects) {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: token}, protocol.Order{Kind: protocol.Lead, Token: token})
		r.view = protocol.View{
			Role: protocol.Leader, Term: token, Leader: protocol.Leadership{ID: "n1", Incarnation: 1, Term: token},
			Token: token, Elected: true, Active: true, LeaseEnd: in.Now.Boot.Add(lease), Read: in.Now,
		}
		r.onView = func() {
			r.onView = nil
			synctest.Wait() // whoever was told of the order goes by the view
		}
	})
	o := within(r.t, waits, "a victory")
	if o.err != nil {
		r.t.Fatal(o.err)
	}
	if err := o.m.Check(); err != nil {
		r.t.Fatalf("a victory is not proven: %v", err)
	}
	return o.m
}

// stops is the end of a term, which the next leader has caused.
func (r *rig) stops(token uint64) effect {
	return func(_ *protocol.Input, fx *protocol.Effects) {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: token, Reason: quorum.Superseded})
		r.view = protocol.View{Role: protocol.Follower, Term: token + 1}
	}
}

// superseded expects that a term has ended, for everybody who has it.
func superseded(t *testing.T, m driver.Mandate, when string) {
	t.Helper()
	if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrSuperseded) {
		t.Errorf("%s: the work's context has ended with %v; want %v", when, cause, driver.ErrSuperseded)
	}
	if err := m.Check(); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("%s: Check is %v; want %v", when, err, driver.ErrSuperseded)
	}
}

// TestViewBeforeOrders: whoever is told that it leads finds that proven, and whoever
// sees that a term is over finds the context of its work ended, with the reason.
func TestViewBeforeOrders(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		m := r.lead(7, time.Hour)
		looked := false
		r.letter(func(in *protocol.Input, fx *protocol.Effects) {
			r.stops(7)(in, fx)
			r.onView = func() {
				r.onView, looked = nil, true
				superseded(t, m, "when the view is published")
			}
		})
		if !looked {
			t.Error("the view is not asked for")
		}
	})
}

// TestOrdersBeforeSends: the work's context has ended before anything of the step
// leaves.
func TestOrdersBeforeSends(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		m := r.lead(7, time.Hour)
		r.onSend = func(what string) { superseded(t, m, what) }
		r.letter(func(in *protocol.Input, fx *protocol.Effects) {
			r.stops(7)(in, fx)
			save(fx, 2)
			send(fx, "n2", "ack", 0)
			send(fx, "n2", "vote", 2)
		})
		r.happens("ack to n2")
		r.end(nil)
		r.happens("disk: 2 is durable", "vote to n2")
	})
}

// TestClockIsReadBetween: after what is received and before what is sent.
func TestClockIsReadBetween(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		var told, arrived protocol.Instant
		r.onSend = func(what string) {
			if sent := r.now().Boot; told >= sent {
				t.Errorf("%s: the machine was told a time %v after that at which it left", what, told.Sub(sent))
			}
		}
		second := func(in *protocol.Input, fx *protocol.Effects) {
			if told = in.Now.Boot; told <= arrived {
				t.Errorf("the machine was told a time %v before that at which the letter arrived", arrived.Sub(told))
			}
			send(fx, "n2", "second", 0)
		}
		r.letter(func(in *protocol.Input, fx *protocol.Effects) {
			told = in.Now.Boot
			arrived = r.now().Boot
			r.letter(second)
			send(fx, "n2", "first", 0)
		})
		r.happens("first to n2", "second to n2")
		r.next = r.now().Boot.Add(time.Millisecond)
		r.on[protocol.Fire] = func(in *protocol.Input, fx *protocol.Effects) {
			told, r.next = in.Now.Boot, protocol.Never
			send(fx, "n2", "third", 0)
		}
		r.letter(func(in *protocol.Input, _ *protocol.Effects) { told = in.Now.Boot }) // it arms the timer
		<-time.After(time.Second)
		r.happens("third to n2")
	})
}

// TestLettersBeforeTimer: what has arrived is handed in before a timer that has come
// due.
func TestLettersBeforeTimer(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.on[protocol.Fire] = func(*protocol.Input, *protocol.Effects) {
			r.next = protocol.Never
			r.say("timer")
		}
		r.letter(func(in *protocol.Input, _ *protocol.Effects) {
			r.next = in.Now.Boot // while the step is under way
			r.letter(func(*protocol.Input, *protocol.Effects) { r.say("letter") })
		})
		r.happens("letter", "timer")
	})
}

// TestFoundingSaveIsAwaited: others hear of a node's first incarnation when it is
// durable.
func TestFoundingSaveIsAwaited(t *testing.T) {
	inVillage(t, 1, func(t *testing.T, v *village) {
		r := newRig(t)
		r.step(true)
		if err := r.open(v); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * loneFounder)
		r.happens("links")
		if i := r.link.Enter.Incarnation; i != 0 {
			t.Errorf("the first hello says incarnation %d; want none", i)
		}
		r.end(nil)
		r.happens("disk: boot is durable", "incarnation 1", "welcome")
	})
}

// TestBootSaveIsAwaited: a node that has restarted has no links before its new
// incarnation is durable.
func TestBootSaveIsAwaited(t *testing.T) {
	inVillage(t, 1, func(t *testing.T, v *village) {
		r := newRig(t)
		life := func(end error, want ...string) (err error) {
			t.Helper()
			r.step(true)
			opened := make(chan error, 1)
			go func() { opened <- r.open(v) }()
			r.happens()
			r.end(end)
			r.step(false)
			r.happens(want...)
			return within(t, opened, "New")
		}
		if err := r.open(v); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * loneFounder)
		r.happens("links", "disk: boot is durable", "incarnation 1", "welcome")
		_ = r.node.Close()

		if err := life(nil, "disk: boot is durable", "links"); err != nil {
			t.Fatal(err)
		}
		if i := r.link.Enter.Incarnation; i != 2 {
			t.Errorf("the first hello of the second life says incarnation %d", i)
		}
		_ = r.node.Close()
		if err := life(errors.New("no space left on device"), "disk: boot has failed"); err == nil {
			t.Error("a node whose boot cannot be saved is opened")
		}
	})
}

// TestLapseIsFinal: what Check has found to be over stays so, whatever the machine
// hears and the clocks show afterwards.
func TestLapseIsFinal(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		m := r.lead(7, time.Second)
		<-time.After(time.Second)
		ended := m.Check()
		if !errors.Is(ended, driver.ErrExpired) {
			t.Fatalf("Check is %v after the lease", ended)
		}
		over := func(when string) {
			t.Helper()
			if err := m.Check(); err == nil || err.Error() != ended.Error() || !errors.Is(context.Cause(m.Context()), driver.ErrExpired) {
				t.Errorf("%s: Check is %v, the context ended with %v; want both as before: %v", when, err, context.Cause(m.Context()), ended)
			}
		}
		r.letter(func(in *protocol.Input, _ *protocol.Effects) { r.view.LeaseEnd = in.Now.Boot.Add(time.Second) })
		synctest.Wait()
		if v := r.node.seen.Load(); !v.Proven(r.now()) {
			t.Error("the late answer has not renewed the lease, and so this test shows nothing")
		}
		over("after a late answer")
		r.mu.Lock()
		r.back = 2 * time.Second
		r.mu.Unlock()
		over("after the clocks were set back")
	})
}

// tap looks at what leaves a node of the village.
type tap struct {
	links
	mu   sync.Mutex
	sent []protocol.Message
}

func (l *tap) Send(to protocol.NodeID, letter *wire.Letter) {
	l.mu.Lock()
	l.sent = append(l.sent, letter.Message)
	l.mu.Unlock()
	l.links.Send(to, letter)
}

// letters returns what has left since it was called last.
func (l *tap) letters() []protocol.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sent
	l.sent = nil
	return all
}

// tapped has what leaves a node pass a tap.
func (v *village) tapped(id protocol.NodeID) *tap {
	l := &tap{}
	v.change = func(cfg *Config) {
		if connect := cfg.connect; cfg.ID == id {
			cfg.connect = func(c link.Config) (links, error) {
				var err error
				l.links, err = connect(c)
				return l, err
			}
		}
	}
	return l
}

// TestHungSync: a voter whose disk hangs from a change of the term on answers no
// heartbeat for half an hour, and then only the newest.
func TestHungSync(t *testing.T) {
	inVillage(t, 3, func(t *testing.T, v *village) {
		left := v.tapped("n3")
		var mu sync.Mutex
		var hangs chan struct{}
		v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(data []byte) error {
				mu.Lock()
				c := hangs
				mu.Unlock()
				if id == "n3" && c != nil {
					<-c
				}
				return save(data)
			}
		}
		nodes := v.openAll()
		release(t, win(t, nodes[0]))
		heal := make(chan struct{})
		mu.Lock()
		hangs = heal
		mu.Unlock()
		m := win(t, nodes[1])
		left.letters()
		hang := 30 * time.Minute
		if race.Enabled {
			hang /= 10
		}
		<-time.After(hang)
		for _, msg := range left.letters() {
			if msg.Term >= uint64(m.Token()) && msg.Granted {
				t.Fatalf("%s of term %d has left, which is not durable", msg.Type, msg.Term)
			}
		}
		close(heal)
		synctest.Wait()
		acks := 0
		for _, msg := range left.letters() {
			if msg.Type == quorum.HeartbeatAck {
				acks++
			}
		}
		if acks == 0 || acks > 2 { // that which waited, and that of a heartbeat of this moment
			t.Errorf("%d acks leave when the disk goes on; want the newest", acks)
		}
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("the leader was disturbed: %v", err)
		}
		release(t, m)
	})
}

// TestTestamentNamesThisLife: the word of a witness, said again and again, harms no
// later life of the node.
func TestTestamentNamesThisLife(t *testing.T) {
	inVillage(t, 3, func(t *testing.T, v *village) {
		left := v.tapped("n1")
		nodes := v.openAll()
		n := nodes[0]
		for range 3 {
			left.letters()
			m := win(t, n)
			<-time.After(time.Second)
			var says testament
			if err := json.Unmarshal(m.(driver.Attestable).Testament().Data, &says); err != nil {
				t.Fatal(err)
			}
			for _, msg := range left.letters() {
				if msg.Incarnation != says.Incarnation || msg.Dir != says.Dir {
					t.Fatalf("the testament is of incarnation %d of %s, and a %s of incarnation %d of %s", says.Incarnation, says.Dir, msg.Type, msg.Incarnation, msg.Dir)
				}
			}
			word := func() {
				for _, id := range []protocol.NodeID{"n2", "n3"} {
					v.mu.Lock()
					at := v.stalls[id]
					v.mu.Unlock()
					at.cfg.Receive("n1", &wire.Letter{Message: protocol.Message{Type: quorum.WitnessRelease, Dir: says.Dir, Echo: says.Incarnation}})
				}
			}
			_ = n.Close() // with its lease
			word()
			n = v.open("n1")
			word()
			m = win(t, n)
			word()
			<-time.After(5 * n.plan.Promise)
			if err := m.Check(); err != nil {
				t.Errorf("the word about an earlier life has ended the term of the next: %v", err)
			}
			release(t, m)
		}
	})
}

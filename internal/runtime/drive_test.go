package runtime

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// These tests hold what a Runner owes its machine. Package mutation lists the mistakes
// that they catch, and TestDrivingTeeth makes each.

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

		r.message(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 2)
			send(fx, "n2", "a", 2)
			send(fx, "n2", "b", 0)
			send(fx, "n3", "c", 2)
		})
		r.happens("b to n2")
		r.message(func(_ *protocol.Input, fx *protocol.Effects) { send(fx, "n2", "d", 0) })
		r.happens("d to n2") // although others wait
		r.end(nil)
		r.happens("disk: 2 is durable", "a to n2", "c to n3")
		if told.Number != 2 || told.Failed {
			t.Errorf("the machine was told %+v of save 2", told)
		}
		r.message(func(_ *protocol.Input, fx *protocol.Effects) { send(fx, "n2", "e", 2) })
		r.happens("e to n2") // it is durable

		// After a failure, which the machine is told of, what named it is gone for good.
		r.message(saves(3, "f"))
		r.end(broken)
		r.happens("disk: 3 has failed")
		if told.Number != 3 || !told.Failed {
			t.Errorf("the machine was told %+v of save 3", told)
		}
		r.message(saves(4, "g"))
		r.end(nil)
		r.happens("disk: 4 is durable", "g to n2")

		// A save stands for those that it has replaced, and for none after it.
		r.message(saves(5, "h"))
		r.happens()
		r.message(saves(6, "i"))
		r.message(saves(7, "j"))
		r.happens()
		r.end(nil)
		r.happens("disk: 5 is durable", "h to n2")
		r.end(nil)
		r.happens("disk: 7 is durable", "i to n2", "j to n2")
		r.message(saves(8, "k"))
		r.happens()
		r.message(saves(9, "l"))
		r.message(saves(10, "m"))
		r.end(broken)
		r.happens("disk: 8 has failed")
		r.message(saves(11, "n"))
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
		r.message(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 2)
			ack(fx, "n2", 1, 2)
			ack(fx, "n3", 1, 2)
			ack(fx, "n4", 1, 2)
			send(fx, "n2", "vote", 2)
			send(fx, "n2", "release", 2)
		})
		r.happens()
		const beats = 6_000 // of 100 ms, in ten minutes
		for seq := range uint64(beats) {
			r.message(func(_ *protocol.Input, fx *protocol.Effects) { ack(fx, "n2", seq+2, 2) })
		}
		r.message(func(_ *protocol.Input, fx *protocol.Effects) {
			save(fx, 3)
			ack(fx, "n3", 2, 3)
			ack(fx, "n4", 2, 0) // what leaves at once replaces nothing
		})
		r.happens("ack 2 to n4")
		r.end(nil)
		r.happens("disk: 2 is durable", "ack 1 to n4", "vote to n2", "release to n2", "ack 6001 to n2")
		r.end(nil)
		r.happens("disk: 3 is durable", "ack 2 to n3")
	})
}

// lead has the machine win with an exclusive lease, and returns the mandate.
func (r *rig) lead(token uint64, lease time.Duration) *Mandate {
	r.t.Helper()
	waits := r.campaign(true)
	synctest.Wait()
	r.message(r.wins(token, lease))
	var w won
	select {
	case w = <-waits:
	case <-time.After(time.Minute):
		r.t.Fatal("no victory")
	}
	if w.err != nil {
		r.t.Fatal(w.err)
	}
	if err := w.m.Check(); err != nil {
		r.t.Fatalf("a victory is not proven: %v", err)
	}
	return w.m
}

// wins is a victory.
func (r *rig) wins(token uint64, lease time.Duration) effect {
	return func(in *protocol.Input, fx *protocol.Effects) {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: token}, protocol.Order{Kind: protocol.Lead, Token: token})
		r.view = protocol.View{
			Role: protocol.Leader, Term: token, Leader: protocol.Leadership{ID: "n1", Incarnation: 1, Term: token},
			Token: token, Elected: true, Active: true, LeaseEnd: in.Now.Boot.Add(lease), Read: in.Now,
		}
		r.onView = func() {
			r.onView = nil
			synctest.Wait() // what was told of the order goes by the view
		}
	}
}

// stops is the end of a term, which the next leader has caused.
func (r *rig) stops(token uint64) effect {
	return func(_ *protocol.Input, fx *protocol.Effects) {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: token, Reason: "superseded"})
		r.view = protocol.View{Role: protocol.Follower, Term: token + 1}
	}
}

// superseded expects that a term has ended, for all that have it.
func superseded(t *testing.T, m *Mandate, when string) {
	t.Helper()
	if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrSuperseded) {
		t.Errorf("%s: the work's context has ended with %v; want %v", when, cause, driver.ErrSuperseded)
	}
	if err := m.Check(); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("%s: Check is %v; want %v", when, err, driver.ErrSuperseded)
	}
}

// TestViewBeforeOrders: work that is told that it leads finds that proven. What sees that
// a term is over finds the context of its work ended, with the reason.
func TestViewBeforeOrders(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		m := r.lead(7, time.Hour)
		looked := false
		r.message(func(in *protocol.Input, fx *protocol.Effects) {
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
		r.message(func(in *protocol.Input, fx *protocol.Effects) {
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
				t.Errorf("the machine was told a time %v before that at which the message arrived", arrived.Sub(told))
			}
			send(fx, "n2", "second", 0)
		}
		r.message(func(in *protocol.Input, fx *protocol.Effects) {
			told = in.Now.Boot
			arrived = r.now().Boot
			r.message(second)
			send(fx, "n2", "first", 0)
		})
		r.happens("first to n2", "second to n2")
		r.next = r.now().Boot.Add(time.Millisecond)
		r.on[protocol.Fire] = func(in *protocol.Input, fx *protocol.Effects) {
			told, r.next = in.Now.Boot, protocol.Never
			send(fx, "n2", "third", 0)
		}
		r.message(func(in *protocol.Input, _ *protocol.Effects) { told = in.Now.Boot }) // it arms the timer
		<-time.After(time.Second)
		r.happens("third to n2")
	})
}

// TestMessagesBeforeTimer: what has arrived is handed in before a timer that has come
// due.
func TestMessagesBeforeTimer(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.on[protocol.Fire] = func(*protocol.Input, *protocol.Effects) {
			r.next = protocol.Never
			r.say("timer")
		}
		r.message(func(in *protocol.Input, _ *protocol.Effects) {
			r.next = in.Now.Boot // while the step is under way
			r.message(func(*protocol.Input, *protocol.Effects) { r.say("message") })
		})
		r.happens("message", "timer")
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
		r.message(func(in *protocol.Input, _ *protocol.Effects) { r.view.LeaseEnd = in.Now.Boot.Add(time.Second) })
		synctest.Wait()
		if v := r.run.Seen(); !v.Proven(r.now()) {
			t.Error("the late answer has not renewed the lease, and so this test shows nothing")
		}
		over("after a late answer")
		r.mu.Lock()
		r.back = 2 * time.Second
		r.mu.Unlock()
		over("after the clocks were set back")
	})
}

// TestAsks: a store is asked last, waits for no save, and its answers are handed in.
func TestAsks(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		var tell func(protocol.Answer)
		r.run.cfg.Store = storeFunc(func(a protocol.Ask, answer func(protocol.Answer)) {
			r.say("ask %d", a.Number)
			tell = answer
		})
		r.on[protocol.Replied] = func(in *protocol.Input, _ *protocol.Effects) { r.say("%s to %d", in.Answer.Status, in.Answer.Number) }
		r.message(func(_ *protocol.Input, fx *protocol.Effects) {
			fx.Asks = append(fx.Asks, protocol.Ask{Number: 7, Op: protocol.Read})
			save(fx, 2)
			send(fx, "n2", "a", 0)
		})
		r.happens("a to n2", "ask 7")
		tell(protocol.Answer{Number: 7, Status: protocol.StatusUnknown})
		r.happens("unknown to 7")
		r.end(nil)
		r.happens("disk: 2 is durable")
	})
}

type storeFunc func(protocol.Ask, func(protocol.Answer))

func (f storeFunc) Ask(a protocol.Ask, tell func(protocol.Answer)) { f(a, tell) }

// TestFoundingSaveIsAwaited: a machine that boots in a turn, such as that of an election
// that is founded, has booted when its save is durable.
func TestFoundingSaveIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.step(true)
		if err := r.boot(); err != nil {
			t.Fatal(err)
		}
		r.happens()
		r.end(errors.New("no space left on device"))
		r.happens("disk: boot has failed")
		r.message(func(_ *protocol.Input, fx *protocol.Effects) { save(fx, 2) })
		r.end(nil)
		r.happens("disk: 2 is durable", "booted")
	})
}

// TestBootSaveIsAwaited: a machine that boots before there are turns, as that of a
// participant that restarts, has booted when its save is durable, and not at all if that
// fails.
func TestBootSaveIsAwaited(t *testing.T) {
	for _, end := range []error{nil, errors.New("no space left on device")} {
		t.Run(fmt.Sprint(end), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.step(true)
				booted := make(chan error, 1)
				go func() { booted <- r.boot() }()
				synctest.Wait()
				if len(booted) > 0 {
					t.Error("it has booted before its save is durable")
				}
				select {
				case r.ends <- end:
				case <-booted: // of the mistake that this test is there for
					return
				}
				if err := <-booted; !errors.Is(err, end) || (r.run.Machine() != nil) != (end == nil) {
					t.Errorf("Boot is %v, with the machine %v, although the save ended with %v", err, r.run.Machine(), end)
				}
				r.run.Stop()
			})
		})
	}
}

// TestNoIncarnation: a machine that names none when it boots is refused, and nothing that
// it wants is done.
func TestNoIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.on[protocol.Boot] = func(_ *protocol.Input, fx *protocol.Effects) {
			r.view.Incarnation = 0
			send(fx, "n2", "a", 0)
		}
		if err := r.boot(); err == nil || r.run.Seen() != nil {
			t.Errorf("it boots: %v", err)
		}
		r.happens()
	})
}

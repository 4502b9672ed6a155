package runtime

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// TestFlood: what goes on arriving neither keeps the machine from being called
// when it wants to be, nor a turn from ending.
func TestFlood(t *testing.T) {
	received, fired := 0, 0
	r := &rig{t: t, next: 1, on: map[protocol.InputKind]effect{
		protocol.Receive: func(*protocol.Input, *protocol.Effects) { received++ },
		protocol.Fire:    func(*protocol.Input, *protocol.Effects) { fired++ },
	}}
	run := New(Config{Now: func() protocol.Reading { return protocol.Reading{Boot: 2, Mono: 2} }, Late: time.Second})
	run.machine = puppet{r}
	var flood func()
	flood = func() {
		r.steps = append(r.steps, nil)
		run.Receive("n2", &protocol.Message{Round: 1}, 0, 0)
		run.Do(flood)
	}
	flood()
	if (&turns{r: run}).turn(rounds) {
		t.Error("the turn says that it has taken everything")
	}
	if received != rounds || fired != rounds {
		t.Errorf("%d messages were handed in, and the machine was called %d times when it was due; want %d of each", received, fired, rounds)
	}
}

// TestStopInFlood: a Runner for which more and more waits can be stopped.
func TestStopInFlood(t *testing.T) {
	inRig(t, func(_ *testing.T, r *rig) {
		var flood func()
		flood = func() { r.run.Do(flood) }
		flood()
		r.run.Stop()
		<-r.ended
	})
}

// TestVictoryWhileStopping: what is won while the Runner is stopped is no victory, or
// has ended when Run has returned.
func TestVictoryWhileStopping(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprint("exclusive=", exclusive), func(t *testing.T) {
			for range 20 { // which the loop sees first is chance
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					if err := r.boot(); err != nil {
						t.Fatal(err)
					}
					r.on[protocol.Do] = func(in *protocol.Input, fx *protocol.Effects) {
						if in.Command.Verb == protocol.Locate {
							r.wins(7, time.Hour)(in, fx)
							r.onView = nil
						}
					}
					r.run.Start()
					waits := r.campaign(exclusive)
					synctest.Wait()
					r.run.Do(func() { r.run.Command(protocol.Command{Verb: protocol.Locate}) })
					r.run.Stop()
					r.run.Run()
					r.run.Close()
					if m := r.run.Held(); m != nil && m.Context().Err() == nil {
						t.Errorf("Run has returned, and the context of a term has not ended; Check is %v", m.Check())
					}
					if w := <-waits; w.err == nil && w.m.Check() == nil || w.err != nil && !errors.Is(w.err, driver.ErrClosed) {
						t.Errorf("Campaign: %+v, %v", w.m, w.err)
					}
				})
			}
		})
	}
}

package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// rig is a Runner between fakes: a machine that does what the test says, a transport
// that records what leaves, a disk whose saves end when the test says so, and clocks
// that show another time at each reading. What happens is a line of the record.
type rig struct {
	t      *testing.T
	run    *Runner
	ends   chan error     // what becomes of the save that is under way
	ended  chan struct{}  // closed when Run has returned
	onSend func(s string) // called while a message leaves

	// The machine's, and so of turns.
	view   protocol.View
	next   protocol.Instant
	steps  []effect // of messages, by their Round
	on     map[protocol.InputKind]effect
	onView func()

	mu      sync.Mutex
	lines   []string
	looks   time.Duration // each reading is a nanosecond later than the one before
	back    time.Duration // how far the clocks were set back
	stepped bool          // saves wait for ends
	kept    []byte
}

// effect is what an input has the machine do.
type effect func(in *protocol.Input, fx *protocol.Effects)

// inRig runs a test on a Runner that has booted, and whose saves wait for the test.
func inRig(t *testing.T, do func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		if err := r.boot(); err != nil {
			t.Fatal(err)
		}
		r.happens("disk: boot is durable", "booted")
		r.step(true)
		do(t, r)
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ends: make(chan error), ended: make(chan struct{}), next: protocol.Never, on: map[protocol.InputKind]effect{}}
	r.run = New(Config{
		ID: "n1", Disk: r, Transport: r, Now: r.now, Late: 250 * time.Millisecond, Idle: time.Hour, Incarnations: true,
		Hooks: Hooks{Booted: func() { r.say("booted") }},
	})
	return r
}

// start has turns made, until the test ends.
func (r *rig) start() {
	r.run.Start()
	go func() {
		defer close(r.ended)
		r.run.Run()
	}()
	r.t.Cleanup(func() {
		close(r.ends)
		r.run.Stop()
		<-r.ended
		r.run.Close()
	})
}

// boot boots the machine, in a turn if there are any.
func (r *rig) boot() (err error) {
	boot := func() { err = r.run.Boot(puppet{r}, r.kept, nil) }
	if !r.run.running {
		boot()
	} else if !r.run.Call(boot) {
		err = ErrClosed
	}
	return err
}

func (r *rig) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// happens expects exactly these lines by the time when nothing goes on any more.
func (r *rig) happens(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	got := r.lines
	r.lines = nil
	r.mu.Unlock()
	if !slices.Equal(got, want) {
		r.t.Errorf("this happened:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// now is what the clocks show.
func (r *rig) now() protocol.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	at := protocol.Instant(time.Duration(time.Now().UnixNano()) + r.looks - r.back)
	return protocol.Reading{Boot: at, Mono: at}
}

// message has a message arrive that does something to the machine.
func (r *rig) message(do effect) {
	r.mu.Lock()
	r.steps = append(r.steps, do)
	round := uint64(len(r.steps))
	r.mu.Unlock()
	r.run.Receive("n2", &protocol.Message{Type: "message", Round: round}, 0, 0)
}

// step has saves wait for end, or not.
func (r *rig) step(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = on
}

// end ends the save that is under way.
func (r *rig) end(err error) { r.ends <- err }

// Save implements Disk.
func (r *rig) Save(data []byte) (err error) {
	r.mu.Lock()
	stepped := r.stepped
	r.mu.Unlock()
	if stepped {
		err = <-r.ends
	}
	if err != nil {
		r.say("disk: %s has failed", data)
		return err
	}
	r.say("disk: %s is durable", data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.Clone(data)
	return nil
}

// Settle implements Disk.
func (r *rig) Settle() error { return nil }

// Send implements Transport.
func (r *rig) Send(s *protocol.Send) {
	what := fmt.Sprintf("%s to %s", s.Message.Type, s.To)
	if seq := s.Message.Seq; seq != 0 {
		what = fmt.Sprintf("%s %d to %s", s.Message.Type, seq, s.To)
	}
	if r.onSend != nil {
		r.onSend(what)
	}
	r.say("%s", what)
}

// send and save are effects of a step.
func send(fx *protocol.Effects, to protocol.NodeID, what protocol.MessageType, after uint64) {
	fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: protocol.Message{Type: what}})
}

func save(fx *protocol.Effects, number uint64) {
	fx.Save(number, func(dst []byte) []byte { return fmt.Appendf(dst, "%d", number) })
}

// puppet is the machine of a rig.
type puppet struct{ r *rig }

func (p puppet) Step(in *protocol.Input, fx *protocol.Effects) {
	r := p.r
	var do effect
	switch in.Kind {
	case protocol.Boot:
		fx.Save(1, func(dst []byte) []byte { return append(dst, "boot"...) })
		r.view = protocol.View{Role: protocol.Follower, Incarnation: 1}
	case protocol.Receive:
		r.mu.Lock()
		do = r.steps[in.Message.Round-1]
		r.mu.Unlock()
	}
	for _, do := range []effect{do, r.on[in.Kind]} {
		if do != nil {
			do(in, fx)
		}
	}
}

func (p puppet) NextFire() protocol.Instant { return p.r.next }

func (p puppet) View() protocol.View {
	if p.r.onView != nil {
		p.r.onView()
	}
	return p.r.view
}

func (p puppet) AppendState(dst []byte) []byte { return dst }
func (p puppet) LoadState([]byte) error        { return nil }

// won is what a Campaign has come to.
type won struct {
	m   *Mandate
	err error
}

func (r *rig) campaign(exclusive bool) <-chan won {
	c := make(chan won, 1)
	go func() {
		m, err := r.run.Campaign(context.Background(), driver.Candidacy{Exclusive: exclusive})
		c <- won{m, err}
	}()
	return c
}

package flight

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
)

const (
	// queued is the greatest length of the queue: half a minute at the 30 steps a second of a leader of three in the
	// profile lan.
	queued = 1024

	// patience is how long an ordinary heartbeat may wait to be written with others. A wake-up of the writer for each
	// took a fifth of an idle node's CPU time.
	patience = time.Second

	// hashed is of how many bytes of a group's state a step pays the hash.
	hashed = 4 << 10
)

// Recorder records one life of a node.
type Recorder struct {
	cfg   Config
	queue chan *entry
	free  chan *entry
	kick  chan struct{} // has room for one: wakes the writer
	done  sync.WaitGroup

	asleep atomic.Bool // the writer waits for a kick
	wanted atomic.Bool // set by the writer: the next step must bring the state
	gaps   atomic.Uint64

	writer *writer

	// Owned by the goroutine that owns the machine:
	made    int // entries
	begun   bool
	began   protocol.Instant // when the last segment began
	missing uint64           // steps since the last recorded one
	last    protocol.View    // of the last step
	// Of a group: the length of the state that was hashed last, and how many steps it was ago.
	hashed, unhashed int
}

// Open begins a record. The first segment begins with the first step.
func Open(cfg Config) (*Recorder, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	at, err := cfg.Dir.Open()
	if err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	return start(cfg, root{at})
}

func start(cfg Config, at folder) (*Recorder, error) {
	r := &Recorder{cfg: cfg, queue: make(chan *entry, queued), free: make(chan *entry, queued), kick: make(chan struct{}, 1)}
	r.asleep.Store(true)
	var err error
	if r.writer, err = newWriter(r, at); err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	r.done.Go(r.writer.run)
	return r, nil
}

// Step records a step of the machine: its input, its effects, and the view afterwards. If a segment begins here Step
// calls state, which returns the machine's AppendState in memory that the recorder then owns. Step keeps nothing
// else, and never waits.
func (r *Recorder) Step(in *protocol.Input, fx *protocol.Effects, v *protocol.View, state func() []byte) {
	e := r.entry()
	if e == nil {
		if r.missing++; r.missing == 1 {
			r.gaps.Add(1)
		}
		return
	}
	e.set(in, fx, v)
	e.boots = in.Kind == protocol.Boot
	r.put(e, !ordinary(in, fx) || changed(&r.last, v), state)
	r.last = *v
}

// Turn records a step of a machine of a group as Step does: of a member, or of the coordinator with that tenure. The
// slices of in's message are immutable; Turn keeps nothing else of in and fx. It calls state for a hash too: not so
// often that this costs more than some KiB a step.
func (r *Recorder) Turn(tenure uint64, in *group.Input, fx *group.Effects, state func() []byte) {
	e := r.entry()
	if e == nil {
		if r.missing++; r.missing == 1 {
			r.gaps.Add(1)
		}
		return
	}
	e.turn = &trace.GroupTurn{Tenure: tenure, Input: new(*in), Effects: &group.Effects{
		Stops: slices.Clone(fx.Stops), Sends: slices.Clone(fx.Sends), Starts: slices.Clone(fx.Starts), Closes: slices.Clone(fx.Closes),
		Changes: slices.Clone(fx.Changes), Wanted: slices.Clone(fx.Wanted), Members: fx.Members, Resign: fx.Resign, Aside: fx.Aside, Reason: fx.Reason,
	}}
	own := e.turn.Input
	own.Moves, own.Wants, own.Unwants, own.Held = slices.Clone(in.Moves), slices.Clone(in.Wants), slices.Clone(in.Unwants), slices.Clone(in.Held)
	e.in.Now = in.Now
	e.boots = e.turn.Begins()
	urgent := fx.Resign || len(fx.Stops)+len(fx.Starts)+len(fx.Changes) > 0 || in.Kind != group.Receive && in.Kind != group.Fire
	if r.unhashed++; r.unhashed*hashed >= r.hashed {
		now := state()
		e.turn.Hash, r.unhashed, r.hashed = trace.HashState(now), 0, len(now)
	}
	r.put(e, urgent, state)
}

// put queues an entry.
func (r *Recorder) put(e *entry, urgent bool, state func() []byte) {
	now := e.in.Now.Boot
	e.missing, e.state = r.missing, nil
	// A step can be replayed if the steps before it can.
	e.stepped = e.boots || r.begun && r.missing == 0
	switch {
	case e.boots:
		r.began, r.begun = now, true
	case !e.stepped || r.wanted.Load() || now.Sub(r.began) >= r.cfg.MaxAge:
		r.wanted.Store(false)
		e.state = state()
		r.began, r.begun = now, true
	}
	r.missing = 0
	urgent = urgent || e.state != nil || len(r.queue) >= queued/2
	r.queue <- e // it has room for every entry that was made
	if urgent || r.asleep.Load() {
		r.hurry()
	}
}

// hurry wakes the writer.
func (r *Recorder) hurry() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// ordinary reports whether the step is one of those of a settled election: its input is a message or the time, and it
// at most sends something.
func ordinary(in *protocol.Input, fx *protocol.Effects) bool {
	return (in.Kind == protocol.Receive || in.Kind == protocol.Fire) && len(fx.Orders)+len(fx.Saves)+len(fx.Asks) == 0
}

// changed reports whether the view has changed in more than a renewed lease.
func changed(a, b *protocol.View) bool {
	return a.Role != b.Role || a.Term != b.Term || a.Leader != b.Leader || a.Elected != b.Elected || a.Active != b.Active || a.Fault != b.Fault
}

// entry returns memory for a step, or nil if the queue is full.
func (r *Recorder) entry() *entry {
	select {
	case e := <-r.free:
		return e
	default:
	}
	if r.made == queued {
		return nil
	}
	r.made++
	return new(entry)
}

// Gaps is how often steps were left out of the record, because the queue was full or the disk refused them. Any
// goroutine may call it.
func (r *Recorder) Gaps() uint64 { return r.gaps.Load() }

// Close writes the queue and ends the record. If steps are being left out at the end it returns the reason.
func (r *Recorder) Close() error {
	close(r.queue)
	r.hurry()
	r.done.Wait()
	if err := r.writer.close(); err != nil {
		return fmt.Errorf("flight: %w", err)
	}
	return nil
}

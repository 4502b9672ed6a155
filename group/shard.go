package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	machine "github.com/electd/elect/internal/protocol/group"
)

// MaxState is the greatest size of what [Shard.HandOver] takes, in bytes.
const MaxState = machine.MaxState

// again is how long a key whose work has returned by itself is not wanted.
const again = time.Second

// Shard is one leadership of one key, from when it was assigned until its work has returned. It never revives.
type Shard struct {
	t      *tenure
	parent context.Context
}

// Key is the shard's key.
func (s *Shard) Key() string { return string(s.t.key) }

// Token must accompany every write to a guarded resource. It is strictly greater in every later term of this key.
func (s *Shard) Token() elect.Token { return s.t.fence() }

// Context ends when the key is to be given up, with a *[elect.LostError] as its cause. It carries the values of the
// context of Run or Serve.
func (s *Shard) Context() context.Context { return s.t.context(s.parent) }

// Check returns nil while the key is proven to be held, by the clock, now. Call it before a side effect that cannot be
// fenced. It does no I/O. After the end it returns a *[elect.LostError].
func (s *Shard) Check() error { return s.t.check() }

// Remaining is how long the key is proven to be held from now on without another renewal; 0 once it has ended.
func (s *Shard) Remaining() time.Duration {
	if s.t.over.Load() != nil {
		return 0
	}
	return s.t.remaining()
}

// State is what the last holder has handed over, or nil if it did not, or has died. It must not be changed.
func (s *Shard) State() []byte {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.rest == nil {
		return nil
	}
	return s.t.rest.state
}

// HandOver leaves state for the next holder of the key. The last call before the work returns counts. It refuses more
// than [MaxState] bytes, and keeps the slice, which the caller must not change afterwards. The state is a hint: it is
// lost with the coordinator and with its holder.
func (s *Shard) HandOver(state []byte) error {
	if len(state) > MaxState {
		return fmt.Errorf("the state of %q has %d bytes; want at most %d: leave the rest where the next holder finds it, and hand over where that is", s.t.key, len(state), MaxState)
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.more().leaves = state
	return nil
}

// Load tells placement what this key costs, in any unit that all members share. The default is 1, and the least a
// thousandth, which 0 is, too. What is not a number from 0 to [placement.MaxLoad] is ignored.
func (s *Shard) Load(load float64) {
	if load == 0 {
		load = 0.001 // where 0 is the default
	}
	s.t.m.load(s.t.key, load)
}

// server runs the work of shards: for Run a goroutine each, for Serve call-backs.
type server struct {
	m     *member
	ctx   context.Context // of Run or Serve, without its end
	begin func(*Shard)
	end   func(*Shard)
	work  func(context.Context, *Shard) error // of Run; nil for Serve

	guarded guarded

	active sync.WaitGroup
	ending bool // no key is wanted again; guarded by the lock of the member

	mu    sync.Mutex
	wake  chan struct{}
	queue []call
}

// call is a call-back that is due.
type call struct {
	t   *tenure
	end bool
}

// start begins the work of a key. It is called by the member's loop.
func (s *server) start(t *tenure) {
	s.active.Add(1)
	t.shard = Shard{t, s.ctx}
	if s.work != nil {
		go s.run(t)
		return
	}
	s.enqueue(call{t: t})
}

func (s *server) enqueue(c call) {
	s.mu.Lock()
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	ring(s.wake)
}

// stop tells the work of a key to end, whose context has ended.
func (s *server) stop(t *tenure) {
	if s.work == nil {
		s.enqueue(call{t: t, end: true})
	}
}

// run is the goroutine of one key.
func (s *server) run(t *tenure) {
	ctx := t.shard.Context()
	stays := false
	if err := s.guarded.enter(t.epoch); err != nil {
		s.unguarded(t, err)
		return
	}
	defer func() { // even if the work panics or exits its goroutine
		s.guarded.leave(t.epoch)
		s.m.returns(t, stays)
		s.active.Done()
		if !stays {
			s.pause(t.key)
		}
	}()
	var err error
	if t.check() == nil { // what has waited long for this goroutine does not begin
		err = s.work(ctx, &t.shard)
	}
	if stays = t.over.Load() != nil; stays {
		if err != nil && !errors.Is(err, elect.ErrLost) && !errors.Is(err, context.Canceled) {
			s.m.g.log.Warn("the work of a key returned an error as it was stopped", "key", t.key, "error", err, "token", t.fence())
		}
		return
	}
	s.m.g.log.Info("the work of a key has returned by itself, and gives it up", "key", t.key, "error", err, "token", t.fence())
}

// unguarded gives a key up whose work does not begin because the guardian does not have it.
func (s *server) unguarded(t *tenure, why error) {
	if s.m.g.acceptor.news(why.Error()) { // it may be so for all keys
		s.m.g.log.Error("the guardian does not take the work of a key, which does not begin", "key", t.key, "error", why)
	}
	t.lose(fmt.Errorf("%w: %w", driver.ErrUnhealthy, why))
	s.m.returns(t, false)
	s.active.Done()
	s.pause(t.key)
}

// pause has the key wanted again after a while.
func (s *server) pause(k machine.Key) {
	time.AfterFunc(again, func() {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		if s.m.shards == s && !s.ending {
			s.m.choices = append(s.m.choices, choice{want: machine.Want{Key: k}})
			s.m.ring()
		}
	})
}

// dispatch makes the call-backs of Serve until all are made.
func (s *server) dispatch(done <-chan struct{}) {
	var queue []call
	for {
		select {
		case <-s.wake:
		case <-done:
			return
		}
		s.mu.Lock()
		queue, s.queue = s.queue, queue[:0]
		s.mu.Unlock()
		for _, c := range queue {
			switch {
			case !c.end && c.t.check() != nil: // it does not begin any more
				s.m.returns(c.t, true)
				s.active.Done()
			case !c.end:
				if err := s.guarded.enter(c.t.epoch); err != nil {
					s.unguarded(c.t, err)
					continue
				}
				c.t.begun = true
				s.begin(&c.t.shard)
			case c.t.begun:
				c.t.begun = false
				s.end(&c.t.shard)
				s.guarded.leave(c.t.epoch)
				s.m.returns(c.t, true)
				s.active.Done()
			}
		}
		clear(queue)
	}
}

// Run holds keys of [Config].Keys, calls work for each of them in a goroutine of its own, and returns when ctx has ended,
// all work has returned and the keys were given up: the cause of ctx. One Run or Serve at a time is possible.
//
// The context of work ends when its key is to be given up, with a *[elect.LostError] as its cause, and the key is given
// up when work has returned. Work that returns by itself gives its key up; an error is logged. Another member may get the
// key then, or the same one again after a second.
func (g *Group) Run(ctx context.Context, work func(ctx context.Context, s *Shard) error) error {
	return g.serve(ctx, &server{work: work})
}

// Serve is [Group.Run] without a goroutine for each key. One goroutine calls begin for each key that this member gets
// and end for each key that it has to give up; the key is given up when end has returned. Both must return quickly, and
// so must a [Config].Guardian, which that goroutine asks, too. A shard's Context is made when it is asked for.
func (g *Group) Serve(ctx context.Context, begin, end func(s *Shard)) error {
	return g.serve(ctx, &server{begin: begin, end: end})
}

func (g *Group) serve(ctx context.Context, s *server) error {
	if len(g.shards) == 0 {
		return errors.New("group.Config.Keys is empty, so that there are no shards to run; want keys, such as group.Range(64)")
	}
	s.guarded.g = g
	s.m, s.ctx, s.wake = g.member, context.WithoutCancel(ctx), make(chan struct{}, 1)
	all := func(not bool) []choice {
		choices := make([]choice, len(g.shards))
		for i, k := range g.shards {
			choices[i] = choice{machine.Want{Key: machine.Key(k)}, not}
		}
		return choices
	}
	g.member.mu.Lock()
	if g.member.closed || g.member.shards != nil {
		closed := g.member.closed
		g.member.mu.Unlock()
		if closed {
			return elect.ErrClosed
		}
		return errors.New("another Run or Serve of this Group has not returned; want one at a time")
	}
	g.member.shards = s
	g.member.mu.Unlock()
	done := make(chan struct{})
	var dispatcher sync.WaitGroup
	if s.work == nil {
		dispatcher.Go(func() { s.dispatch(done) })
	}
	g.member.choose(all(false)...)
	var err error
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-g.gone:
		err = elect.ErrClosed
	}
	unwants := all(true)
	g.member.mu.Lock()
	s.ending = true
	g.member.choices = append(g.member.choices, unwants...)
	g.member.mu.Unlock()
	g.member.ring()
	g.member.settle() // nothing starts after that
	s.active.Wait()
	close(done)
	dispatcher.Wait()
	g.member.settle()
	g.member.mu.Lock()
	g.member.shards = nil
	g.member.mu.Unlock()
	return err
}

// settle waits until the loop has taken what was left for it before.
func (m *member) settle() {
	done := make(chan struct{}, 1)
	if m.put(arrival{do: func() {}, done: done}) {
		<-done
		if m.put(arrival{do: func() {}, done: done}) { // choices are taken after what has arrived
			<-done
		}
	}
}

// load tells the coordinator what a key costs.
func (m *member) load(k machine.Key, load float64) {
	m.put(arrival{do: func() { m.watch.load(k, load) }})
}

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/internal/mutation"
)

// Times of a node.
const (
	turnTime   = 100 * time.Millisecond // between two looks at a leader that is not yet promoted
	restTime   = time.Second            // between two looks at one that is followed
	askTime    = 5 * time.Second        // of one question to another node
	askPause   = 100 * time.Millisecond // between two
	holdTime   = 2 * time.Second        // for which a node does not stand after it has let another one try
	stuckTime  = time.Minute            // without progress of a replica whose primary answers, after which it is copied anew
	lonelyTime = 2 * time.Second        // without a leader, after which a stopped server is started
	glanceTime = 200 * time.Millisecond // between two looks whether the postmaster is stopped by a signal
	frozenTime = time.Second            // of that, after which a primary gives way
	aloneTime  = 30 * time.Second       // without enough replicas that stream, after which a primary gives way: see listen
	maxAlones  = 5                      // doublings of that
	slotsTime  = 10 * time.Second       // between two looks at the slots of a primary
	waitTime   = 10 * time.Second       // without progress of a replica that does not stream, after which it waits for its primary
)

// Node is one node of the cluster: it stands in the election, and its server is the primary while it leads, and follows
// the leader otherwise. Make it with newNode.
//
// Of its goroutines, the one that holds op changes the server. A promise interrupts it.
type Node struct {
	s        *Settings
	db       database
	keep     keeper
	others   map[string]remote
	log      *slog.Logger
	rules    rules
	election *elect.Election

	op   chan struct{} // holds one value while somebody changes the server
	wake chan struct{} // a turn is due

	probed time.Time // when the server was last well; the holder of op has it

	saving sync.Mutex // held while the record changes, over the write to the disk

	mu        sync.Mutex
	saved     saved
	interrupt context.CancelCauseFunc // ends what the holder of op does; nil if there is none
	copying   bool                    // the holder of op makes a copy, which takes long
	term      *elect.Term             // while it leads
	fence     context.CancelCauseFunc // ends the work of the term
	phase     phase
	leader    string // as the election has it
	leaderAt  time.Time
	stand     context.CancelCauseFunc // ends the candidacy
	hold      time.Time               // until when this node does not stand
	may       bool                    // it may stand
	why       string                  // why it may not
	seen      server.Position         // the last position
	empty     bool
	behind    int64 // bytes behind the primary, -1 if not known
	does      string
	handing   chan string // the node to hand over to
	changes   chan func() // what a primary, which holds op, does for another goroutine
	follows   uint64      // the token that the running server was told to follow
	moved     time.Time
	copyAt    time.Time // when the last copy was begun
	missed    uint64    // the token of the primary from which it failed; 0 if it did not
	failures  int       // of starts in a row
	elsewhere bool      // the reason of the last one is not in the data
	slotsAt   time.Time // when the slots of this primary were last seen to
	alones    int       // how often in a row this node was a primary that others did not reach
}

// phase is how far a leader is.
type phase int

const (
	following phase = iota
	asking          // it asks the others
	promoted        // its server is the primary, and no replica has confirmed that yet
	serving         // clients may write
)

var (
	errPromised = errors.New("this node has promised to a later leader")
	errFrozen   = errors.New("the postmaster was stopped by a signal, as by kill -STOP")
	errHold     = errors.New("this node lets another one try")
	errStill    = errors.New("the recovery of PostgreSQL stands still")
	errAlone    = errors.New("too few replicas stream from this primary, although they answer, and try to; want that they reach its PostgreSQL")
)

// newNode makes a node. The election is set before run.
func newNode(s *Settings, db database, keep keeper, others map[string]remote, log *slog.Logger) (*Node, error) {
	n := &Node{s: s, db: db, keep: keep, others: others, log: log, op: make(chan struct{}, 1), wake: make(chan struct{}, 1), handing: make(chan string), changes: make(chan func()), behind: -1}
	var err error
	if n.saved, err = keep.load(); err == nil {
		err = n.saved.fits(s)
	}
	if mutation.Is(mutation.PostgresQuorum) {
		n.rules.off = "quorum"
	}
	return n, err
}

// run stands and follows until ctx ends, and returns when the server is stopped.
func (n *Node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { n.watch(ctx) })
	all.Go(func() { n.settle(ctx) })
	err := n.campaign(ctx)
	cancel(err)
	all.Wait()
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), n.s.Grace)
	defer done()
	if stopErr := n.db.Stop(stop, server.Fast); stopErr != nil {
		n.log.Warn("the server was not stopped in order", "error", stopErr)
	}
	return err
}

// campaign stands whenever this node may.
func (n *Node) campaign(ctx context.Context) error {
	for ctx.Err() == nil {
		n.mu.Lock()
		may := n.may && !n.saved.Paused && time.Now().After(n.hold)
		standing, cancel := context.WithCancelCause(ctx)
		n.stand = cancel
		n.mu.Unlock()
		if !may {
			pause(ctx, turnTime)
			cancel(nil)
			continue
		}
		err := n.election.Lead(standing, n.lead)
		over := standing.Err() != nil
		cancel(nil)
		if ctx.Err() == nil && !over && err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// judge ends a candidacy that this node should not have. It does not touch a leader.
func (n *Node) judge(may bool, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.may && !may {
		n.log.Info("this node does not stand", "why", why)
	}
	n.may, n.why = may, why
	if n.term == nil && n.stand != nil && (!may || n.saved.Paused) {
		n.stand(errors.New(cmp.Or(why, "it is paused")))
	}
}

// watch notes who leads.
func (n *Node) watch(ctx context.Context) {
	for state := range n.election.Watch(ctx) {
		id := ""
		if state.Leader != nil && !state.Stale {
			id = state.Leader.ID
		}
		n.mu.Lock()
		if id != n.leader {
			n.leader, n.leaderAt = id, time.Now()
		}
		n.mu.Unlock()
		n.poke()
	}
}

// poke makes the next turn come at once.
func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// record is the present one.
func (n *Node) record() record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.saved.record
}

// update changes the record durably, if change says so.
func (n *Node) update(change func(record) (record, bool)) (record, bool, error) {
	n.saving.Lock()
	defer n.saving.Unlock()
	n.mu.Lock()
	next := n.saved
	n.mu.Unlock()
	r, ok := change(next.record)
	if !ok || reflect.DeepEqual(r, next.record) {
		return next.record, ok, nil
	}
	old := next.record
	next.record = r
	if err := n.keep.save(next); err != nil {
		return old, false, fmt.Errorf("the state of this node cannot be written: %w", err)
	}
	n.mu.Lock()
	next.Paused = n.saved.Paused
	n.saved = next
	n.mu.Unlock()
	return r, true, nil
}

// always is a change that is always wanted.
func always(change func(record) record) func(record) (record, bool) {
	return func(r record) (record, bool) { return change(r), true }
}

// acquire waits until this goroutine alone may change the server. The context that it returns ends when a promise
// interrupts what is done.
func (n *Node) acquire(ctx context.Context) (context.Context, func(), error) {
	select {
	case n.op <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	n.mu.Lock()
	n.interrupt = cancel
	n.mu.Unlock()
	return ctx, func() {
		n.mu.Lock()
		n.interrupt, n.copying = nil, false
		n.mu.Unlock()
		cancel(nil)
		<-n.op
	}, nil
}

// change does something short to the server, whatever this node does.
func (n *Node) change(ctx context.Context, do func() error) error {
	var err error
	done := make(chan struct{})
	select {
	case n.op <- struct{}{}:
		defer func() { <-n.op }()
		return do()
	case n.changes <- func() { defer close(done); err = do() }:
		<-done
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look reads where the WAL of the server ends, and notes it. Its caller holds op, or only wants to know.
func (n *Node) look(ctx context.Context) (server.Position, bool, error) {
	ctx, done := context.WithTimeout(ctx, askTime)
	defer done()
	empty, err := n.db.Empty()
	var p server.Position
	if err == nil && !empty {
		p, err = n.db.Position(ctx)
	}
	if err != nil {
		return p, empty, err
	}
	return n.note(p, empty)
}

// note notes where the WAL of the server ends.
func (n *Node) note(p server.Position, empty bool) (server.Position, bool, error) {
	if n.record().Making && !empty { // Init has ended, and what it made was not noted
		if _, _, err := n.update(always(func(r record) record { return n.rules.made(r, p) })); err != nil {
			return p, empty, err
		}
	}
	if _, _, err := n.update(always(func(r record) record { return n.rules.saw(r, p) })); err != nil {
		return p, empty, err
	}
	n.mu.Lock()
	if p.LSN != n.seen.LSN || p.Replayed != n.seen.Replayed {
		n.moved = time.Now()
	}
	n.seen, n.empty = p, empty
	n.mu.Unlock()
	return p, empty, nil
}

// promise answers a leader: see rules.promise. When it returns without an error this node confirms nothing to earlier
// terms any more.
func (n *Node) promise(ctx context.Context, token uint64) (answer, error) {
	a, release, err := n.prepare(ctx, token)
	if release != nil {
		release()
	}
	n.poke()
	return a, err
}

// prepare is promise, and leaves op to its caller until release is called. It is nil if a copy goes on.
func (n *Node) prepare(ctx context.Context, token uint64) (a answer, release func(), err error) {
	r, ok, err := n.update(func(r record) (record, bool) { return n.rules.promise(r, token) })
	if err != nil {
		return a, nil, err
	}
	if !ok {
		return a, nil, &refusal{r.Promised}
	}
	n.mu.Lock()
	if n.term != nil && uint64(n.term.Token()) < token {
		n.fence(errPromised)
	}
	unfinished := n.copying && !n.saved.Whole
	if n.interrupt != nil && !unfinished {
		n.interrupt(errPromised)
	}
	n.mu.Unlock()
	if unfinished {
		return n.rules.answer(n.s.ID, n.s.node(n.s.ID).Priority, n.record(), server.Position{}, false), nil, nil
	}
	work, release, err := n.acquire(ctx)
	if err != nil {
		return a, nil, err
	}
	p, empty, err := n.detach(work)
	if err == nil && n.record().Promised > token {
		err = &refusal{n.record().Promised}
	}
	if err != nil {
		release()
		return a, nil, err
	}
	return n.rules.answer(n.s.ID, n.s.node(n.s.ID).Priority, n.record(), p, empty), release, nil
}

// detach makes the server one whose WAL does not grow.
func (n *Node) detach(ctx context.Context) (server.Position, bool, error) {
	n.mu.Lock()
	n.follows = 0
	primary := n.phase >= promoted
	n.mu.Unlock()
	empty, err := n.db.Empty()
	if err != nil || empty {
		return server.Position{}, empty, err
	}
	if primary {
		if err := n.db.Stop(ctx, server.Immediate); err != nil {
			return server.Position{}, false, err
		}
	}
	p, err := n.db.Detach(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return server.Position{}, false, context.Cause(ctx)
		}
		n.log.Warn("the server does not stop following; it is stopped", "error", err)
		if err := n.db.Stop(ctx, server.Immediate); err != nil {
			return server.Position{}, false, err
		}
		if p, err = n.db.Detach(ctx); err != nil {
			return server.Position{}, false, err
		}
	}
	return n.note(p, false)
}

// doing notes what this node does or waits for, and logs what is new.
func (n *Node) doing(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if what != n.does && what != "" {
		n.log.Info(what)
	}
	n.does = what
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

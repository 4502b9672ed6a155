package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// lead is the work of a term. It returns when the server is not a primary any more, and not before the term has ended:
// otherwise the election would end.
func (n *Node) lead(ctx context.Context, term *elect.Term) error {
	work, fence := context.WithCancelCause(ctx)
	defer fence(nil)
	n.mu.Lock()
	n.term, n.fence, n.phase = term, fence, asking
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.term, n.fence, n.phase, n.follows = nil, nil, following, 0
		n.mu.Unlock()
		n.poke()
	}()
	n.log.Info("elected", "token", term.Token())
	var all sync.WaitGroup
	all.Go(func() { n.glance(work, fence) })
	all.Go(func() { n.listen(work, fence, uint64(term.Token())) })
	err := n.attempt(ctx, work, term)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(work)
	}
	fence(nil)
	all.Wait()
	if err != nil {
		n.log.Warn("this leader gives way", "token", term.Token(), "error", err)
		hold := holdTime
		if errors.Is(err, errAlone) || errors.Is(err, errStill) { // until another one is promoted without this one, which has more
			hold += n.s.Patience
		}
		n.aside(term, hold)
	}
	<-ctx.Done()
	return nil
}

// glance ends the work of a leader whose postmaster is stopped by a signal, and stays so. A probe would find that, too,
// but is patient with a slow server.
func (n *Node) glance(work context.Context, fence context.CancelCauseFunc) {
	for since := time.Now(); work.Err() == nil; pause(work, glanceTime) {
		switch {
		case !n.db.Stopped() || n.isPaused():
			since = time.Now()
		case time.Since(since) >= frozenTime:
			fence(errFrozen)
		}
	}
}

// listen ends the work of a primary from which fewer than k replicas stream, although enough of them to promote one of
// them answer, and try to: others do not reach its PostgreSQL, and its commits wait for ever. The next one may have the
// same trouble. So a node waits twice as long each time, until replicas have streamed from it.
func (n *Node) listen(work context.Context, fence context.CancelCauseFunc, token uint64) {
	for heard := time.Now(); work.Err() == nil; pause(work, restTime) {
		n.mu.Lock()
		primary, alone := n.phase >= promoted, n.alones
		n.mu.Unlock()
		if !primary || n.isPaused() {
			heard = time.Now()
			continue
		}
		streams, err := n.streams(work)
		if err != nil {
			continue
		}
		if streams >= n.s.Confirm {
			heard, alone = time.Now(), 0
		} else if time.Since(heard) >= aloneTime<<alone && n.outside(work, token, streams) {
			alone = min(alone+1, maxAlones)
			fence(errAlone)
		}
		n.mu.Lock()
		n.alones = alone
		n.mu.Unlock()
	}
}

// streams is how many replicas stream from this primary.
func (n *Node) streams(ctx context.Context) (all int, err error) {
	ctx, done := context.WithTimeout(ctx, n.s.Probe.Limit)
	defer done()
	for id := range n.others {
		flushed, err := n.db.Flushed(ctx, id)
		if err != nil {
			return 0, err
		}
		if flushed > 0 {
			all++
		}
	}
	return all, nil
}

// outside reports whether the other nodes can promote one of them without this one, and would be enough to confirm
// commits if those that wait for this primary streamed, too.
func (n *Node) outside(ctx context.Context, token uint64, streams int) bool {
	whole := 0
	for _, s := range n.states(ctx) {
		if s.Whole && !s.Paused {
			whole++
		}
		if s.Whole && s.Waiting == token {
			streams++
		}
	}
	return whole >= len(n.s.Nodes)-n.s.Confirm && streams >= n.s.Confirm
}

// paced does something to a server in recovery, and ends it when that stands still for as long as the probe of a primary
// may fail: a read or write of its disk hangs.
func (n *Node) paced(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		limit := n.s.Probe.Limit * time.Duration(n.s.Probe.Failures)
		since, last := time.Now(), 0
		for pause(ctx, glanceTime); ctx.Err() == nil; pause(ctx, glanceTime) {
			if now := n.db.Recovery(); now != last || now == 0 {
				since, last = time.Now(), now
			} else if time.Since(since) >= limit {
				cancel(fmt.Errorf("%w for %v", errStill, limit))
			}
		}
	})
	err := do(ctx)
	cancel(nil)
	all.Wait()
	return err
}

// aside ends the term and lets another node try for a time.
func (n *Node) aside(term *elect.Term, hold time.Duration) {
	n.mu.Lock()
	n.hold = time.Now().Add(hold)
	if n.stand != nil {
		defer n.stand(errHold)
	}
	n.mu.Unlock()
	term.Resign()
}

// attempt is lead, with the context of the term and one that a promise to a later leader ends, too. After an error
// leadership is given up.
func (n *Node) attempt(ctx, work context.Context, term *elect.Term) error {
	token := uint64(term.Token())
	got, stop := n.ask(work, token) // the others prepare while this node does
	defer stop()
	own, release, err := n.prepare(work, token)
	if release != nil {
		defer release()
	}
	if err != nil {
		return err
	}
	what, to, err := n.gather(work, term, own, got)
	stop()
	switch {
	case err != nil:
		return err
	case what == yield:
		if ctx.Err() == nil {
			return fmt.Errorf("%s should lead, and this back end cannot hand over to it; want it to stand while this node rests", to)
		}
		return nil
	}
	if release == nil {
		return errors.New("a copy is not finished")
	}
	defer func() { // before release
		if err := n.halt(ctx, work); err != nil {
			n.log.Error("the primary cannot be stopped", "error", err)
		}
	}()
	if err := n.promote(work, token, what); err != nil {
		return fmt.Errorf("the promotion: %w", err)
	}
	return n.serve(work, term)
}

// halt stops the primary: in order if leadership is kept until this returns, at once otherwise.
func (n *Node) halt(ctx, work context.Context) error {
	n.mu.Lock()
	if n.phase > promoted {
		n.phase = promoted
	}
	n.mu.Unlock()
	mode := server.Immediate
	lost, ok := errors.AsType[*elect.LostError](context.Cause(ctx))
	if ok && (lost.Reason == elect.ReasonResigned || lost.Reason == elect.ReasonShutdown) && !errors.Is(context.Cause(work), errPromised) {
		mode = server.Fast
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), n.s.Grace)
	defer done()
	return n.db.Stop(stop, mode)
}

// said is what another node has answered: a promise, or a refusal.
type said struct {
	answer
	err error
}

// ask asks the other nodes for their promise, each until it answers, or until stop is called. stop returns when nobody
// is asked any more; it may be called twice.
func (n *Node) ask(ctx context.Context, token uint64) (got <-chan said, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	answers := make(chan said, len(n.others))
	for id, other := range n.others {
		all.Go(func() {
			for ctx.Err() == nil {
				one, done := context.WithTimeout(ctx, askTime)
				a, err := other.prepare(one, token)
				done()
				_, refused := errors.AsType[*refusal](err)
				if err == nil || refused {
					a.ID = id
					answers <- said{a, err}
					return
				}
				pause(ctx, askPause)
			}
		})
	}
	return answers, func() { cancel(nil); all.Wait() }
}

// gather takes answers until it is known what to do.
func (n *Node) gather(ctx context.Context, term *elect.Term, own answer, got <-chan said) (verdict, string, error) {
	answers := map[string]answer{own.ID: own}
	patience := time.After(n.s.Patience)
	for {
		what, to, why := n.rules.choose(n.s.ID, n.s.ids(), n.s.Confirm, answers)
		switch what {
		case promote, found:
			return what, to, nil
		case yield:
			n.doing(why)
			switch err := term.Transfer(to); {
			case err == nil, errors.Is(err, elect.ErrUnsupported), errors.Is(err, elect.ErrNotLeader):
				return yield, to, nil
			default: // it does not stand: do the others suffice?
				n.log.Warn("the best node cannot lead; trying without it", "node", to, "error", err)
				delete(answers, to)
				continue
			}
		}
		n.doing("waiting: " + why)
		select {
		case a := <-got:
			if a.err != nil {
				return wait, "", fmt.Errorf("%s: %w", a.ID, a.err)
			}
			answers[a.ID] = a.answer
		case <-patience:
			return wait, "", errors.New(why)
		case <-ctx.Done():
			return wait, "", context.Cause(ctx)
		}
	}
}

// promote makes the server the primary of a term.
func (n *Node) promote(ctx context.Context, token uint64, what verdict) error {
	_, ok, err := n.update(func(r record) (record, bool) {
		r, ok := n.rules.begin(r, token)
		r.Making = what == found
		return r, ok
	})
	if err != nil {
		return err
	}
	if !ok {
		return errPromised
	}
	if what == found {
		n.doing("there is no data anywhere: making the cluster")
		if err := n.db.Init(ctx); err != nil {
			return err
		}
		if _, _, err := n.look(ctx); err != nil { // it notes that the cluster was made
			return err
		}
		if err := n.db.StartPrimary(ctx, token); err != nil {
			return err
		}
	} else {
		n.doing(fmt.Sprintf("promoting under the token %d", token))
		if !n.db.Running() {
			if err := n.paced(ctx, func(ctx context.Context) error { return n.db.StartStandby(ctx, nil) }); err != nil {
				return err
			}
		}
		var p server.Position
		if err := n.paced(ctx, func(ctx context.Context) (err error) { p, err = n.db.Promote(ctx, token); return err }); err != nil {
			return err
		}
		if _, _, err := n.update(always(func(r record) record { return n.rules.promoted(r, p) })); err != nil {
			return err
		}
	}
	p, err := n.db.Position(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.seen, n.empty, n.phase = p, false, promoted
	n.mu.Unlock()
	others := slices.Sorted(maps.Keys(n.others))
	if err := n.db.Slots(ctx, others); err != nil {
		return err
	}
	n.doing(fmt.Sprintf("waiting for %d of %v to confirm the term", n.s.Confirm, others))
	return n.mark(ctx, token, p.Timeline)
}

// mark returns when the row of the term is confirmed.
func (n *Node) mark(ctx context.Context, token uint64, timeline uint32) error {
	for {
		err := n.db.Mark(ctx, token, n.s.ID, timeline)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		select {
		case <-n.db.Done():
			return fmt.Errorf("the server has ended: %w", err)
		default:
		}
		n.log.Warn("the row of the term was not confirmed; trying again", "error", err)
		pause(ctx, restTime)
	}
}

// serve serves until the term ends, or until this node should not be the primary.
func (n *Node) serve(ctx context.Context, term *elect.Term) error {
	n.mu.Lock()
	n.phase = serving
	n.mu.Unlock()
	n.doing("")
	n.log.Info("primary", "token", term.Token())
	probes := make(chan error, 1)
	probing, failures := false, 0
	var next string // to whom to hand over
	var until time.Time
	var refused error
	tick := time.NewTicker(n.s.Probe.Every)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.db.Done():
			return n.succeed(ctx, term, errors.New("the server has ended"))
		case do := <-n.changes:
			do()
		case to := <-n.handing:
			next, until = to, time.Now().Add(n.s.Patience)
			n.log.Info("handing over in order", "to", to)
			if refused = term.Transfer(next); errors.Is(refused, elect.ErrUnsupported) { // the others stand while this node rests
				n.aside(term, n.s.Grace+holdTime) // the rest begins before the orderly end; follow ends it
			}
		case err := <-probes:
			probing = false
			if err == nil {
				failures = 0
				continue
			}
			if failures++; failures < n.s.Probe.Failures || n.isPaused() {
				n.log.Warn("the probe of the primary has failed", "error", err, "in_a_row", failures)
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			// Its orderly end could take long. This node stands again when its server is well: see consider.
			if err := n.db.Stop(ctx, server.Immediate); err != nil {
				n.log.Error("the primary cannot be stopped", "error", err)
			}
			return fmt.Errorf("the probe of the primary has failed %d times: %w", failures, err)
		case <-tick.C:
			// A hand-over is refused while the other one does not stand. Leadership is released when this server has ended in
			// order: see halt.
			if refused != nil && time.Now().After(until) {
				n.log.Warn("this node goes on, because it cannot hand over", "to", next, "error", refused)
				refused = nil
			} else if refused != nil {
				refused = term.Transfer(next)
			}
			if probing {
				continue
			}
			probing = true
			all.Go(func() {
				one, done := context.WithTimeout(ctx, n.s.Probe.Limit)
				defer done()
				probes <- n.db.Probe(one)
				n.tend(ctx, uint64(term.Token()))
			})
		}
	}
}

// tend keeps the position of a primary that is shown and the slots of the others, and ends the founding when enough nodes
// have a copy.
func (n *Node) tend(ctx context.Context, token uint64) {
	ctx, done := context.WithTimeout(ctx, n.s.Probe.Limit)
	defer done()
	if p, err := n.db.Position(ctx); err == nil {
		n.mu.Lock()
		n.seen = p
		n.mu.Unlock()
	}
	n.mu.Lock()
	due := time.Since(n.slotsAt) >= slotsTime
	if due {
		n.slotsAt = time.Now()
	}
	n.mu.Unlock()
	if due {
		if err := n.db.Slots(ctx, slices.Sorted(maps.Keys(n.others))); err != nil {
			n.log.Warn("the replication slots cannot be made", "error", err)
		}
	}
	if !n.record().Founding {
		return
	}
	whole := 1
	for _, s := range n.states(ctx) {
		if s.Whole && s.Followed == token {
			whole++
		}
	}
	if whole >= len(n.s.Nodes)-n.s.Confirm {
		_, _, err := n.update(always(func(r record) record { r.Founding = false; return r }))
		if err == nil {
			n.log.Info("the cluster is founded", "copies", whole)
		}
	}
}

// states asks all others how they are, and returns those that answer.
func (n *Node) states(ctx context.Context) (all []Status) {
	ctx, done := context.WithTimeout(ctx, restTime)
	defer done()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, other := range n.others {
		wg.Go(func() {
			if s, err := other.status(ctx, false); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s)
			}
		})
	}
	wg.Wait()
	return all
}

// successor is the node that should lead next, or "".
func (n *Node) successor(ctx context.Context) string {
	var best Status
	for _, s := range n.states(ctx) {
		if s.Whole && !s.Paused && (best.ID == "" || s.Followed > best.Followed || s.Followed == best.Followed && s.LSN > best.LSN) {
			best = s
		}
	}
	return best.ID
}

// succeed hands leadership over after this primary has ended.
func (n *Node) succeed(ctx context.Context, term *elect.Term, why error) error {
	n.mu.Lock()
	n.phase = promoted
	n.mu.Unlock()
	to := n.successor(ctx)
	if to == "" {
		return why
	}
	n.log.Warn("handing over", "to", to, "because", why)
	if err := term.Transfer(to); err != nil {
		return errors.Join(why, err)
	}
	return nil
}

// ready checks that a node can be handed to, or finds the best one, and waits until an orderly stop is short. It runs
// beside the primary, which may hang.
func (n *Node) ready(ctx context.Context, token uint64, to string) (string, error) {
	if to == "" {
		if to = n.successor(ctx); to == "" {
			return "", errors.New("no other node has whole data; want one that has")
		}
	}
	other := n.others[to]
	if other == nil {
		return "", fmt.Errorf("%q is no other node of this cluster; want one of the others", to)
	}
	asked, done := context.WithTimeout(ctx, askTime)
	defer done()
	s, err := other.status(asked, false)
	switch {
	case err != nil:
		return "", err
	case !s.Whole || !s.Streaming || s.Followed != token:
		return "", fmt.Errorf("%s does not stream from this primary; want a replica that does", to)
	case s.Paused:
		return "", fmt.Errorf("%s is paused; want elect recipe postgres resume", to)
	}
	return to, n.near(ctx, to)
}

// near returns when a replica is so near that an orderly stop is short.
func (n *Node) near(ctx context.Context, id string) error {
	ctx, done := context.WithTimeout(ctx, n.s.Grace)
	defer done()
	if err := n.db.Checkpoint(ctx); err != nil {
		return err
	}
	for {
		p, err := n.db.Position(ctx)
		if err != nil {
			return err
		}
		flushed, err := n.db.Flushed(ctx, id)
		if err != nil {
			return err
		}
		if flushed+segmentSize >= p.LSN {
			return nil
		}
		if pause(ctx, turnTime); ctx.Err() != nil {
			return fmt.Errorf("%s is %d bytes behind after %v; want a replica that is nearer, or a longer grace", id, p.LSN-flushed, n.s.Grace)
		}
	}
}

// segmentSize is that of WAL, by default, in bytes.
const segmentSize = 16 << 20

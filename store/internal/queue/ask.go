package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/queue"
)

// Ask implements [runtime.Store]. The machine has at most one request of a kind in flight.
func (e *Elector) Ask(a protocol.Ask, tell func(protocol.Answer)) {
	own, known := e.known[a.Entry.Order]
	switch a.Op {
	case protocol.OpenSession, protocol.CloseSession, protocol.Leave:
		e.mine()
		e.ahead()
		e.touches()
	case protocol.WatchEntry:
		e.watch(a, own, tell)
		return
	case protocol.WatchTouch:
		e.watchTouches(a, tell)
		return
	}
	text, err := "", error(nil)
	switch a.Op {
	case protocol.Enter:
		text, err = encode(string(a.Entry.Holder), a.Nonce, e.Metadata)
	case protocol.Mark, protocol.Leave:
		if a.Op == protocol.Mark && e.since.IsZero() {
			e.since = time.Now()
			e.touches() // nobody is ahead any more
		}
		if a.SetMark {
			text = encodeMark(a.Mark, e.since)
		}
	case protocol.List:
		if own = e.known[e.own]; own.Order == 0 {
			own = Entry{Session: a.Session}
		}
	}
	needs := a.Op == protocol.Verify || a.Op == protocol.Touch || a.Op == protocol.Mark || a.Op == protocol.Leave
	if needs && !known && err == nil {
		err = fmt.Errorf("the entry of order %d was not seen by this process", a.Entry.Order)
	}
	e.Request(a, true, tell, func(ctx context.Context, out *protocol.Answer) (func(), error) {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return e.do(ctx, &a, own, text, out)
	})
}

// do makes the request of an ask.
func (e *Elector) do(ctx context.Context, a *protocol.Ask, own Entry, text string, out *protocol.Answer) (heard func(), err error) {
	switch a.Op {
	case protocol.OpenSession:
		out.Session, out.TTL, err = e.queue.Open(ctx, a.TTL)
		return func() { e.forget(); e.session = out.Session }, err
	case protocol.KeepAlive:
		out.TTL, err = e.queue.KeepAlive(ctx, a.Session)
		heard = e.renewed
	case protocol.CloseSession:
		return e.forget, e.queue.Close(ctx, a.Session)
	case protocol.Enter:
		var entered Entry
		if entered, err = e.queue.Enter(ctx, a.Session, text); err == nil {
			out.Entry = decode(&entered).entry(&entered)
			heard = func() {
				if e.session == a.Session { // otherwise it is late, and the candidacy another one
					e.own, e.known = entered.Order, map[uint64]Entry{entered.Order: entered}
				}
			}
		}
	case protocol.Sync:
		err = e.queue.(Syncer).Sync(ctx, a.Session) // only that dialect asks for it
	case protocol.List:
		var l Listing
		if l, err = e.queue.List(ctx, own); err == nil {
			heard = e.listed(&l, own, out)
		}
	case protocol.Verify, protocol.Touch:
		read := e.queue.Verify
		if a.Op == protocol.Touch {
			read = e.queue.Touch
		}
		var l Listing
		if l, err = read(ctx, own); err == nil {
			out.Revision, out.Entry = l.Revision, decode(&l.Entries[0]).entry(&l.Entries[0])
			heard = func() { e.obey(own, l.Wish) }
		}
	case protocol.Mark:
		err = e.queue.Change(ctx, own, Change{Mark: text})
	case protocol.Leave:
		err = e.queue.Change(ctx, own, Change{Mark: text, Leave: true})
	default:
		panic("queue: the machine asks to " + a.Op.String())
	}
	return heard, err
}

// renewed reads the wish while the work returns, if the machine does not verify the entry then.
func (e *Elector) renewed() {
	own := e.known[e.own]
	if e.cfg.Machine.Hold > 0 || e.Run.View().Role != protocol.Fencing || own.Order == 0 {
		return
	}
	e.Go(func() {
		ctx, cancel := context.WithTimeout(e.Life, e.cfg.Machine.RequestTimeout())
		defer cancel()
		if l, err := e.queue.Verify(ctx, own); err == nil {
			e.Run.Do(func() { e.obey(own, l.Wish) })
		}
	})
}

// forget drops what is known of a candidacy.
func (e *Elector) forget() {
	e.session, e.own, e.known, e.since = 0, 0, map[uint64]Entry{}, time.Time{}
}

// listed fills in the answer to List. A mark that is not ours counts as none, after which a winner
// waits for the longest hold.
func (e *Elector) listed(l *Listing, own Entry, out *protocol.Answer) (heard func()) {
	known, mine := map[uint64]Entry{own.Order: own}, own.Order
	for i := range l.Entries {
		from := &l.Entries[i]
		known[from.Order] = *from
		if from.Session == own.Session && (mine == 0 || from.Order < mine) && e.cfg.Machine.Dialect == machine.ZooKeeper {
			mine = from.Order // the answer to its Enter was lost
		}
		out.Entries = append(out.Entries, decode(from).entry(from))
	}
	m, err := decodeMark(l.Mark)
	if err == nil {
		if out.Mark = m.mark(); l.Touch.Order == m.Order {
			out.Mark.Touched = l.Touch.Revision
		}
	}
	out.Revision = l.Revision
	return func() {
		if e.own == own.Order {
			if e.known = known; own.Session == e.session {
				e.own = mine
			}
		}
		if bad := err != nil; bad != e.warned {
			if e.warned = bad; bad {
				e.Log.Warn("the mark of the queue is not one of elect's, and counts as none", "error", err)
			}
		}
	}
}

// watch watches the own entry, or the one ahead in place of an earlier one.
func (e *Elector) watch(a protocol.Ask, of Entry, tell func(protocol.Answer)) {
	ctx, cancel := context.WithCancel(e.Life)
	if a.Entry.Order == e.own {
		e.mine()
		e.mine = cancel
	} else {
		e.ahead()
		e.ahead = cancel
	}
	e.Go(func() {
		defer cancel()
		answer := protocol.Answer{Number: a.Number, Status: protocol.StatusEvent}
		if of.Order == 0 || e.queue.Watch(ctx, of, a.Revision) != nil {
			answer.Status = protocol.StatusClosed
		}
		tell(answer)
	})
}

// watchTouches watches the touches of the leader, which the candidate behind it does.
func (e *Elector) watchTouches(a protocol.Ask, tell func(protocol.Answer)) {
	e.touches()
	ctx, cancel := context.WithCancel(e.Life)
	e.touches = cancel
	e.Go(func() {
		defer cancel()
		_ = e.queue.WatchTouch(ctx, a.Revision, func(t Touch) {
			mark := protocol.QueueMark{Order: t.Order, Touched: t.Revision}
			tell(protocol.Answer{Number: a.Number, Status: protocol.StatusEvent, Mark: mark})
		})
		tell(protocol.Answer{Number: a.Number, Status: protocol.StatusClosed})
	})
}

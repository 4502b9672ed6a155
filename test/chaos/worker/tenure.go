//go:build linux

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/test/chaos/lives"
)

const (
	// look is the time between two calls of Check, and late the additional time after which it is
	// called again and again, for burst at most.
	look  = time.Millisecond
	late  = 2 * time.Millisecond
	burst = 5 * time.Millisecond

	// share is the part of the time that may go into bursts: one in so many.
	share = 20
)

// tenure is the work of one term: it stamps, writes and streams until ctx ends.
func (p *program) tenure(ctx context.Context, term *elect.Term) {
	var all sync.WaitGroup
	defer all.Wait()
	hurry := make(chan struct{}, 1)
	all.Go(func() {
		p.load.work(ctx, hurry, func() (fence.Token, bool) {
			err := term.Check()
			return term.Token(), err == nil || errors.Is(err, elect.ErrNotExclusive) // then its token is its only proof
		}, term.Next)
	})
	all.Go(func() { p.stamp(ctx, term, hurry) })
	all.Go(func() { p.lapse(ctx, term) })
}

// checker is what is asked of a term.
type checker interface {
	Token() elect.Token
	Check() error
}

// stamp records the time for which Check says that the term leads. It reads the clock after the
// first answer, and before each later one.
func (p *program) stamp(ctx context.Context, term checker, hurry chan<- struct{}) {
	onTime()
	var err error
	for err = term.Check(); errors.Is(err, elect.ErrNotExclusive); err = term.Check() {
		if !wait(ctx, look) { // it leads and cannot prove it yet, if it ever can
			return
		}
	}
	if err != nil {
		return
	}
	start := p.ledger.Now()
	slot := p.ledger.Begin(lives.Life{Token: int64(term.Token()), Keeper: p.keeper, Node: p.node, Kind: p.kind, Start: start})
	proven := func() (at int64, ok bool) {
		at = p.ledger.Now()
		if term.Check() != nil {
			return at, false
		}
		slot.StampAt(0, at)
		return at, true
	}
	b := budget{last: start}
	for {
		asked, ok := proven()
		if !ok || ctx.Err() != nil {
			return
		}
		nap(look)
		woke := p.ledger.Now()
		b.earn(woke)
		if woke-asked < int64(look+late) {
			continue
		}
		select {
		case hurry <- struct{}{}: // a leader with a wrong belief would write now
		default: // it is about to
		}
		for end := woke + b.spend(); ; {
			at, ok := proven()
			if !ok {
				return
			}
			if at >= end {
				break
			}
		}
	}
}

// budget is what may be spent on bursts. Times are in nanoseconds.
type budget struct{ last, left int64 }

// earn adds a share of the time that has passed, and keeps enough for a few bursts.
func (b *budget) earn(now int64) {
	b.left = min(b.left+(now-b.last)/share, 4*int64(burst))
	b.last = now
}

// spend takes out what one burst may last.
func (b *budget) spend() int64 {
	d := min(b.left, int64(burst))
	b.left -= d
	return d
}

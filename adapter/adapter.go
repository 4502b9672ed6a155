// Package adapter lets code that was written for another elector use elect as it is. [Elector] answers schedulers and
// loops that ask before each run whether this process leads, such as gocron. For client-go's leaderelection there is
// package adapter/leaderelection, and for the manager of controller-runtime adapter/controllerruntime, in modules of
// their own.
package adapter

import (
	"context"
	"sync/atomic"

	"github.com/electd/elect"
)

// Elector knows whether this process leads. It is what gocron calls an Elector, and Leads is a func() bool. The zero
// value is ready: nobody leads before [Elector.Lead] has won. Its methods may be called by any number of goroutines.
type Elector struct {
	term atomic.Pointer[elect.Term]
}

// IsLeader returns nil while leadership is proven, by the clock, now; it does no I/O. Else the error matches
// [elect.ErrNotLeader]. It says nothing about later: work that a caller has begun goes on until Lead stops it.
func (e *Elector) IsLeader(context.Context) error {
	if term := e.term.Load(); term != nil {
		return term.Check()
	}
	return elect.ErrNotLeader
}

// Leads reports whether leadership is proven, as [Elector.IsLeader] does.
func (e *Elector) Leads() bool { return e.IsLeader(context.Background()) == nil }

// Term returns the present term, or nil if this process does not lead. Send its token with each write.
func (e *Elector) Term() *elect.Term {
	if term := e.term.Load(); term != nil && term.Check() == nil {
		return term
	}
	return nil
}

// Lead campaigns again and again until ctx ends, as [elect.Election.Lead] does. At the end of each term it calls stop,
// which has to end all work that was begun in the term, and return when that has ended; then Lead releases leadership.
// stop has the time of [elect.Config].Drain. Its error is logged. Lead may run only once at a time.
func (e *Elector) Lead(ctx context.Context, election *elect.Election, stop func() error) error {
	return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		e.term.Store(term)
		<-ctx.Done()
		e.term.Store(nil)
		return stop()
	})
}

package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// asker is a named election for a process whose certificate is that of no member, such as an operator's: it observes and
// asks, and does not stand.
type asker struct {
	c    *Client
	name string
	most driver.Limits
	stop func() error
}

// glance is how often an asker looks for a change. Mostly it asks nobody: see [Client.Lookup].
const glance = 50 * time.Millisecond

// Campaign implements [driver.Elector].
func (a *asker) Campaign(context.Context, driver.Candidacy) (driver.Mandate, error) {
	return nil, driver.Permanent(fmt.Errorf("%w: %s has no certificate of its own, and so is no member of the group; want one that names it", driver.ErrUnsupported, a.c.hello.ID))
}

// Watch implements [driver.Elector].
func (a *asker) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(a.c.ctx, cancel)()
		var last driver.State
		for first := true; ctx.Err() == nil; first = false {
			within, stop := context.WithTimeoutCause(ctx, 2*fresh, errors.New("it does not answer"))
			l, err := a.c.Lookup(within, a.name)
			stop()
			s := driver.State{Leader: &l}
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, driver.ErrNoLeader):
				s.Leader = nil
			case err != nil:
				s = driver.State{Leader: last.Leader, Stale: true, Cause: err}
			}
			if first || s.Stale != last.Stale || !reflect.DeepEqual(s.Leader, last.Leader) {
				if !yield(s, nil) {
					return
				}
			}
			last = s
			select {
			case <-time.After(glance):
			case <-ctx.Done():
			}
		}
	}
}

// Limits implements [driver.Elector].
func (a *asker) Limits() driver.Limits { return a.most }

// Close implements [driver.Elector].
func (a *asker) Close() error { return a.stop() }

// Resign implements [driver.Resigner].
func (a *asker) Resign(ctx context.Context, token fence.Token) error {
	return a.c.call(ctx, "resign", request{Key: a.name, Token: token}, nil)
}

// Transfer implements [driver.Transferrer].
func (a *asker) Transfer(ctx context.Context, token fence.Token, to string) error {
	return a.c.call(ctx, "move", request{Key: a.name, Token: token, To: to}, nil)
}

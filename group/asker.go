package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// asker is a named election for a process that is no member, because it was opened by [Asker], or because its
// certificate is that of no member, such as an operator's: it observes and asks, and does not stand.
type asker struct {
	c    *Client
	name string
	not  string // why it is no member
	stop func() error
}

// Asker is [OpenerWith] for processes that observe named elections, and ask their leaders to resign or to hand over. It
// makes no member of the group and no candidate for coordinator. Campaign fails with [driver.ErrUnsupported]. configure
// may be nil.
func Asker(inner driver.Opener, configure func(params url.Values, cfg *Config) error) driver.Opener {
	return func(ctx context.Context, t driver.Target) (driver.Elector, error) {
		if group := NameOf(t.URL); t.Name == group {
			return nil, driver.Permanent(errNameOfGroup(group))
		}
		c, err := OpenClient(ctx, inner, t.URL, configure)
		if err != nil {
			return nil, err
		}
		return &asker{c, t.Name, "this process asks only", c.Close}, nil
	}
}

// glance is how often an asker looks for a change. Mostly it asks nobody: see [Client.Lookup].
const glance = 50 * time.Millisecond

// Campaign implements [driver.Elector].
func (a *asker) Campaign(context.Context, driver.Candidacy) (driver.Mandate, error) {
	return nil, driver.Permanent(fmt.Errorf("%w: %s", driver.ErrUnsupported, a.not))
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

// Limits implements [driver.Elector]. The lease is that of members with the promise of this client's URL.
func (a *asker) Limits() driver.Limits {
	claim := protocol.DefaultDrift().Claim(a.c.stall)
	return driver.Limits{
		Lease: claim, MinLease: claim, MaxLease: claim,
		Exclusive: true, Abilities: []driver.Ability{driver.AbilityTransfer, driver.AbilityResign}, Assumes: a.c.election.Limits().Assumes,
	}
}

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

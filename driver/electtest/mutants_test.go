package electtest_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/store/memory"
)

// mutants is every mutant by name; "control" is none.
func mutants() map[string]mutant {
	all := map[string]mutant{"control": {}}
	for _, some := range []map[string]mutant{proofs(), tokens(), ends(), campaigns(), observers(), abilities(), handovers(), faults()} {
		maps.Copy(all, some)
	}
	return all
}

// each makes a mutant's participants wrap their mandates.
func each(dress func(*mandate)) func(*participant) {
	return func(p *participant) {
		p.mandate = func(m *mandate) driver.Mandate {
			dress(m)
			return m
		}
	}
}

// proofs have errors about how long they lead.
func proofs() map[string]mutant {
	return map[string]mutant{
		"Check is always nil": {fails: "again", says: "Check returns nil after the end",
			participant: each(func(m *mandate) { m.check = func() error { return nil } })},
		"Check uses the last result of a ticker": {fails: "frozen holder", says: "proven right after it woke",
			participant: func(p *participant) {
				woken := false
				p.Freeze = func(on bool) {
					p.inner.Freeze(on)
					woken = !on
				}
				p.mandate = func(m *mandate) driver.Mandate {
					m.check = func() error {
						if woken {
							woken = false // the ticker has not run yet
							return nil
						}
						return m.inner.Check()
					}
					return m
				}
			}},
		"Check of a fresh victory fails": {fails: "win", says: "Check right after a victory",
			participant: each(func(m *mandate) { m.check = func() error { return driver.ErrNotExclusive } })},
		"a lost mandate revives": {fails: "cut-off holder", says: "proven again",
			participant: each(func(m *mandate) {
				var lost time.Time
				m.check = func() error {
					err := m.inner.Check()
					switch {
					case err == nil:
						return nil
					case lost.IsZero():
						lost = time.Now()
					case time.Since(lost) > 100*time.Millisecond:
						return nil
					}
					return err
				}
			})},
		"Remaining is above the lease": {fails: "win", says: "Remaining is 1.1s",
			participant: each(func(m *mandate) {
				m.remaining = func() (time.Duration, bool) { return 1100 * time.Millisecond, true }
			})},
		"Remaining is unbounded where a lease runs out": {fails: "win", says: "bounded=false",
			participant: each(func(m *mandate) { m.remaining = func() (time.Duration, bool) { return 0, false } })},
		"Remaining goes on after the end": {fails: "again", says: "Remaining is 1ns after the end",
			participant: each(func(m *mandate) { m.remaining = func() (time.Duration, bool) { return 1, true } })},
		"the lease counts from the answer": {fails: "anchored", says: "is proven while another is",
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					won := time.Now()
					m.check = func() error {
						if time.Since(won) < time.Second {
							return nil
						}
						return m.inner.Check()
					}
					return m
				}
			}},
		"a lapsed lease is returned as a victory": {fails: "lapsed while waiting", says: "victory that is not proven",
			participant: func(p *participant) {
				late := time.Duration(0)
				p.Delay = func(d time.Duration) { late = d }
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					m, err := p.inner.Campaign(ctx, c)
					if d := late; err == nil && d > 0 {
						late = 0
						p.inner.Freeze(true)
						<-time.After(d)
						p.inner.Freeze(false)
					}
					return m, err
				}
			}},
		"each participant has a store of its own": {fails: "exclusion", says: "holders at once",
			store: func(w *world) { w.store = memory.NewStore(0) }},
		"an unanswered renewal counts as renewed": {fails: "cut-off holder", says: "is proven while another is",
			participant: each(func(m *mandate) {
				lease := time.Second
				won := time.Now()
				m.check = func() error {
					if time.Since(won) < lease+lease/2 {
						return nil
					}
					return m.inner.Check()
				}
			})},
		"an unanswered renewal ends the mandate": {fails: "lost answers", says: "Check after two lost answers",
			participant: func(p *participant) {
				var lost atomic.Bool
				p.Lose = func(n int) {
					p.inner.LoseAnswers(n)
					lost.Store(n == 2)
				}
				p.mandate = func(m *mandate) driver.Mandate {
					m.check = func() error {
						if lost.Load() {
							return driver.ErrUnreachable
						}
						return m.inner.Check()
					}
					return m
				}
			}},
		"a holder waits for its answer beyond its lease": {fails: "unanswered holder", says: "waiting for an answer, is proven",
			participant: func(p *participant) {
				var until time.Time
				p.Delay = func(d time.Duration) {
					until = time.Now().Add(d)
					p.inner.DelayAnswer(d)
				}
				p.mandate = func(m *mandate) driver.Mandate {
					m.check = func() error {
						if time.Now().Before(until) {
							return nil
						}
						return m.inner.Check()
					}
					return m
				}
			}},
	}
}

// tokens have errors in their order.
func tokens() map[string]mutant {
	less := func(by func(fence.Token) fence.Token) func(*participant) {
		return each(func(m *mandate) { m.token = func() fence.Token { return by(m.inner.Token()) } })
	}
	return map[string]mutant{
		"the token is constant": {fails: "again", says: "token 7 after 7",
			participant: less(func(fence.Token) fence.Token { return 7 })},
		"the token is invalid": {fails: "win", says: "token 0 is not valid",
			participant: less(func(fence.Token) fence.Token { return 0 })},
		"the token starts again when the store is made anew": {fails: "recreate", says: "token 1 after 1",
			participant: less(func(t fence.Token) fence.Token { return fence.Token(t.Count()) })},
		"the token starts again with the store": {fails: "restart", says: "token 1 after 1",
			suite: func(w *world, cfg *electtest.Config) {
				restart := cfg.Restart
				cfg.Restart = func(t testing.TB) {
					restart(t)
					w.base = w.last().Token()
				}
			},
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					t := m.inner.Token() - p.world.base
					m.token = func() fence.Token { return t }
					return m
				}
			}},
		"the token is counted by each participant": {fails: "reopen", says: "token 1 after 1",
			participant: countsAlone},
		"the token is lost with a crash": {fails: "crashed holder", says: "token 1 after 1, across a crash",
			participant: countsAlone},
		"the token is counted by each candidate for itself": {fails: "handover", says: "token 1 after 1",
			participant: countsAlone},
	}
}

func countsAlone(p *participant) {
	var count fence.Token
	p.mandate = func(m *mandate) driver.Mandate {
		count++
		mine := count
		m.token = func() fence.Token { return mine }
		return m
	}
}

// ends have errors at the end of leadership.
func ends() map[string]mutant {
	never := context.Background()
	return map[string]mutant{
		"the context of a mandate never ends": {fails: "again", says: "waited 20s for the end of the mandate's context",
			participant: each(func(m *mandate) { m.context = func() context.Context { return never } })},
		"the context of a mandate ends late": {fails: "cut-off holder", says: "waited 2s for the end of the context",
			participant: each(func(m *mandate) {
				late, end := context.WithCancelCause(context.Background())
				context.AfterFunc(m.inner.Context(), func() {
					<-time.After(5 * time.Second)
					end(context.Cause(m.inner.Context()))
				})
				m.context = func() context.Context { return late }
			})},
		"the context of a mandate ends with the campaign's": {fails: "win", says: "fresh mandate has ended",
			participant: func(p *participant) {
				var campaign context.Context
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					campaign = ctx
					return p.inner.Campaign(ctx, c)
				}
				p.mandate = func(m *mandate) driver.Mandate {
					m.context = func() context.Context { return campaign }
					return m
				}
			}},
		"the cause of a mandate's end is no reason": {fails: "again", says: "matches none of the reasons",
			participant: each(func(m *mandate) {
				because, end := context.WithCancelCause(context.Background())
				context.AfterFunc(m.inner.Context(), func() { end(errors.New("because")) })
				m.context = func() context.Context { return because }
			})},
		"a release only stops renewing": {fails: "handover", says: "until another won",
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					m.release = func(ctx context.Context) error {
						p.inner.Cut(true)
						_ = m.inner.Release(ctx)
						p.inner.Cut(false)
						return nil
					}
					return m
				}
			}},
		"a release frees any holder": {fails: "late release", says: "Check of the new holder",
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					m.release = func(ctx context.Context) error {
						_ = p.world.last().Release(ctx)
						return m.inner.Release(ctx)
					}
					return m
				}
			}},
		"a release whose answer was lost fails": {fails: "lost answers", says: "Release: outcome unknown",
			participant: func(p *participant) {
				losing := 0
				p.Lose = func(n int) { losing = n; p.inner.LoseAnswers(n) }
				p.mandate = func(m *mandate) driver.Mandate {
					m.release = func(ctx context.Context) error {
						err := m.inner.Release(ctx)
						if losing == 1 {
							return driver.ErrUnknownOutcome
						}
						return err
					}
					return m
				}
			}},
		"Close leaves the mandate": {fails: "close leading", says: "end of the mandate's context",
			participant: func(p *participant) { p.end = func() error { return nil } }},
	}
}

// campaigns have errors at their end.
func campaigns() map[string]mutant {
	return map[string]mutant{
		"a cancelled candidate stays, and wins": {fails: "cancel", says: "no victory within",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					type victory struct {
						m   driver.Mandate
						err error
					}
					won := make(chan victory, 1)
					go func() {
						m, err := p.inner.Campaign(context.WithoutCancel(ctx), c)
						won <- victory{m, err}
					}()
					select {
					case v := <-won:
						return v.m, v.err
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}
			}},
		"a cancelled Campaign does not say why": {fails: "cancel", says: "want the cause of its context",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					m, err := p.inner.Campaign(ctx, c)
					if ctx.Err() != nil {
						err = ctx.Err()
					}
					return m, err
				}
			}},
		"Close leaves the campaign": {fails: "close campaigning", says: "the Campaign of a closed elector",
			participant: func(p *participant) { p.end = func() error { return nil } }},
		"Close ends the campaign with another error": {fails: "close campaigning", says: "want ErrClosed",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					m, err := p.inner.Campaign(ctx, c)
					if errors.Is(err, driver.ErrClosed) {
						err = driver.Permanent(errors.New("use of closed network connection"))
					}
					return m, err
				}
			}},
		"a second Close fails": {fails: "close campaigning", says: "a second Close",
			participant: func(p *participant) {
				closed := false
				p.end = func() error {
					if closed {
						return driver.ErrClosed
					}
					closed = true
					return p.inner.Close()
				}
			}},
		"metadata is dropped": {fails: "metadata", says: "want id p1 and metadata",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					c.Metadata = nil
					return p.inner.Campaign(ctx, c)
				}
			}},
	}
}

// observers have errors in what they see.
func observers() map[string]mutant {
	// through makes a mutant of a function that handles the states on their way.
	through := func(change func(ctx context.Context, states iter.Seq2[driver.State, error], yield func(driver.State, error) bool)) func(*participant) {
		return func(p *participant) {
			p.observe = func(ctx context.Context) iter.Seq2[driver.State, error] {
				return func(yield func(driver.State, error) bool) { change(ctx, p.inner.Watch(ctx), yield) }
			}
		}
	}
	type states = iter.Seq2[driver.State, error]
	type yield = func(driver.State, error) bool
	return map[string]mutant{
		"Watch drops the last state": {fails: "observe", says: "waited 20s to see",
			participant: through(func(_ context.Context, in states, out yield) {
				var held *driver.State
				first := true
				for s := range in {
					if first && !out(s, nil) || held != nil && !out(*held, nil) {
						return
					}
					if !first {
						held = &s
					}
					first = false
				}
			})},
		"Watch has no first state": {fails: "observe", says: "the first state",
			participant: through(func(_ context.Context, in states, out yield) {
				first := true
				for s := range in {
					if !first && !out(s, nil) {
						return
					}
					first = false
				}
			})},
		"Watch begins with an empty state": {fails: "observe", says: "a late observer first saw",
			participant: through(func(_ context.Context, in states, out yield) {
				if !out(driver.State{}, nil) {
					return
				}
				for s := range in {
					if !out(s, nil) {
						return
					}
				}
			})},
		"Watch ends with the error of its context": {fails: "observe", says: "with the error context canceled",
			participant: through(func(ctx context.Context, in states, out yield) {
				for s := range in {
					if !out(s, nil) {
						return
					}
				}
				out(driver.State{}, ctx.Err())
			})},
		"Watch goes on after Close": {fails: "observe ends", says: "end of observing after Close",
			participant: through(func(ctx context.Context, in states, out yield) {
				for s := range in {
					if !out(s, nil) {
						return
					}
				}
				<-ctx.Done()
			})},
		"Watch does not report trouble": {fails: "observe trouble", says: "its view is stale",
			participant: through(func(_ context.Context, in states, out yield) {
				for s := range in {
					if !s.Stale && !out(s, nil) {
						return
					}
				}
			})},
		"Watch reports trouble as no leader": {fails: "observe trouble", says: "want the leader that was last known",
			participant: through(func(_ context.Context, in states, out yield) {
				for s := range in {
					if s.Stale {
						s.Leader = nil
					}
					if !out(s, nil) {
						return
					}
				}
			})},
		"Watch repeats the old after trouble": {fails: "observe trouble", says: "the first fresh state is",
			participant: through(func(_ context.Context, in states, out yield) {
				var last driver.State
				for s := range in {
					if last.Stale && !s.Stale && !out(driver.State{Leader: last.Leader}, nil) {
						return
					}
					if !out(s, nil) {
						return
					}
					last = s
				}
			})},
	}
}

// abilities are promised but missing or wrong.
func abilities() map[string]mutant {
	limits := func(change func(*driver.Limits)) func(*participant) {
		return func(p *participant) {
			p.limits = func() driver.Limits {
				l := p.inner.Limits()
				change(&l)
				return l
			}
		}
	}
	return map[string]mutant{
		"an ability is listed and missing": {fails: "abilities", says: `"inherit" is listed and not implemented`,
			participant: limits(func(l *driver.Limits) { l.Abilities = append(l.Abilities, driver.AbilityInherit) })},
		"confirming is listed and missing": {fails: "confirm", says: `"confirm" is listed and not implemented`,
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate { return struct{ driver.Mandate }{m} }
			}},
		"no assumption is named": {fails: "abilities", says: "Assumes is empty",
			participant: limits(func(l *driver.Limits) { l.Assumes = "" })},
		"the lease is out of its own bounds": {fails: "abilities", says: "limits do not fit together",
			participant: limits(func(l *driver.Limits) { l.MinLease = 2 * l.Lease })},
		"changing metadata is listed and missing": {fails: "changed metadata", says: `"metadata" is listed and not implemented`,
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate { return struct{ driver.Mandate }{m} }
			}},
		"changed metadata is shown to nobody": {fails: "changed metadata", says: "to see the leader with the changed metadata",
			participant: each(func(m *mandate) { m.publish = func(context.Context, map[string]string) error { return nil } })},
		"changed metadata is added to what was there": {fails: "changed metadata", says: "to see the leader with the changed metadata",
			participant: each(func(m *mandate) {
				all := map[string]string{}
				m.publish = func(ctx context.Context, more map[string]string) error {
					maps.Copy(all, more)
					return m.inner.(driver.MetadataSetter).SetMetadata(ctx, maps.Clone(all))
				}
			})},
		"metadata is taken of a former leader": {fails: "changed metadata", says: "that was released returned nil",
			participant: each(func(m *mandate) {
				m.publish = func(ctx context.Context, to map[string]string) error {
					_ = m.inner.(driver.MetadataSetter).SetMetadata(ctx, to)
					return nil
				}
			})},
		"Confirm asks nobody": {fails: "confirm", says: "cut off and was replaced returned nil",
			participant: each(func(m *mandate) { m.confirm = func(context.Context) error { return nil } })},
		"a resignation of another token is obeyed": {fails: "resign", says: "Resign of another token",
			participant: func(p *participant) {
				p.resign = func(ctx context.Context, _ fence.Token) error { return p.inner.Resign(ctx, 0) }
			}},
		"a resignation of nobody succeeds": {fails: "resign", says: "want ErrNoLeader",
			participant: func(p *participant) {
				p.resign = func(ctx context.Context, t fence.Token) error {
					if err := p.inner.Resign(ctx, t); !errors.Is(err, driver.ErrNoLeader) {
						return err
					}
					return nil
				}
			}},
		"a resignation is only answered": {fails: "resign", says: "end of a resigned mandate's context",
			participant: func(p *participant) {
				p.resign = func(ctx context.Context, t fence.Token) error {
					if t != 0 {
						return p.inner.Resign(ctx, t)
					}
					for s := range p.inner.Watch(ctx) {
						if s.Leader == nil {
							return driver.ErrNoLeader
						}
						return nil
					}
					return nil
				}
			}},
		"a resignation releases before the work was joined": {fails: "resign", says: "the resigned leader was not released",
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					context.AfterFunc(m.inner.Context(), func() {
						if errors.Is(context.Cause(m.inner.Context()), driver.ErrResigned) {
							_ = m.inner.Release(context.Background())
						}
					})
					return m
				}
			}},
	}
}

// faults are not declared.
func faults() map[string]mutant {
	excuse := func(f electtest.Fault) func(*world, *electtest.Config) {
		return func(_ *world, cfg *electtest.Config) { cfg.Cannot = map[electtest.Fault]string{f: "because"} }
	}
	return map[string]mutant{
		"no freezing, and no excuse": {fails: "frozen holder", says: `"freeze" is not offered`,
			participant: func(p *participant) { p.Freeze = nil }},
		"no cutting, and no excuse": {fails: "cut-off holder", says: `"cut" is not offered`,
			participant: func(p *participant) { p.Cut = nil }},
		"no crash, and no excuse": {fails: "crashed holder", says: `"crash" is not offered`,
			participant: func(p *participant) { p.Crash = nil }},
		"no restart, and no excuse": {fails: "restart", says: `"restart" is not offered`,
			suite: func(_ *world, cfg *electtest.Config) { cfg.Restart = nil }},
		"a fault that is there is excused": {fails: "lost answers", says: "offered and also excused",
			suite: excuse(electtest.Lose)},
	}
}

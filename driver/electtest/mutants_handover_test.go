package electtest_test

import (
	"context"
	"errors"
	"runtime"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// handovers go to the wrong participant.
func handovers() map[string]mutant {
	return map[string]mutant{
		"a transfer goes to nobody in particular": {fails: "transfer", says: "won although leadership was transferred|waited .* for a victory",
			participant: each(func(m *mandate) {
				m.transfer = func(ctx context.Context, _ string) error { return m.inner.Release(ctx) }
			})},
		"a holder would hand over to anybody": {fails: "transfer", says: "which cannot take over from p1, returned <nil>",
			participant: each(func(m *mandate) { m.eligible = func(string) error { return nil } })},
		"a holder would hand over to nobody": {fails: "transfer", says: "Eligible of p\\d, which waits: cannot take over",
			participant: each(func(m *mandate) { m.eligible = func(string) error { return driver.ErrIneligible } })},
		"an appointment is a resignation": {fails: "transfer from outside", says: "although p\\d was appointed|waited .* for a victory|which cannot take over",
			participant: func(p *participant) {
				p.appoint = func(ctx context.Context, t fence.Token, _ string) error { return p.inner.Resign(ctx, t) }
			}},
		"an appointment goes to somebody else": {fails: "transfer from outside", says: "candidate 3 won although p3 was appointed",
			participant: func(p *participant) {
				p.appoint = func(ctx context.Context, t fence.Token, to string) error {
					if to != "p3" {
						return p.inner.Transfer(ctx, t, to)
					}
					for { // p4 may not be waiting yet
						err := p.inner.Transfer(ctx, t, "p4")
						if !errors.Is(err, driver.ErrIneligible) || ctx.Err() != nil {
							return err
						}
						runtime.Gosched()
					}
				}
			}},
		"an appointment releases before the work was joined": {fails: "transfer from outside", says: "asked to hand over was not released",
			participant: func(p *participant) {
				p.mandate = func(m *mandate) driver.Mandate {
					context.AfterFunc(m.inner.Context(), func() { _ = m.inner.Release(context.Background()) })
					return m
				}
			}},
		"priorities are the other way round": {fails: "priority", says: "although one of priority 1000 waits",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					if c.Priority > 0 && c.Priority <= driver.MaxPriority {
						c.Priority = driver.MaxPriority + 1 - c.Priority
					}
					return p.inner.Campaign(ctx, c)
				}
			}},
		"the least priority wins": {fails: "priority", says: "although one of priority \\d+ waits",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					switch {
					case c.Priority == 0:
						c.Priority = driver.MaxPriority + 1 - driver.DefaultPriority
					case c.Priority > 0 && c.Priority <= driver.MaxPriority:
						c.Priority = driver.MaxPriority + 1 - c.Priority
					}
					return p.inner.Campaign(ctx, c)
				}
			}},
		"one that never leads leads": {fails: "priority", says: "never to lead won",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					if c.Priority == driver.NeverLead {
						c.Priority = 1
					}
					return p.inner.Campaign(ctx, c)
				}
			}},
		"a priority may be any number": {fails: "priority", says: "want an error that is marked as permanent",
			participant: func(p *participant) {
				p.campaign = func(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
					if driver.CheckPriority(c.Priority) != nil {
						return nil, errors.New("try again")
					}
					return p.inner.Campaign(ctx, c)
				}
			}},
		"a transfer leaves the mandate": {fails: "transfer", says: "end of the mandate's context",
			participant: each(func(m *mandate) { m.transfer = func(context.Context, string) error { return nil } })},
	}
}

package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/fence"
)

// TestConformance: a named election keeps the contract of package driver. Each participant is a member of its own, with
// its own part in the coordinator's election.
func TestConformance(t *testing.T) {
	var w *world
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if w == nil || w.t != t {
			w = newWorld(t)
		}
		p := w.member(id, nil)
		return electtest.Participant{
			Elector: leaver{p.Elector(name), p}, Freeze: p.freeze, Cut: p.cut, Crash: p.crash,
		}
	}, electtest.Config{
		Bubble:   true,
		Restart:  func(testing.TB) { w.store.Restart() },
		Recreate: func(testing.TB) { w.store.Recreate() },
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses its end and never its middle",
			electtest.Delay: "a claim counts from before its poll was sent: the simulator of the machines delays messages",
		},
	})
}

// leaver is an elector whose member leaves with it, as with an opener.
type leaver struct {
	driver.Elector
	p *part
}

func (m leaver) Close() error {
	err := m.Elector.Close()
	go m.p.end()
	return err
}

func (m leaver) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	got, err := m.Elector.Campaign(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) && c.Priority != driver.NeverLead {
		m.p.w.t.Logf("%s gives up: %.3000s", m.p.id, m.p.w.describe())
	}
	return got, err
}

func (m leaver) Resign(ctx context.Context, token fence.Token) error {
	return m.Elector.(driver.Resigner).Resign(ctx, token)
}
func (m leaver) Transfer(ctx context.Context, token fence.Token, to string) error {
	return m.Elector.(driver.Transferrer).Transfer(ctx, token, to)
}

// TestOneIDTwice: of processes with one id each gets the key that only it wants.
func TestOneIDTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*part
		for i := range 3 {
			all = append(all, w.member(name(i), func(c *Config) { c.ID = "same" }))
		}
		for i, p := range all {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if _, err := p.Elector(name(i)).Campaign(ctx, driver.Candidacy{}); err != nil {
				t.Errorf("%s has no leader: %v", name(i), err)
			}
			cancel()
		}
	})
}

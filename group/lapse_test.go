package group

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// TestLapse: the terms of a member's named elections share a timer, which goes on through renewals, and ends them by
// their drain although the member's loop stands still.
func TestLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.member("m1", func(c *Config) { c.Promise = 3 * time.Second })
		const drain = time.Second // the loop's own is shorter
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan *elect.Term, 3)
		var leads sync.WaitGroup
		for i := range cap(terms) {
			e, err := elect.New(p.Elector(name(i)), elect.Config{Drain: drain})
			if err != nil {
				t.Fatal(err)
			}
			leads.Go(func() {
				_ = e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					terms <- term
					<-ctx.Done()
					return nil
				})
			})
			<-time.After(time.Second)
		}
		m, err := p.Elector("beside").Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * p.settings.Promise)
		epoch := m.(*mandate).epoch
		epoch.mu.Lock()
		if len(terms) != cap(terms) || len(epoch.lapses) != 1 {
			t.Errorf("%d terms have %d timers; want %d and one", len(terms), len(epoch.lapses), cap(terms))
		}
		epoch.mu.Unlock()

		p.gate.shut(true)
		synctest.Wait()
		left, _ := m.Remaining()
		end := time.Now().Add(left)
		for range cap(terms) {
			term := <-terms
			select {
			case <-term.Context().Done():
			case <-time.After(p.settings.Promise):
				t.Error("a term goes on without a renewal for a promise")
			}
			if loss, _ := errors.AsType[*elect.LostError](context.Cause(term.Context())); loss == nil || loss.Reason != elect.ReasonExpired {
				t.Errorf("a term ended by %v; want that it expired", context.Cause(term.Context()))
			}
		}
		if before := time.Until(end); before < drain-10*time.Millisecond || before > drain {
			t.Errorf("terms ended %v before the claim; want %v", before, drain)
		}
		cancel()
		p.gate.shut(false)
		leads.Wait()
		_ = m.Release(t.Context())
	})
}

// TestOverrunsAreOneLine: a lapse is one line of the log and a line of its overruns, however many these are.
func TestOverrunsAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		said := &lines{text: "has not returned"}
		p := w.member("m1", func(c *Config) { c.Keys, c.Logger = Range(8), slog.New(said) })
		goOn, ctx, ran := make(chan struct{}), t.Context(), make(chan error, 1)
		go func() {
			ran <- p.Run(ctx, func(context.Context, *Shard) error {
				<-goOn
				return nil
			})
		}()
		w.until("all keys", 10*time.Second, func() bool { return p.Counts().Starts == 8 })
		p.cut(true)
		w.until("overruns", 10*time.Second, func() bool { return p.Counts().Overruns == 8 })
		if n := said.n.Load(); n != 1 {
			t.Errorf("%d lines say it; want 1", n)
		}
		close(goOn)
		_ = p.Close()
		<-ran
	})
}

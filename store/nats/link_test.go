package nats

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestTurn: another host is asked when no write, or no read, was answered for a while, and once for all that were sent
// before.
func TestTurn(t *testing.T) {
	type request struct {
		kind int
		took time.Duration
		err  error
	}
	unavailable, conflict := &jetstream.APIError{Code: 503}, &jetstream.APIError{Code: 400}
	for name, c := range map[string]struct {
		hosts int
		turns int
		made  []request
	}{
		"answers":             {3, 0, []request{{writing, time.Minute, nil}, {writing, time.Minute, conflict}, {writing, time.Minute, context.Canceled}}},
		"for a moment":        {3, 0, []request{{writing, time.Second, unavailable}, {writing, time.Second, nats.ErrNoResponders}}},
		"for a while":         {3, 1, []request{{writing, time.Second, unavailable}, {writing, time.Second, nats.ErrNoResponders}, {writing, time.Second, nats.ErrTimeout}}},
		"one":                 {3, 1, []request{{writing, 3 * time.Second, context.DeadlineExceeded}}},
		"no other host":       {1, 0, []request{{writing, time.Minute, context.DeadlineExceeded}}},
		"writes, not reads":   {3, 1, []request{{writing, 2 * time.Second, unavailable}, {reading, time.Second, nil}, {writing, 2 * time.Second, unavailable}}},
		"an answer between":   {3, 0, []request{{reading, 2 * time.Second, unavailable}, {reading, time.Second, nil}, {reading, 2 * time.Second, unavailable}}},
		"twice, and no more":  {3, 2, []request{{reading, 5 * time.Second, unavailable}, {writing, 5 * time.Second, unavailable}, {writing, time.Second, unavailable}}},
		"a pause between two": {3, 1, []request{{writing, time.Second, unavailable}, {reading, time.Minute, nil}, {writing, time.Second, unavailable}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := 0
				l := &link{hosts: c.hosts, patience: 3 * time.Second, turn: func() { turns++ }}
				first := time.Now()
				for _, r := range c.made {
					begun := time.Now()
					time.Sleep(r.took)
					l.heard(r.kind, begun, r.err)
				}
				if turns != c.turns {
					t.Errorf("%d turns; want %d", turns, c.turns)
				}
				if l.heard(writing, first, unavailable); turns != c.turns && c.turns > 0 {
					t.Error("a request of the time before the last turn makes another one")
				}
			})
		})
	}
}

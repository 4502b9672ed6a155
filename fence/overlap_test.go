package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
)

// impatient is a shared mark that waits for its holder for some time only, as a database does.
type impatient struct {
	*holder
	wait time.Duration
}

func (i impatient) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	bounded, cancel := context.WithTimeout(ctx, i.wait)
	defer cancel()
	err := i.holder.Raise(bounded, r, token)
	if bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", fence.ErrBusy, err)
	}
	return err
}

// A shared mark that waits for longer than Drain lets a greater token in while a smaller one keeps
// coming with requests that overlap. One that waits for less may never: what comes after an attempt
// has not been told to end when the next one gives up.
func TestSharedMarkWaitsForLongerThanDrain(t *testing.T) {
	const drain = 30 * time.Second
	for wait, admitted := range map[time.Duration]bool{drain + 5*time.Second: true, 10 * time.Second: false} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, impatient{newHolder(), wait}, fence.GuardConfig{Drain: drain})
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				request := func() {
					p, err := g.Begin(ctx, "r", 5)
					if err != nil {
						return
					}
					select {
					case <-time.After(40 * time.Second):
					case <-p.Context().Done():
					}
					_ = p.End()
				}
				go func() {
					for ctx.Err() == nil {
						go request()
						time.Sleep(2 * time.Second)
					}
				}()
				time.Sleep(20 * time.Second)
				err := fence.ErrBusy
				for range 100 {
					if err = g.Claim(ctx, "r", 6); !errors.Is(err, fence.ErrBusy) {
						break
					}
					time.Sleep(time.Second)
				}
				if (err == nil) != admitted {
					t.Errorf("after a hundred attempts: %v; want it let in: %v", err, admitted)
				}
				stop()
				time.Sleep(time.Minute) // all have ended then
			})
		})
	}
}

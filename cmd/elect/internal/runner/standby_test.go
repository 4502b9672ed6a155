//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/driver"
)

// failing is an election whose campaigns fail. An error of nil waits.
type failing struct {
	err   error
	state driver.State
}

func (f failing) Campaign(ctx context.Context, _ driver.Candidacy) (driver.Mandate, error) {
	if f.err == nil {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, f.err
}

func (f failing) Observe(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		if yield(f.state, nil) {
			<-ctx.Done()
		}
	}
}

func (failing) Limits() driver.Limits { return driver.Limits{Exclusive: true} }

func (failing) Close() error { return nil }

// TestWaitOver gives up for each of the reasons that there may be.
func TestWaitOver(t *testing.T) {
	// The goroutine that package signal starts once must not be of a bubble.
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	signal.Stop(ch)

	led := driver.State{Leader: &driver.Leader{ID: "b", Token: 7}}
	own := driver.State{Leader: &driver.Leader{ID: "a", Token: 7}}
	foreign := driver.State{Cause: errors.New("process 9 holds the lock and does not lead")}
	full := fmt.Errorf("write x: %w; free some space there", syscall.ENOSPC)
	for name, c := range map[string]struct {
		election failing
		code     int
		why      string
	}{
		"full disk":                  {failing{err: full}, exit.CannotCreate, "write x: no space left on device; free some space there"},
		"over quota":                 {failing{err: fmt.Errorf("write x: %w", syscall.EDQUOT)}, exit.CannotCreate, "write x: disk quota exceeded"},
		"full disk, somebody leads":  {failing{err: full, state: led}, exit.WaitOver, "behind b, token 7"},
		"bad disk":                   {failing{err: fmt.Errorf("write x: %w", syscall.EIO)}, exit.WaitOver, "write x: input/output error"},
		"somebody leads":             {failing{state: led}, exit.WaitOver, "behind b, token 7"},
		"it led itself":              {failing{state: own}, exit.WaitOver, "no leader"},
		"somebody else has the lock": {failing{state: foreign}, exit.WaitOver, "no leader: process 9 holds the lock and does not lead"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := Run(t.Context(), Config{
					Openers: elect.Openers{"test": func(context.Context, driver.Target) (driver.Elector, error) { return c.election, nil }},
					URL:     "test:x", Name: "nightly", ID: "a", Args: []string{"true"}, Path: "/bin/true", Wait: time.Second,
				})
				code, tell := exit.Of(err)
				if want := "gave up standing by for nightly after 1s: " + c.why; code != c.code || !tell || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%d, %v; want %d and %q", code, err, c.code, want)
				}
			})
		})
	}
}

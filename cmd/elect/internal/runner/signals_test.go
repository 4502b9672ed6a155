//go:build unix

package runner

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/agent/supervise"
)

// TestSignalsDuringTheStart is about those that come before elect has heard that
// the command runs: none of them may be lost.
func TestSignalsDuringTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		came  []syscall.Signal
		early []syscall.Signal
		ended bool
		kill  bool
		apart time.Duration
	}{
		"none":                 {},
		"for the command":      {came: []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGUSR1}, early: []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP}},
		"to end":               {came: []syscall.Signal{syscall.SIGTERM}, ended: true},
		"to end at once":       {came: []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, ended: true, kill: true, apart: pair},
		"to end, by timeout":   {came: []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, ended: true, apart: pair - 1},
		"to end, with another": {came: []syscall.Signal{syscall.SIGINT, syscall.SIGUSR2, syscall.SIGTERM}, early: []syscall.Signal{syscall.SIGUSR2}, ended: true, kill: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &run{starts: true}
			r.life, r.end = context.WithCancelCause(t.Context())
			defer r.end(nil)
			for _, sig := range c.came {
				r.signal(sig, false)
				<-time.After(c.apart)
			}
			early, kill := r.started(new(supervise.Family))
			if !slices.Equal(early, c.early) || kill != c.kill {
				t.Errorf("%s: %v for the command, and killed: %t; want %v, %t", name, early, kill, c.early, c.kill)
			}
			if ended := errors.Is(context.Cause(r.life), errStopped); ended != c.ended {
				t.Errorf("%s: told to end: %t; want %t", name, ended, c.ended)
			}
		})
	}
}

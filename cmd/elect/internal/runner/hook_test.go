//go:build linux

package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

func TestMain(m *testing.M) {
	supervise.KeeperMain(nil)
	os.Exit(m.Run())
}

// remains is a mandate whose lease has so much left.
type remains struct{ left time.Duration }

func (r remains) Token() fence.Token               { return 7 }
func (r remains) Context() context.Context         { return context.Background() }
func (r remains) Remaining() (time.Duration, bool) { return r.left, true }
func (r remains) Check() error                     { return nil }
func (r remains) Release(context.Context) error    { return nil }

// under is a run with a term whose lease is that.
func under(t *testing.T, left time.Duration) *run {
	r := newRun(t.Context(), Config{Name: "job", ID: "a"}, "job")
	t.Cleanup(func() { r.say.Close() })
	r.mandate = driver.Guarded{Mandate: remains{left}, Exclusive: true}
	return r
}

// TestNoHookAfterTheLease: what activates is not started when the lease is over, as in a process that was frozen before
// it; what undoes an activation is.
func TestNoHookAfterTheLease(t *testing.T) {
	for name, want := range map[string]bool{"fence": false, "stonith": false, "activate": false, "on-elected": false, cut: true, demote: true} {
		path := filepath.Join(t.TempDir(), "ran")
		err := under(t, -time.Millisecond).hookOnce(t.Context(), name, Hook{Run: "touch " + path, Limit: time.Minute}, true, os.Environ())
		if _, missing := os.Stat(path); (missing == nil) != want || (err == nil) != want {
			t.Errorf("%s: %v, %v; want it to run: %v", name, err, missing, want)
		}
	}
}

// TestSuddenEnd: of a lease that is not renewed a hook that ignores SIGTERM takes a moment, and not hookGrace: the rest
// is for demote.
func TestSuddenEnd(t *testing.T) {
	for _, reason := range []elect.Reason{elect.ReasonExpired, elect.ReasonStoreUnreachable, elect.ReasonSuperseded, elect.ReasonResigned} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := under(t, time.Hour)
		path := filepath.Join(t.TempDir(), "begun")
		h := Hook{Run: "trap '' TERM; touch " + path + "; while :; do sleep 0.01; done", Limit: time.Minute}
		done := make(chan error)
		go func() { done <- r.hookOnce(ctx, "activate", h, true, os.Environ()) }()
		for {
			if _, err := os.Stat(path); err == nil {
				break
			}
			<-time.After(time.Millisecond)
		}
		begun := time.Now()
		cancel(&elect.LostError{Reason: reason})
		err := <-done
		if took := time.Since(begun); !errors.Is(err, elect.ErrLost) || (took < hookGrace) != (reason != elect.ReasonResigned) {
			t.Errorf("%s: %v after %v", reason, err, took)
		}
	}
	r := under(t, 10*time.Second)
	r.steps.sudden.Store(true)
	begun := time.Now()
	err := r.hookOnce(t.Context(), cut, Hook{Run: "trap '' TERM; while :; do sleep 0.01; done", Limit: 50 * time.Millisecond}, true, os.Environ())
	if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "longer than 50ms") || took >= hookGrace {
		t.Errorf("%v after %v", err, took)
	}
}

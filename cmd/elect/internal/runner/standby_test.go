//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/cli/exit"
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

func (f failing) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
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
		"bad disk":                   {failing{err: fmt.Errorf("write x: %w", syscall.EIO)}, exit.CannotCreate, "write x: input/output error"},
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

// polled is an election without a lease, as file is, which each subscription looks at every 50 ms.
type polled struct {
	failing
	looks *atomic.Int64
}

func (f polled) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		for f.looks.Add(1); yield(f.state, nil); f.looks.Add(1) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}

// silent is a listener to which nobody connects.
type silent chan struct{}

func (l silent) Accept() (net.Conn, error) { <-l; return nil, net.ErrClosed }
func (l silent) Close() error              { close(l); return nil }
func (l silent) Addr() net.Addr            { return &net.UnixAddr{} }

// TestUnaskedStandbyDoesNotPoll: with --http a standby that nobody asks looks who leads once more than without, at the
// start.
func TestUnaskedStandbyDoesNotPoll(t *testing.T) {
	ch := make(chan os.Signal, 1) // as in TestWaitOver
	signal.Notify(ch, syscall.SIGWINCH)
	signal.Stop(ch)

	looks := map[bool]int64{}
	for _, http := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := polled{failing{state: driver.State{Leader: &driver.Leader{ID: "b", Token: 7}}}, new(atomic.Int64)}
			cfg := Config{
				Openers: elect.Openers{"test": func(context.Context, driver.Target) (driver.Elector, error) { return e, nil }},
				URL:     "test:x", Name: "nightly", ID: "a", Args: []string{"true"}, Path: "/bin/true", Wait: time.Hour,
			}
			if http {
				cfg.HTTP = &HTTP{Listener: make(silent), Metrics: electprom.New("nightly")}
				var err error
				if cfg.HTTP.Handler, err = electhttp.New(electhttp.Config{Name: "nightly", ID: "a"}); err != nil {
					t.Fatal(err)
				}
			}
			if code, _ := exit.Of(Run(t.Context(), cfg)); code != exit.WaitOver {
				t.Errorf("exit code %d; want %d", code, exit.WaitOver)
			}
			looks[http] = e.looks.Load()
		})
	}
	if looks[false] == 0 || looks[true] != looks[false]+1 {
		t.Errorf("in an hour %d looks with HTTP, and %d without; want one more", looks[true], looks[false])
	}
}

// told is an election in which a candidate is told of each change.
type told struct {
	failing
	states chan driver.State
}

func (told) Limits() driver.Limits {
	return driver.Limits{Exclusive: true, Lease: time.Second, MinLease: time.Second, MaxLease: time.Second}
}

func (f told) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		for {
			select {
			case s := <-f.states:
				if !yield(s, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// TestTellChanges: who leads is said at once, that nobody does when it has lasted,
// and trouble that changes all the time not each time.
func TestTellChanges(t *testing.T) {
	by := func(id string, token elect.Token) driver.State {
		return driver.State{Leader: &driver.Leader{ID: id, Token: token}}
	}
	nobody := func(why string) driver.State {
		s := driver.State{}
		if why != "" {
			s.Cause = errors.New(why)
		}
		return s
	}
	type step struct {
		state driver.State
		lasts time.Duration
	}
	for name, c := range map[string]struct {
		steps []step
		want  []string // after which time, and what
	}{
		"a takeover": {
			[]step{{by("n1", 1), time.Second}, {nobody(""), 400 * time.Millisecond}, {by("n2", 2), time.Second}, {by("n3", 3), time.Second}},
			[]string{"0s behind n1, token 1", "1.4s behind n2, token 2", "2.4s behind n3, token 3"},
		},
		"nobody for longer": {
			[]step{{by("n1", 1), time.Second}, {nobody("too few"), time.Second}, {by("n1", 1), time.Second}},
			[]string{"0s behind n1, token 1", "1.5s nobody leads: too few", "2s behind n1, token 1"},
		},
		"our own victory": {[]step{{nobody(""), 100 * time.Millisecond}, {by("a", 1), 300 * time.Millisecond}}, nil},
		"our own victory, and it takes longer": {
			[]step{{by("n1", 1), time.Second}, {by("a", 2), time.Second}, {by("n1", 3), time.Second}},
			[]string{"0s behind n1, token 1", "1.5s earlier leases are not over yet", "2s behind n1, token 3"},
		},
		"the same again": {[]step{{by("n1", 1), time.Second}, {by("n1", 1), time.Second}}, []string{"0s behind n1, token 1"}},
		"not known": {
			[]step{{by("n1", 1), time.Second}, {driver.State{Leader: &driver.Leader{ID: "n1", Token: 1}, Stale: true, Cause: errors.New("cut off")}, time.Second}},
			[]string{"0s behind n1, token 1", "1.5s cannot tell who leads: cut off"},
		},
		"trouble that changes": {
			[]step{
				{nobody("x1"), 300 * time.Millisecond}, {nobody("x2"), 300 * time.Millisecond}, {nobody("x3"), 300 * time.Millisecond},
				{nobody("x4"), 300 * time.Millisecond}, {nobody("x5"), 10 * time.Second}, {nobody("x6"), time.Second},
			},
			[]string{"500ms nobody leads: x2", "5.5s nobody leads: x5", "11.7s nobody leads: x6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "said"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				f := told{states: make(chan driver.State)}
				e, err := elect.New(f, elect.Config{})
				if err != nil {
					t.Fatal(err)
				}
				r := &run{cfg: Config{Name: "job", ID: "a"}, say: lines.New(out, lines.Form{}), election: e}
				defer r.say.Close()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					r.tellChanges(ctx)
				}()
				var got []string
				look := func() { // every 100 ms, so that what is said has its time
					synctest.Wait()
					raw, err := os.ReadFile(out.Name())
					if err != nil {
						t.Fatal(err)
					}
					said := strings.Split(string(raw), "\n")
					for _, line := range said[len(got) : len(said)-1] {
						line = strings.TrimSuffix(strings.TrimPrefix(line, "elect: standing by for job ("), ")")
						got = append(got, time.Since(begin).String()+" "+line)
					}
				}
				for _, s := range c.steps {
					f.states <- s.state
					look()
					for range s.lasts / (100 * time.Millisecond) {
						<-time.After(100 * time.Millisecond)
						look()
					}
				}
				stop()
				<-done
				if !slices.Equal(got, c.want) {
					t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
			})
		})
	}
}

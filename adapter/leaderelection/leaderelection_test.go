package leaderelection

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/memory"
)

// The tests run in bubbles of testing/synctest, over store/memory with the lease that store/kubernetes would prove. Real
// API servers are in test/fencing/leases.

// config is that of the candidate id, with a client that connects to nothing.
func config(t testing.TB, id string) LeaderElectionConfig {
	t.Helper()
	client, err := clientset.NewForConfig(&rest.Config{Host: "https://cluster:6443/k8s", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "jobs", Name: "nightly"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 400 * time.Millisecond,
		Callbacks: LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
}

// proven is how long a lease of config is.
var proven = protocol.DefaultDrift().Claim(3 * time.Second)

// closing is a participant that, as in a store, does not release what is released after its Close.
type closing struct{ *memory.Elector }

func (c closing) Close() error { c.Crash(); return nil }

// candidate is one in the test's process.
type candidate struct {
	*LeaderElector
	link           *memory.Elector
	began, stopped chan time.Time
	ended          chan struct{} // closed when Run has returned
	cancel         context.CancelFunc
}

// stand runs a candidate. work is what it does when it leads; change changes its configuration.
func stand(t testing.TB, store *memory.Store, id string, work func(context.Context), change func(*LeaderElectionConfig)) *candidate {
	t.Helper()
	c := &candidate{began: make(chan time.Time, 1), stopped: make(chan time.Time, 1), ended: make(chan struct{})}
	cfg := config(t, id)
	cfg.Callbacks.OnStartedLeading = func(ctx context.Context) { c.began <- time.Now(); work(ctx) }
	cfg.Callbacks.OnStoppedLeading = func() { c.stopped <- time.Now() }
	if change != nil {
		change(&cfg)
	}
	var err error
	if c.LeaderElector, err = NewLeaderElector(cfg); err != nil {
		t.Fatal(err)
	}
	if c.link, err = store.New("nightly", id, memory.Config{Lease: proven}); err != nil {
		t.Fatal(err)
	}
	c.open = func(context.Context, *slog.Logger) (driver.Elector, error) { return closing{c.link}, nil }
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	c.cancel = cancel
	go func() { defer close(c.ended); c.Run(ctx) }()
	return c
}

func wait(ctx context.Context) { <-ctx.Done() }

// The work is joined, then OnStoppedLeading is called, then the Lease is released, then Run returns.
func TestJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		var seen, term atomic.Value
		var order []string
		a := stand(t, store, "a", func(ctx context.Context) {
			term.Store(TermOf(ctx))
			<-ctx.Done()
			<-time.After(300 * time.Millisecond)
			order = append(order, "work")
		}, func(c *LeaderElectionConfig) {
			c.Callbacks.OnNewLeader = func(id string) { seen.Store(id) }
			c.Callbacks.OnStoppedLeading = func() { order = append(order, "stopped") }
		})
		<-a.began
		b := stand(t, store, "b", wait, nil)
		<-time.After(10 * time.Second)
		if !a.IsLeader() || a.GetLeader() != "a" || b.IsLeader() || b.GetLeader() != "a" || seen.Load() != "a" || len(b.began) > 0 {
			t.Errorf("a leads: %v, %q; b: %v, %q", a.IsLeader(), a.GetLeader(), b.IsLeader(), b.GetLeader())
		}
		if term := TermOf(context.Background()); term != nil {
			t.Errorf("%v is the term of a context of no leader", term)
		}
		was := time.Now()
		a.cancel()
		next := <-b.began
		<-a.ended
		if took := next.Sub(was); took < 300*time.Millisecond || took > time.Second {
			t.Errorf("b leads after %v; want it right after the work of a, which takes 300ms", took)
		}
		if strings.Join(order, " ") != "work stopped" || a.IsLeader() {
			t.Errorf("%v, and a leads: %v", order, a.IsLeader())
		}
		b.cancel()
		<-b.ended
		if len(b.stopped) != 1 {
			t.Error("OnStoppedLeading was not called")
		}
	})
}

// The context of a leader that was frozen ends RenewDeadline after its last renewal, which is before the lease ends, and
// Run returns.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		var ended time.Time
		a := stand(t, store, "a", func(ctx context.Context) { <-ctx.Done(); ended = time.Now() }, nil)
		<-a.began
		b := stand(t, store, "b", wait, nil)
		<-time.After(10 * time.Second)
		was := time.Now()
		a.link.Freeze(true)
		next := <-b.began
		a.link.Freeze(false)
		<-a.ended
		if took := ended.Sub(was); took > 2*time.Second || took < time.Second || ended.After(next) {
			t.Errorf("the context ended after %v, and b led after %v; want 2s from the last renewal", took, next.Sub(was))
		}
		b.cancel()
		<-b.ended
	})
}

// OnStoppedLeading is called when the lease ends under work that ignores its context, once.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		free := make(chan struct{})
		dog := NewLeaderHealthzAdaptor(time.Second)
		a := stand(t, store, "a", func(context.Context) { <-free }, nil)
		if err := dog.Check(nil); err != nil {
			t.Error(err)
		}
		dog.SetLeaderElection(a.LeaderElector)
		<-a.began
		was := time.Now()
		a.link.Cut(true)
		at := <-a.stopped
		if took := at.Sub(was); took > proven || took < 2*time.Second || a.IsLeader() {
			t.Errorf("OnStoppedLeading after %v, and it leads: %v; want the end of the lease of %v", took, a.IsLeader(), proven)
		}
		if err := dog.Check(nil); err != nil {
			t.Errorf("%v; want it tolerated", err)
		}
		<-time.After(2 * time.Second)
		if err := dog.Check(&http.Request{}); err == nil || !strings.Contains(err.Error(), "jobs/nightly") || dog.Name() != "leaderElection" {
			t.Errorf("%v; want an error", err)
		}
		close(free)
		<-a.ended
		if err := dog.Check(nil); err != nil || len(a.stopped) != 0 {
			t.Errorf("%v, and OnStoppedLeading was called %d times more", err, len(a.stopped))
		}
	})
}

// A function that returns while it leads leads on. What it may have left is given the rest of the lease, unless the
// configuration says that it is over.
func TestReturned(t *testing.T) {
	for _, release := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore(0)
			a := stand(t, store, "a", func(context.Context) {}, func(c *LeaderElectionConfig) { c.ReleaseOnCancel = release })
			<-a.began
			b := stand(t, store, "b", wait, nil)
			<-time.After(10 * time.Second)
			if !a.IsLeader() || len(b.began) > 0 {
				t.Error("a does not lead on")
			}
			was := time.Now()
			a.cancel()
			<-a.ended
			if took := time.Since(was); took > 100*time.Millisecond {
				t.Errorf("Run returned after %v", took)
			}
			if took := (<-b.began).Sub(was); (took < time.Second) != release {
				t.Errorf("ReleaseOnCancel is %v, and b leads after %v", release, took)
			}
			b.cancel()
			<-b.ended
		})
	}
}

// A candidate that is refused tries again.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, tries := memory.NewStore(0), 0
		cfg := config(t, "a")
		led := make(chan struct{})
		cfg.Callbacks.OnStartedLeading = func(ctx context.Context) { close(led); <-ctx.Done() }
		le, err := NewLeaderElector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		le.open = func(context.Context, *slog.Logger) (driver.Elector, error) {
			if tries++; tries < 3 {
				return nil, driver.Permanent(errors.New("no rights yet"))
			}
			return store.New("nightly", "a", memory.Config{Lease: proven})
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		ended := make(chan struct{})
		go func() { defer close(ended); le.Run(ctx) }()
		<-led
		cancel()
		<-ended
	})
}

// recorder counts events.
type recorder struct{ said []string }

func (r *recorder) Eventf(_ runtime.Object, _, _, _ string, args ...any) {
	r.said = append(r.said, args[1].(string))
}

// The lock's recorder is told of both ends of a term, as by client-go.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		a := stand(t, memory.NewStore(0), "a", wait, func(c *LeaderElectionConfig) {
			c.Lock.(*resourcelock.LeaseLock).LockConfig.EventRecorder = r
		})
		<-a.began
		a.cancel()
		<-a.ended
		if strings.Join(r.said, ", ") != "became leader, stopped leading" {
			t.Errorf("%q", r.said)
		}
	})
}

// multi is another kind of lock.
type multi struct{ resourcelock.Interface }

// leases is a client without a connection, as a fake clientset has.
type leases struct {
	coordinationv1client.LeasesGetter
}

func TestRefused(t *testing.T) {
	lock := func(change func(*resourcelock.LeaseLock)) func(*LeaderElectionConfig) {
		return func(c *LeaderElectionConfig) { change(c.Lock.(*resourcelock.LeaseLock)) }
	}
	for want, change := range map[string]func(*LeaderElectionConfig){
		"want the first longer":                   func(c *LeaderElectionConfig) { c.RenewDeadline = c.LeaseDuration },
		"RetryPeriod is 0s":                       func(c *LeaderElectionConfig) { c.RetryPeriod = 0 },
		"1.2 times":                               func(c *LeaderElectionConfig) { c.RetryPeriod = c.RenewDeadline },
		"want 100ms to 1h":                        func(c *LeaderElectionConfig) { c.LeaseDuration = 2 * time.Hour },
		"proven for 2.709s":                       func(c *LeaderElectionConfig) { c.RenewDeadline = 2800 * time.Millisecond },
		"no Callbacks.OnStartedLeading":           func(c *LeaderElectionConfig) { c.Callbacks.OnStartedLeading = nil },
		"no Callbacks.OnStoppedLeading":           func(c *LeaderElectionConfig) { c.Callbacks.OnStoppedLeading = nil },
		"with Coordinated":                        func(c *LeaderElectionConfig) { c.Coordinated = true },
		"a Lock of type <nil>":                    func(c *LeaderElectionConfig) { c.Lock = nil },
		"a Lock of type leaderelection.multi":     func(c *LeaderElectionConfig) { c.Lock = multi{c.Lock} },
		`"nightly" in the namespace ""`:           lock(func(l *resourcelock.LeaseLock) { l.LeaseMeta.Namespace = "" }),
		"empty Lock.Labels":                       lock(func(l *resourcelock.LeaseLock) { l.Labels = map[string]string{"a": "b"} }),
		"Identity: id is empty":                   lock(func(l *resourcelock.LeaseLock) { l.LockConfig.Identity = "" }),
		"Lock.Client is a leaderelection.leases,": lock(func(l *resourcelock.LeaseLock) { l.Client = leases{} }),
		"Lock.Client is a <nil>":                  lock(func(l *resourcelock.LeaseLock) { l.Client = nil }),
	} {
		cfg := config(t, "a")
		change(&cfg)
		if _, err := NewLeaderElector(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("RunOrDie does not panic")
		}
	}()
	RunOrDie(t.Context(), LeaderElectionConfig{})
}

// The address and the transport are those of the lock's client, without its timeout, which would end watches.
func TestAccess(t *testing.T) {
	server, client, err := access(config(t, "a").Lock.(*resourcelock.LeaseLock).Client)
	if err != nil || server.JoinPath("apis/x").String() != "https://cluster:6443/k8s/apis/x" || client.Timeout != 0 || client.Transport == nil {
		t.Errorf("%v, %v, %v", server, client, err)
	}
}

// The context ends RenewDeadline after a renewal, but leaves a leader two renewals that fail.
func TestDrain(t *testing.T) {
	for _, times := range [][4]time.Duration{ // LeaseDuration, RenewDeadline, RetryPeriod, and how long it is before the end of the proof
		{15 * time.Second, 10 * time.Second, 2 * time.Second, 3566 * time.Millisecond},
		{60 * time.Second, 15 * time.Second, 5 * time.Second, 24281 * time.Millisecond},
	} {
		cfg := config(t, "a")
		cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = times[0], times[1], times[2]
		le, err := NewLeaderElector(cfg)
		if err != nil || le.drain.Round(time.Millisecond) != times[3] {
			t.Errorf("%v: %v, %v", times, le.drain, err)
		}
	}
}

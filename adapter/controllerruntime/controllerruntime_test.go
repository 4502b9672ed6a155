package controllerruntime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// lease is that of the tests, and drain how long before its end the runnables are told.
const (
	lease = time.Second
	drain = lease / 5
)

// replica is a manager of controller-runtime, which connects to nothing, over store/memory.
type replica struct {
	manager.Manager
	link   *memory.Elector
	ended  chan error // the result of Start
	cancel context.CancelFunc
}

// start starts a replica with these runnables.
func start(t testing.TB, store *memory.Store, id string, runnables ...manager.Runnable) *replica {
	t.Helper()
	inner, err := manager.New(&rest.Config{Host: "https://127.0.0.1:1"}, manager.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	link, err := store.New("job", id, memory.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	election, err := elect.New(link, elect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Manager: Wrap(inner, election), link: link, ended: make(chan error, 1)}
	for _, runnable := range runnables {
		if err := r.Add(runnable); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		r.ended <- r.Start(ctx)
		_ = election.Close()
	}()
	return r
}

// leads reports whether a manager has been elected.
func (r *replica) leads() bool {
	select {
	case <-r.Elected():
		return true
	default:
		return false
	}
}

// job is a runnable.
type job struct {
	began, ended chan time.Time
	slow         time.Duration // to end
	deaf         chan struct{} // not nil: it ends when this is closed
	fails        chan error    // it ends with these
	warm         chan struct{}
	token        elect.Token
}

func newJob() *job {
	return &job{began: make(chan time.Time, 1), ended: make(chan time.Time, 1), fails: make(chan error), warm: make(chan struct{}, 1)}
}

func (j *job) Start(ctx context.Context) error {
	if term := TermOf(ctx); term != nil {
		j.token = term.Token()
	}
	j.began <- time.Now()
	defer func() { j.ended <- time.Now() }()
	if j.deaf != nil {
		<-j.deaf
		return nil
	}
	select {
	case <-ctx.Done():
		<-time.After(j.slow)
		return ctx.Err()
	case err := <-j.fails:
		return err
	}
}

// warming is a runnable that warms up.
type warming struct{ *job }

func (w warming) Warmup(context.Context) error { w.warm <- struct{}{}; return nil }

// everywhere is a runnable that needs no election.
type everywhere struct{ *job }

func (everywhere) NeedLeaderElection() bool { return false }

// One replica runs what needs an election, both run the rest. The next one begins when the last runnable has ended.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		one, slow, all := newJob(), newJob(), newJob()
		slow.slow = 3 * time.Second
		a := start(t, store, "a", warming{one}, slow, everywhere{all})
		<-one.began
		<-slow.began
		<-all.began
		<-one.warm
		<-a.Elected()
		two, rest := newJob(), newJob()
		b := start(t, store, "b", warming{two}, everywhere{rest})
		<-rest.began
		<-two.warm
		<-time.After(10 * time.Second)
		if b.leads() || len(two.began) != 0 || one.token == 0 {
			t.Errorf("b leads: %v, and works: %v; the token of a is %v", b.leads(), len(two.began) > 0, one.token)
		}
		late := newJob()
		if err := a.Add(late); err != nil {
			t.Error(err)
		}
		<-late.began
		was := time.Now()
		a.cancel()
		next := <-two.began
		if err := <-a.ended; err != nil {
			t.Errorf("%v; want a shutdown without an error", err)
		}
		if took := next.Sub(was); took < slow.slow || took > slow.slow+time.Second || next.Before(<-slow.ended) {
			t.Errorf("b works after %v; want it right after the runnable of a that takes %v", took, slow.slow)
		}
		if two.token <= one.token {
			t.Errorf("token %v after %v", two.token, one.token)
		}
		if err := a.Add(newJob()); err == nil {
			t.Error("a takes a runnable after its end")
		}
		if err := a.Start(t.Context()); err == nil {
			t.Error("a starts twice")
		}
		b.cancel()
		<-b.ended
	})
}

// The runnables of a leader that was frozen end before its lease does, and Start returns.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		one, two := newJob(), newJob()
		one.slow = drain / 2
		a, b := start(t, store, "a", one), (*replica)(nil)
		<-one.began
		b = start(t, store, "b", two)
		<-time.After(10 * time.Second)
		was := time.Now()
		a.link.Freeze(true)
		ended := <-one.ended
		a.link.Freeze(false)
		if err := <-a.ended; !errors.Is(err, ErrLost) || !errors.Is(err, elect.ErrLost) {
			t.Errorf("%v; want a loss", err)
		}
		if next := <-two.began; ended.After(next) || ended.Sub(was) > lease {
			t.Errorf("the runnable of a ended %v after the freeze, and that of b began after %v", ended.Sub(was), next.Sub(was))
		}
		b.cancel()
		<-b.ended
	})
}

// Start does not wait longer than the lease for a runnable that ignores its context.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newJob()
		one.deaf = make(chan struct{})
		a := start(t, memory.NewStore(0), "a", one)
		<-one.began
		<-time.After(10 * time.Second)
		was := time.Now()
		a.link.Cut(true)
		err := <-a.ended
		if took := time.Since(was); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "not all runnables") || took > lease {
			t.Errorf("%v after %v; want a loss within %v", err, took, lease)
		}
		close(one.deaf)
		a.cancel()
	})
}

// A runnable that fails ends the others, and the manager; the next one leads at once.
func TestFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		one, other, two := newJob(), newJob(), newJob()
		a := start(t, store, "a", one, other)
		<-one.began
		b := start(t, store, "b", two)
		<-time.After(10 * time.Second)
		was, bad := time.Now(), errors.New("bad")
		one.fails <- bad
		if err := <-a.ended; !errors.Is(err, bad) {
			t.Errorf("%v; want that of the runnable", err)
		}
		<-other.ended
		if took := (<-two.began).Sub(was); took > lease/2 {
			t.Errorf("b works after %v; want a release", took)
		}
		b.cancel()
		<-b.ended
	})
}

// A manager whose election cannot lead ends with the reason.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := memory.NewStore(0).New("job", "a", memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		election, err := elect.New(link, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_ = election.Close()
		inner, err := manager.New(&rest.Config{Host: "https://127.0.0.1:1"}, manager.Options{
			Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := Wrap(inner, election).Start(t.Context()); !errors.Is(err, elect.ErrClosed) {
			t.Errorf("%v; want %v", err, elect.ErrClosed)
		}
	})
}

// recording is an inner manager that notes what is added.
type recording struct {
	manager.Manager
	added int
}

func (r *recording) Add(manager.Runnable) error { r.added++; return nil }

// cached is a runnable with a cache, such as another cluster.
type cached struct{ manager.Runnable }

func (cached) GetCache() cache.Cache { return nil }

// What needs an election is held back, by the rules of controller-runtime.
func TestHeld(t *testing.T) {
	for name, test := range map[string]struct {
		r           manager.Runnable
		inner, held int
	}{
		"a function":               {manager.RunnableFunc(func(context.Context) error { return nil }), 0, 1},
		"a runnable":               {newJob(), 0, 1},
		"one that warms up":        {warming{newJob()}, 1, 1},
		"one that runs everywhere": {everywhere{newJob()}, 1, 0},
		"a cluster":                {cached{newJob()}, 1, 0},
		"a webhook server":         {webhook.NewServer(webhook.Options{}), 1, 0},
		"a server":                 {&manager.Server{}, 1, 0},
		"a server of leaders":      {&manager.Server{OnlyServeWhenLeader: true}, 0, 1},
	} {
		inner := &recording{}
		w := Wrap(inner, nil).(*wrapped)
		if err := w.Add(test.r); err != nil || inner.added != test.inner || len(w.held) != test.held {
			t.Errorf("%s: %v, %d added and %d held back; want %d and %d", name, err, inner.added, len(w.held), test.inner, test.held)
		}
	}
}

// Package leaderelection lets programs that were written for k8s.io/client-go/tools/leaderelection use elect. Replace
// that import by this one: RunOrDie, NewLeaderElector, the configuration and the callbacks keep their names. The locks
// of client-go's resourcelock still say which Lease it is and how to reach the API server. Package store/kubernetes
// holds the Lease, beside candidates of client-go.
//
// # What changes
//
//   - The context of OnStartedLeading ends before the lease does, by the clock, also if the process was frozen.
//   - OnStartedLeading is joined: OnStoppedLeading is called when it has returned, then the Lease is released, then Run
//     returns. If it has not returned when the lease ends, OnStoppedLeading is called at that time, because many programs
//     exit there. One that exits there leaves the Lease, and the next leader waits for LeaseDuration: return, and exit
//     after Run.
//   - A function that returns while it leads may have left work in goroutines, which nobody can join. Leadership goes on
//     until the end of the context, as in client-go, and then lapses, or is released with ReleaseOnCancel.
//   - There is a token: [TermOf].
//
// # Times
//
// LeaseDuration is how long the others wait, 100 ms to 1 h; if it is above 15 s, it has to be the same at all
// candidates. A leader renews four times in it. Candidates watch the Lease, and read it every RetryPeriod. The context
// ends RenewDeadline after the last acknowledged renewal was sent, but not before half of LeaseDuration. A lease is
// proven for LeaseDuration × 0.905 − 5 ms: a RenewDeadline of that or more is refused.
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/kubernetes"
)

// LeaderElectionConfig has the fields of client-go's. It is a type of its own because WatchDog is.
type LeaderElectionConfig struct {
	// Lock is a *resourcelock.LeaseLock, such as resourcelock.New returns, whose client is a real one. Its identity has
	// to differ between candidates. Labels are refused: elect leaves those of a Lease as they are.
	Lock resourcelock.Interface

	// LeaseDuration, RenewDeadline and RetryPeriod: see the package comment.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// Callbacks are client-go's. OnNewLeader is called in order, one call at a time, and Run waits for the last one.
	Callbacks LeaderCallbacks

	// WatchDog is given the elector to check by [RunOrDie]. Nil means none.
	WatchDog *HealthzAdaptor

	// ReleaseOnCancel also releases the Lease if OnStartedLeading has returned before its context ended. If it returned
	// after that, the Lease is released anyway.
	ReleaseOnCancel bool

	// Name is shown in log lines.
	Name string

	// Coordinated is refused: with it Kubernetes chooses the leader.
	Coordinated bool
}

// LeaderCallbacks are the callbacks of client-go.
type LeaderCallbacks = clientgo.LeaderCallbacks

// LeaderElector is a candidate. Its methods may be called by any number of goroutines; it runs once at a time.
type LeaderElector struct {
	config   LeaderElectionConfig
	lock     *resourcelock.LeaseLock
	drain    time.Duration
	open     func(context.Context, *slog.Logger) (driver.Elector, error)
	term     atomic.Pointer[elect.Term] // the latest one
	leader   atomic.Pointer[string]     // the identity that was seen last
	overrun  atomic.Pointer[time.Time]  // when the lease ended under OnStartedLeading, which has not returned
	reported string                     // to OnNewLeader
}

// RunOrDie runs a candidate until ctx ends or its leadership has ended, and panics if the configuration is refused.
func RunOrDie(ctx context.Context, c LeaderElectionConfig) {
	le, err := NewLeaderElector(c)
	if err != nil {
		panic(err)
	}
	if c.WatchDog != nil {
		c.WatchDog.SetLeaderElection(le)
	}
	le.Run(ctx)
}

// NewLeaderElector returns a candidate, or an error that says which field is wrong. It connects to nothing.
func NewLeaderElector(c LeaderElectionConfig) (*LeaderElector, error) {
	proven := protocol.DefaultDrift().Claim(c.LeaseDuration)
	switch {
	case c.LeaseDuration <= c.RenewDeadline:
		return nil, fmt.Errorf("LeaseDuration is %v and RenewDeadline %v; want the first longer", c.LeaseDuration, c.RenewDeadline)
	case c.RetryPeriod <= 0:
		return nil, fmt.Errorf("RetryPeriod is %v; want more than 0", c.RetryPeriod)
	case float64(c.RenewDeadline) <= clientgo.JitterFactor*float64(c.RetryPeriod):
		return nil, fmt.Errorf("RenewDeadline is %v and RetryPeriod %v; want the first longer than 1.2 times the second", c.RenewDeadline, c.RetryPeriod)
	case c.LeaseDuration < minLease || c.LeaseDuration > maxLease:
		return nil, fmt.Errorf("LeaseDuration is %v; want %v to %v", c.LeaseDuration, minLease, maxLease)
	case c.RenewDeadline >= proven:
		return nil, fmt.Errorf("RenewDeadline is %v, and a lease of %v is proven for %v; want a RenewDeadline below that", c.RenewDeadline, c.LeaseDuration, proven.Round(time.Millisecond))
	case c.Callbacks.OnStartedLeading == nil:
		return nil, errors.New("no Callbacks.OnStartedLeading; want the work")
	case c.Callbacks.OnStoppedLeading == nil:
		return nil, errors.New("no Callbacks.OnStoppedLeading; want a function")
	case c.Coordinated:
		return nil, errors.New("with Coordinated Kubernetes chooses the leader; want it false")
	}
	lock, ok := c.Lock.(*resourcelock.LeaseLock)
	switch {
	case !ok || lock == nil:
		return nil, fmt.Errorf("a Lock of type %T; want a *resourcelock.LeaseLock", c.Lock)
	case lock.LeaseMeta.Namespace == "" || lock.LeaseMeta.Name == "":
		return nil, fmt.Errorf("Lock.LeaseMeta is %q in the namespace %q; want both", lock.LeaseMeta.Name, lock.LeaseMeta.Namespace)
	case len(lock.Labels) > 0:
		return nil, errors.New("elect leaves the labels of a Lease as they are; want an empty Lock.Labels")
	}
	if err := driver.CheckID(lock.LockConfig.Identity); err != nil {
		return nil, fmt.Errorf("Lock.LockConfig.Identity: %w", err)
	}
	server, client, err := access(lock.Client)
	if err != nil {
		return nil, err
	}
	return &LeaderElector{
		config: c, lock: lock, drain: proven - max(c.RenewDeadline, c.LeaseDuration/2),
		open: func(ctx context.Context, log *slog.Logger) (driver.Elector, error) {
			return kubernetes.New(ctx, server, client, lock.LeaseMeta.Name, lock.LockConfig.Identity, kubernetes.Config{
				Namespace: lock.LeaseMeta.Namespace, Lease: c.LeaseDuration, Poll: c.RetryPeriod, Logger: log,
			})
		},
	}, nil
}

// Bounds of LeaseDuration: those of package store/kubernetes.
const (
	minLease = 100 * time.Millisecond
	maxLease = time.Hour
)

// access returns how a client reaches its API server.
func access(leases coordinationv1client.LeasesGetter) (*url.URL, *http.Client, error) {
	var r *rest.RESTClient
	if c, ok := leases.(interface{ RESTClient() rest.Interface }); ok {
		r, _ = c.RESTClient().(*rest.RESTClient)
	}
	if r == nil {
		return nil, nil, fmt.Errorf("Lock.Client is a %T, which makes no requests itself; want that of kubernetes.NewForConfig", leases)
	}
	server := r.Get().AbsPath("/").URL()
	server.RawQuery = ""
	client := http.Client{}
	if r.Client != nil {
		client = *r.Client
	}
	client.Timeout = 0 // each request has one of its own, and a watch has none
	return server, &client, nil
}

// termKey is the key of a term in the context of OnStartedLeading.
type termKey struct{}

// TermOf returns the term of the context that OnStartedLeading was given, or of one made from it, and nil for other
// contexts. Send its token with each write; call its Check before what cannot be fenced.
func TermOf(ctx context.Context) *elect.Term {
	term, _ := ctx.Value(termKey{}).(*elect.Term)
	return term
}

// Run campaigns until it leads or ctx ends. It returns when its leadership has ended, OnStartedLeading and
// OnStoppedLeading have returned, and the Lease is released or known to be lost. It logs by the klog.Logger of ctx. If
// Kubernetes refuses the candidate, as when rights are missing, it tries again after RetryPeriod.
func (le *LeaderElector) Run(ctx context.Context) {
	stopped := sync.OnceFunc(le.config.Callbacks.OnStoppedLeading)
	defer stopped()
	log := slog.New(logr.ToSlogHandler(klog.FromContext(ctx)))
	if le.config.Name != "" {
		log = log.With("name", le.config.Name)
	}
	for ctx.Err() == nil {
		err := le.stand(ctx, log, stopped)
		if errors.Is(err, errEnded) || ctx.Err() != nil {
			return
		}
		log.Error("cannot campaign; trying again", "error", err, "in", le.config.RetryPeriod)
		select {
		case <-time.After(le.config.RetryPeriod):
		case <-ctx.Done():
		}
	}
}

// errEnded is the cause of a Lead whose term has ended.
var errEnded = errors.New("the term has ended")

// stand leads for one term, and returns errEnded, or why it cannot.
func (le *LeaderElector) stand(ctx context.Context, log *slog.Logger, stopped func()) error {
	elector, err := le.open(ctx, log)
	if err != nil {
		return err
	}
	election, err := elect.New(elector, elect.Config{Drain: le.drain, Logger: log, OnEvent: func(e elect.Event) {
		if e.Kind == elect.EventOverrun {
			le.overrun.Store(&e.At)
			go stopped()
		}
	}})
	if err != nil {
		return errors.Join(err, elector.Close())
	}
	leading, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { le.watch(leading, election) })
	err = election.Lead(leading, func(ctx context.Context, term *elect.Term) error {
		defer end(errEnded)
		if joined := le.lead(ctx, term, stopped); !joined && !le.config.ReleaseOnCancel {
			return election.Close() // without a release: the Lease lapses
		}
		return nil
	})
	le.overrun.Store(nil)
	end(err)
	watch.Wait()
	if closed := election.Close(); closed != nil {
		log.Warn("the election was not closed", "error", closed)
	}
	return err
}

// lead does the work of a term. It reports whether all of it is known to be over.
func (le *LeaderElector) lead(ctx context.Context, term *elect.Term, stopped func()) (joined bool) {
	le.term.Store(term)
	le.record("became leader")
	returned := make(chan struct{})
	go func() { // a panic ends the process before anything is released
		defer close(returned)
		le.config.Callbacks.OnStartedLeading(context.WithValue(ctx, termKey{}, term))
		joined = ctx.Err() != nil
	}()
	<-ctx.Done()
	<-returned
	stopped()
	le.record("stopped leading")
	return joined
}

// record makes an event of Kubernetes, if the lock has a recorder.
func (le *LeaderElector) record(what string) {
	if r := le.lock.LockConfig.EventRecorder; r != nil {
		of := &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: coordinationv1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Namespace: le.lock.LeaseMeta.Namespace, Name: le.lock.LeaseMeta.Name},
		}
		r.Eventf(of, corev1.EventTypeNormal, "LeaderElection", "%s %s", le.lock.LockConfig.Identity, what)
	}
}

// watch notes who leads until ctx ends.
func (le *LeaderElector) watch(ctx context.Context, election *elect.Election) {
	for s, err := range election.Watch(ctx) {
		if err != nil {
			return
		}
		if s.Stale {
			continue
		}
		id := ""
		if s.Leader != nil {
			id = s.Leader.ID
		}
		le.leader.Store(&id)
		if report := le.config.Callbacks.OnNewLeader; report != nil && id != "" && id != le.reported {
			le.reported = id
			report(id)
		}
	}
}

// GetLeader returns the identity of the leader that was seen last, "" if nobody leads. It is for information.
func (le *LeaderElector) GetLeader() string {
	if id := le.leader.Load(); id != nil {
		return *id
	}
	return ""
}

// IsLeader reports whether leadership is proven, by the clock, now. It does no I/O.
func (le *LeaderElector) IsLeader() bool {
	term := le.term.Load()
	return term != nil && term.Check() == nil
}

// Check returns an error if the lease has ended for longer than tolerated, and OnStartedLeading has not returned.
func (le *LeaderElector) Check(tolerated time.Duration) error {
	if at := le.overrun.Load(); at != nil && time.Since(*at) > tolerated {
		return fmt.Errorf("the lease of %s ended %v ago, and OnStartedLeading has not returned", le.lock.Describe(), time.Since(*at).Round(time.Millisecond))
	}
	return nil
}

// HealthzAdaptor is a health check of a process that may lead, as in client-go: it fails while a leader works on after
// its lease. Its methods may be called by any number of goroutines.
type HealthzAdaptor struct {
	timeout time.Duration
	le      atomic.Pointer[LeaderElector]
}

// NewLeaderHealthzAdaptor returns a check that tolerates work for timeout after its lease.
func NewLeaderHealthzAdaptor(timeout time.Duration) *HealthzAdaptor {
	return &HealthzAdaptor{timeout: timeout}
}

// SetLeaderElection says which elector is checked.
func (h *HealthzAdaptor) SetLeaderElection(le *LeaderElector) { h.le.Store(le) }

// Name returns "leaderElection", as in client-go.
func (h *HealthzAdaptor) Name() string { return "leaderElection" }

// Check returns nil if the elector is well, or there is none.
func (h *HealthzAdaptor) Check(*http.Request) error {
	if le := h.le.Load(); le != nil {
		return le.Check(h.timeout)
	}
	return nil
}

package elect_test

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// fake is a back end that does what a test tells it to, for what the in-memory
// one never does.
type fake struct {
	limits   driver.Limits
	campaign func(context.Context, driver.Candidacy) (driver.Mandate, error)
	observe  func(context.Context) iter.Seq2[driver.State, error]
	closed   atomic.Bool
}

func newFake() *fake {
	return &fake{limits: driver.Limits{Lease: lease, MinLease: lease, MaxLease: lease, Takeover: lease, Exclusive: true}}
}

func (f *fake) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	return f.campaign(ctx, c)
}
func (f *fake) Limits() driver.Limits { return f.limits }
func (f *fake) Close() error          { f.closed.Store(true); return nil }

func (f *fake) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	if f.observe != nil {
		return f.observe(ctx)
	}
	return func(yield func(driver.State, error) bool) {
		if ctx.Err() == nil && yield(driver.State{}, nil) {
			<-ctx.Done()
		}
	}
}

// fakeMandate leads until it is told otherwise.
type fakeMandate struct {
	token   fence.Token
	ctx     context.Context
	end     context.CancelCauseFunc
	until   time.Time    // zero where nothing runs out
	proof   atomic.Value // of error, what Check says; nothing for nil
	release func(context.Context) error

	releases atomic.Int32
}

func newFakeMandate(token fence.Token, left time.Duration) *fakeMandate {
	m := &fakeMandate{token: token}
	if left > 0 {
		m.until = time.Now().Add(left)
	}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	return m
}

func (m *fakeMandate) Token() fence.Token       { return m.token }
func (m *fakeMandate) Context() context.Context { return m.ctx }

func (m *fakeMandate) Remaining() (time.Duration, bool) {
	if m.until.IsZero() {
		return 0, false
	}
	return max(0, time.Until(m.until)), true
}

func (m *fakeMandate) Check() error {
	if err, ok := m.proof.Load().(proof); ok && err.error != nil {
		return err.error
	}
	return nil
}

// proof lets an atomic.Value hold any error.
type proof struct{ error }

func (m *fakeMandate) says(err error) { m.proof.Store(proof{err}) }

func (m *fakeMandate) Release(ctx context.Context) error {
	m.releases.Add(1)
	if m.release != nil {
		return m.release(ctx)
	}
	return nil
}

// wins makes the fake elect with each of these mandates in turn, and then with
// nothing until ctx ends.
func (f *fake) wins(mandates ...driver.Mandate) {
	f.campaign = func(ctx context.Context, _ driver.Candidacy) (driver.Mandate, error) {
		if len(mandates) == 0 {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		m := mandates[0]
		mandates = mandates[1:]
		return m, nil
	}
}

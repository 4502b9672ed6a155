//go:build linux || darwin || freebsd

package file

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// mandate is one victory. It ends with its context. The locks are held until Release, because the work may go on
// until then.
type mandate struct {
	place   *place
	token   fence.Token
	control *control // nil if the socket could not be made

	mu     sync.Mutex // held by the goroutine that writes the record, or releases the lock
	record record     // as last written

	ctx context.Context
	end context.CancelCauseFunc

	gone     atomic.Pointer[func() bool]     // nil until entrusted
	ended    atomic.Pointer[<-chan struct{}] // likewise
	released chan struct{}
	tasks    sync.WaitGroup
	once     sync.Once
	err      error // of Release
}

var _ interface {
	driver.Mandate
	driver.Inheritable
	driver.MetadataSetter
} = (*mandate)(nil)

func newMandate(p *place, token fence.Token) *mandate {
	m := &mandate{place: p, token: token, released: make(chan struct{})}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	return m
}

// watch ends the mandate when the lock is no longer in place, or when the
// Elector is closed.
func (m *mandate) watch(life context.Context) {
	m.tasks.Go(func() {
		tick := time.NewTimer(nextPoll())
		defer tick.Stop()
		for ; ; tick.Reset(nextPoll()) {
			select {
			case <-tick.C:
				_ = m.Check()
			case <-life.Done():
				m.end(context.Cause(life))
			case <-m.ctx.Done():
				return
			}
		}
	})
}

// Token implements driver.Mandate.
func (m *mandate) Token() fence.Token { return m.token }

// Context implements driver.Mandate.
func (m *mandate) Context() context.Context { return m.ctx }

// Remaining implements driver.Mandate. This mandate has no end in time.
func (m *mandate) Remaining() (time.Duration, bool) { return 0, false }

// Check implements driver.Mandate. It checks that the held lock is the one in place, which takes 4 µs.
func (m *mandate) Check() error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	if gone := m.gone.Load(); gone != nil && (*gone)() {
		m.end(errLetGo)
		return context.Cause(m.ctx)
	}
	if err := m.place.verify(); err != nil {
		m.end(err)
	}
	return context.Cause(m.ctx) // nil while the mandate lasts
}

var errLetGo = fmt.Errorf("%w: the process that it was entrusted to has let it go", driver.ErrResigned)

// Files implements driver.Inheritable: the lock file and the directory, in this order. Each has an flock. The lock
// file also has an open file description lock over its whole length, by which observers see that there is a leader. A
// process that releases the mandate before the last descriptor is closed must undo all three.
func (m *mandate) Files() []*os.File { return []*os.File{m.place.lock, m.place.dir} }

// Entrust implements driver.Inheritable.
func (m *mandate) Entrust(gone func() bool, ended <-chan struct{}) {
	m.mu.Lock()
	m.ended.Store(&ended)
	m.gone.Store(&gone)
	m.mu.Unlock()
	m.tasks.Go(func() {
		select {
		case <-ended:
			m.end(errLetGo)
		case <-m.released:
		}
	})
}

// SetMetadata implements driver.MetadataSetter, by replacing the record. It refuses for a mandate that was entrusted
// to another process: that process could release the lock between a check of it here and the write, which would then
// replace the next leader's record.
func (m *mandate) SetMetadata(_ context.Context, metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.Check(); err != nil {
		return err
	}
	if m.gone.Load() != nil {
		return fmt.Errorf("%w: another process holds the lock, too, and may let it go at any time", driver.ErrUnsupported)
	}
	next := m.record
	next.Metadata = metadata
	if err := m.place.writeRecord(&next); err != nil {
		return err
	}
	m.record = next
	return nil
}

// Release implements driver.Mandate. It never blocks, so ctx plays no part. It is safe even after another process has
// released the mandate and another candidate was elected. While another process still has the mandate, Release
// unlocks nothing: that process holds the lock as long as it must, whatever has become of the work here.
func (m *mandate) Release(context.Context) error {
	m.once.Do(func() {
		m.end(errReleased)
		close(m.released)
		if m.control != nil {
			m.control.close()
		}
		m.tasks.Wait()
		m.mu.Lock() // the record is written by now, and not written later
		defer m.mu.Unlock()
		if m.entrusted() {
			m.err = m.place.close()
			return
		}
		m.err = m.place.letGo()
	})
	return m.err
}

// entrusted reports whether another process has the mandate and has not ended.
func (m *mandate) entrusted() bool {
	ended := m.ended.Load()
	if ended == nil {
		return false
	}
	select {
	case <-*ended:
		return false
	default:
		return true
	}
}

var errReleased = fmt.Errorf("%w: released", driver.ErrResigned)

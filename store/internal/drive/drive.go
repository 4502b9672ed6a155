// Package drive is the part of a participant over a store that does not depend on its machine: it
// starts the machine on the runtime that all machines share, and carries campaigns, releases, the
// [Wish] of an operator and [Elector.Close]. It makes the machine's requests with a timeout that
// follows from the lease, and translates their errors. Packages register and queue build on it.
//
// An [Elector] is safe for concurrent use. A request that fails is reported to the machine, which
// repeats it or resolves it; the first failure of a series is logged.
package drive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// Errors that a request may return. After any other one its outcome is not known.
var (
	// ErrConflict: the condition of a write did not hold, or cannot be used; the latter has ErrNotSent, too. The machine
	// reads, and tries that version again only if the read shows it.
	ErrConflict = errors.New("another version is there")
	// ErrGone: the session or the entry does not exist any more.
	ErrGone = errors.New("the session or the entry is gone")
	// ErrNotSent: nothing was sent, and nothing will be.
	ErrNotSent = errors.New("not sent")
)

// ErrRefused is what an error matches if it refuses the store, and not the arguments.
var ErrRefused = errors.New("the store is refused")

type refusal struct{ error }

func (r refusal) Unwrap() error        { return r.error }
func (r refusal) Is(target error) bool { return target == ErrRefused }

// Refused returns an error with the same text that also matches [ErrRefused].
func Refused(err error) error { return refusal{err} }

// Begin has ready ask a store for the first time, for 5 s. A permanent error is returned, as one that refuses the
// store. Any other is logged, because the store is asked again. log may be nil.
func Begin(ctx context.Context, store string, log *slog.Logger, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := Within(ctx, func() error { return ready(ctx) })
	switch {
	case driver.IsPermanent(err):
		return fmt.Errorf("%s: %w", strings.ToLower(store), Refused(err))
	case err != nil && log != nil:
		log.Warn(store+" does not answer yet", "error", err)
	}
	return nil
}

// Config is what any participant is made with.
type Config struct {
	Name, ID string
	Era      uint64
	Logger   *slog.Logger            // has the election's name; nil is silence
	Now      func() protocol.Reading // reads the clocks; nil: those of the system
	// Source is the URL by which a witness can open the store, with credentials; nil: there is no witness.
	Source *url.URL
	// Flight is a directory in which the participant records its machine's steps, in a subdirectory with the election's
	// name; "" is none.
	Flight string
}

// Hooks are the actions of a back end beside its machine.
type Hooks struct {
	Store runtime.Store
	// Timeout is that of a request.
	Timeout time.Duration
	// Published runs after each step, in the turn. Nil does nothing.
	Published func(*protocol.View)
	// Standing reads the leader and its wish.
	Standing func(context.Context) (Standing, error)
	// SetMetadata replaces what is shown beside the leader that has the mandate.
	SetMetadata func(context.Context, *runtime.Mandate, map[string]string) error
	// Tenure returns, in a turn, what identifies the own tenure with that count in the store; nil if it is not known.
	// It is written as JSON.
	Tenure func(count uint64) any
}

// Elector is embedded in that of a back end. Its zero value is not usable before [Elector.Init].
type Elector struct {
	Run  *runtime.Runner
	Life context.Context // ends with Close
	Log  *slog.Logger    // never nil

	cfg     Config
	hooks   Hooks
	cancel  context.CancelFunc
	work    sync.WaitGroup
	closing sync.Once
	last    []func() error
	failure error        // of last
	left    atomic.Int32 // requests that were left behind and have not returned

	measured measured

	// Owned by turns.
	Metadata map[string]string // of the candidacy
	Trouble  error             // of the latest request
	Answered bool              // there was an answer, or a trouble
	closed   bool
	stood    bool     // there was a candidacy
	wished   uint64   // the count of an own tenure that an operator has asked to end
	warned   bool     // of malformed text in place of a wish
	alive    *os.File // locked by this process and its keepers; nil if no witness has needed it

	mu    sync.Mutex
	idle  bool          // the machine releases nothing
	moved chan struct{} // closed at each change of idle
	gave  chan struct{} // moved, when it was waited for in vain
}

// Init checks what it is given, and starts nothing.
func (e *Elector) Init(cfg Config) error {
	_, err := fence.NewToken(cfg.Era, 1)
	if err := errors.Join(driver.CheckName(cfg.Name), driver.CheckID(cfg.ID), err); err != nil {
		return driver.Permanent(err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e.cfg, e.Log, e.idle, e.moved = cfg, cfg.Logger, true, make(chan struct{})
	return nil
}

// Start starts the machine, which was made from config. The protocol's name and config are for the record.
func (e *Elector) Start(m protocol.Machine, protocolName string, config any, h Hooks) error {
	rec, end := e.recorder(protocolName, config)
	e.hooks = h
	e.Life, e.cancel = context.WithCancel(context.Background())
	e.Run = runtime.New(runtime.Config{
		ID: protocol.NodeID(e.cfg.ID), Era: e.cfg.Era, Store: h.Store, Log: e.Log, Now: e.cfg.Now, Late: h.Timeout,
		Hooks: runtime.Hooks{Published: e.published, Reason: reason, Stand: e.stand},
	})
	if err := e.Run.Boot(m, nil, rec); err != nil {
		end()
		return err
	}
	e.Run.Start()
	e.work.Go(func() { e.Run.Run(); end() })
	return nil
}

// reason is the reason for a lease over a store that has lapsed: there is no majority of voters.
func reason(r protocol.Reason) protocol.Reason {
	if r == protocol.Lapsed {
		return "expired"
	}
	return r
}

func (e *Elector) stand(c *runtime.Candidacy) error {
	if e.closed {
		return runtime.ErrClosed
	}
	e.Metadata, e.stood = c.Metadata, true
	return nil
}

// Campaign implements [driver.Elector].
func (e *Elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	if c.Priority != 0 {
		return nil, driver.Permanent(fmt.Errorf("%w: priorities; want 0", driver.ErrUnsupported))
	}
	c.Exclusive = true // elected and proven are one here
	m, err := e.Run.Campaign(ctx, c)
	if err != nil {
		e.released(context.WithoutCancel(ctx)) // what was under way could still win
		return nil, err
	}
	return e.mandateOf(m), nil
}

// Close implements [driver.Elector]. It waits for a release that is under way.
func (e *Elector) Close() error {
	e.closing.Do(func() {
		e.Run.Call(func() {
			e.closed = true
			e.Run.Reject(runtime.ErrClosed)
		})
		e.released(context.Background())
		e.Run.Stop()
		e.cancel()
		e.work.Wait()
		e.Run.Close()
		if e.alive != nil {
			e.alive.Close()
		}
		for _, do := range e.last {
			e.failure = errors.Join(e.failure, do())
		}
	})
	return e.failure
}

// AtClose has Close call do at its end, once, after what was given before. It is called before others have the Elector.
func (e *Elector) AtClose(do func() error) { e.last = append(e.last, do) }

// released waits until the machine releases nothing: for three requests at most, of which the first
// may be unknown and the second may find that out. It waits once for one release: a store that does
// not answer must not hold up Close, too.
func (e *Elector) released(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*e.hooks.Timeout)
	defer cancel()
	for {
		e.mu.Lock()
		idle, moved := e.idle || e.moved == e.gave, e.moved
		e.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			e.mu.Lock()
			e.gave = moved
			e.mu.Unlock()
			return
		case <-e.Life.Done():
			return
		}
	}
}

// published follows the machine's releases, and ends a campaign that cannot be won.
func (e *Elector) published(*protocol.Input, *protocol.View) {
	v := e.Run.View()
	e.mu.Lock()
	if idle := v.Role != protocol.Releasing; idle != e.idle {
		e.idle = idle
		close(e.moved)
		e.moved = make(chan struct{})
	}
	e.mu.Unlock()
	if fault := v.Fault; fault != "" {
		e.Run.Do(func() { e.Run.Reject(driver.Permanent(errors.New(fault))) })
	}
	if e.wished != 0 && v.Role == protocol.Leader && v.Token == e.wished {
		e.Run.Do(e.resignWished)
	}
	if e.hooks.Published != nil {
		e.hooks.Published(v)
	}
}

// Request has do make a request, and tells its outcome. do fills in the answer. If it returns no
// error, heard is called in a turn before the machine gets the answer. A do that does not return
// when its context ends is left behind (see [Within]); then its outcome is not known. Its time is measured if it does
// not wait for anything but the store.
func (e *Elector) Request(a protocol.Ask, timed bool, tell func(protocol.Answer), do func(context.Context, *protocol.Answer) (heard func(), err error)) {
	e.work.Go(func() {
		began := time.Now()
		answer, heard, err := e.try(do)
		took := time.Since(began)
		answer.Number, answer.Status = a.Number, protocol.StatusDone
		switch {
		case err == nil:
		case errors.Is(err, ErrConflict):
			if answer.Status = protocol.StatusConflict; !errors.Is(err, ErrNotSent) {
				err = nil
			}
		case errors.Is(err, ErrNotSent):
			answer.Status = protocol.StatusRefused
		case errors.Is(err, ErrGone):
			answer.Status, err = protocol.StatusGone, nil
		default:
			answer.Status = protocol.StatusUnknown
		}
		if timed && (err == nil || e.Life.Err() == nil) {
			e.measured.note(a.Op, answer.Status, took)
		}
		if err != nil {
			e.failed(err)
		} else {
			e.Run.Do(func() { e.heard(heard) })
		}
		tell(answer)
	})
}

// maxLeft is how many requests of an Elector may be left behind at a time.
const maxLeft = 4

// try makes a request within its timeout.
func (e *Elector) try(do func(context.Context, *protocol.Answer) (heard func(), err error)) (protocol.Answer, func(), error) {
	if n := e.left.Load(); n >= maxLeft {
		err := fmt.Errorf("%w: %d requests have not returned though their contexts have ended; want a driver that returns then", ErrNotSent, n)
		return protocol.Answer{}, nil, err
	}
	ctx, cancel := context.WithTimeout(e.Life, e.hooks.Timeout)
	defer cancel()
	var out struct { // a request that was left behind may still write to it
		answer protocol.Answer
		heard  func()
	}
	left, err := Within(ctx, func() (err error) {
		out.heard, err = do(ctx, &out.answer)
		return err
	})
	if left != nil {
		e.left.Add(1)
		go func() {
			<-left
			e.left.Add(-1)
		}()
		return protocol.Answer{}, nil, err
	}
	return out.answer, out.heard, err
}

// Grace is how long a call may take to return after its context has ended.
const Grace = time.Second

// Within calls do, and returns its error. Not every driver returns when a context ends: if do has
// not returned [Grace] after the end of ctx, it is left behind. Then left is not nil, and is closed
// when do returns.
func Within(ctx context.Context, do func() error) (left <-chan struct{}, err error) {
	returned := make(chan struct{})
	var result error
	go func() {
		defer close(returned)
		result = do()
	}()
	select {
	case <-returned:
		return nil, result
	case <-ctx.Done():
	}
	select {
	case <-returned:
		return nil, result
	case <-time.After(Grace):
		return returned, fmt.Errorf("the request has not returned %v after its end: %w", Grace, context.Cause(ctx))
	}
}

// Go calls do in a goroutine that Close waits for. do returns when Life ends.
func (e *Elector) Go(do func()) { e.work.Go(do) }

// failed notes that a request failed, and logs the first failure.
func (e *Elector) failed(err error) {
	if e.Life.Err() != nil {
		return
	}
	e.Run.Do(func() {
		if e.Trouble == nil {
			e.Log.Warn("the store does not answer", "error", err)
		}
		e.Trouble, e.Answered = err, true
	})
}

// heard notes an answer.
func (e *Elector) heard(do func()) {
	if e.Trouble != nil {
		e.Log.Warn("the store answers again")
	}
	e.Trouble, e.Answered = nil, true
	if do != nil {
		do()
	}
}

// Same reports whether two states show the same.
func Same(a, b *driver.State) bool {
	if a.Stale != b.Stale || (a.Leader == nil) != (b.Leader == nil) {
		return false
	}
	return a.Leader == nil || a.Leader.Token == b.Leader.Token && a.Leader.ID == b.Leader.ID && a.Leader.Since.Equal(b.Leader.Since) &&
		maps.Equal(a.Leader.Metadata, b.Leader.Metadata)
}

// Assumes is the text of [driver.Limits] for an assumption about a store.
func Assumes(of string) string {
	return fmt.Sprintf("the rates of clocks are true within %d %%, and %s", protocol.DefaultDrift().PPM/10_000, of)
}

// mandate is a victory. Its release returns when the store has it.
type mandate struct {
	*runtime.Mandate
	e *Elector
}

var _ interface {
	driver.Mandate
	driver.Confirmer
	driver.MetadataSetter
} = (*mandate)(nil)

// Release implements [driver.Mandate].
func (m *mandate) Release(ctx context.Context) error {
	err := m.Mandate.Release(ctx)
	m.e.released(ctx)
	return err
}

// SetMetadata implements [driver.MetadataSetter].
func (m *mandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	if err := m.Over(); err != nil {
		return err
	}
	err := m.e.hooks.SetMetadata(ctx, m.Mandate, metadata)
	if err != nil && m.Over() == nil {
		return fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
	}
	return err
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/store/internal/drive"
)

// Queue is where a store keeps the entries of one election. Its methods are called by any number of
// goroutines. After an error the outcome is not known, unless [ErrGone] or [ErrNotSent] is in it.
type Queue interface {
	// Open opens a session. It lives for granted after the last Open or KeepAlive.
	Open(ctx context.Context, ttl time.Duration) (session uint64, granted time.Duration, err error)
	// KeepAlive renews a session. A request that comes after ctx has ended may still be carried out.
	KeepAlive(ctx context.Context, session uint64) (ttl time.Duration, err error)
	// Close ends a session and deletes its entries, and those that are still on their way.
	Close(ctx context.Context, session uint64) error
	// Enter creates the entry of a session, or returns the one that it has.
	Enter(ctx context.Context, session uint64, text string) (Entry, error)
	// List reads, at one moment, the mark, the last touch, the wish, the first entry, own, and the one before own; if own has
	// no Order, not the last two. It is linearizable, except in a [Syncer].
	List(ctx context.Context, own Entry) (Listing, error)
	// Watch returns nil when e was changed or deleted after that revision, or for the zero Entry
	// when there is any change in the queue.
	Watch(ctx context.Context, e Entry, after uint64) error
	// Verify reads, at one moment, the first entry and the wish, if own exists and belongs to its
	// session; otherwise it returns ErrGone. It is linearizable.
	Verify(ctx context.Context, own Entry) (Listing, error)
	// Touch is Verify, and in the same transaction it writes beside the queue that own was touched, which
	// List and WatchTouch tell. It is used with a hold only.
	Touch(ctx context.Context, own Entry) (Listing, error)
	// WatchTouch calls seen with the touches after that revision until ctx ends or it fails; it may skip
	// all but the last.
	WatchTouch(ctx context.Context, after uint64, seen func(Touch)) error
	// Change makes a change in one transaction if own exists, otherwise it returns ErrGone.
	Change(ctx context.Context, own Entry, c Change) error
}

// Syncer is a Queue in ZooKeeper's dialect. Enter makes another entry each time, and an entry whose session is gone is
// gone, too. Touch returns only own and the wish, because no candidate watches touches. List with a Session reads what
// that session has written, and may lag behind what others have; it reads all entries of the session, and its mark is
// no older than its entries. So may Verify. Only List without a Session is linearizable.
type Syncer interface {
	Queue
	// Sync returns when the store has committed a write of the session. No earlier request of it takes effect after that.
	Sync(ctx context.Context, session uint64) error
}

// Entry is one place in the queue.
type Entry struct {
	Order   uint64 // of its creation; 0: there is no entry
	Session uint64
	Key     string // by which the store knows it
	Text    string
}

// Listing is what [Queue].List reads. Verify reads less.
type Listing struct {
	Entries  []Entry // by rising order; an entry that is two of the three is in it once
	Mark     string  // "": there is none
	Touch    Touch   // the last one
	Wish     string  // "": there is none
	Revision uint64  // of the store, when it was read
}

// Touch says that an entry existed at a revision of the store, and belonged to its session.
type Touch struct {
	Order    uint64 // of the entry; 0: there was no touch
	Revision uint64 // each touch has its own
}

// Change is what [Queue].Change changes; "" leaves a text as it is.
type Change struct {
	Text  string // of the own entry
	Mark  string
	Wish  string // asks the entry's participant; a watch of the entry reports it, and it ends with the session
	Leave bool   // deletes the own entry
}

// What a Queue's errors may be.
var (
	ErrGone    = drive.ErrGone
	ErrNotSent = drive.ErrNotSent
)

// Config is what an Elector is made with.
type Config struct {
	drive.Config
	Machine machine.Config // without Self
	Round   time.Duration  // how much later than its time the store may end a session
	Assumes string         // what exclusivity rests on; see driver.Limits
}

// Elector is one participant of an election. Make it with [New].
type Elector struct {
	drive.Elector
	cfg   Config
	queue Queue

	// Owned by turns.
	known       map[uint64]Entry // the own entry, and those of the latest list
	session     uint64
	own         uint64             // the order of the own entry
	since       time.Time          // of the own tenure
	mine, ahead context.CancelFunc // end the watches
	touches     context.CancelFunc
	warned      bool // of a mark that is not ours
}

var _ driver.Elector = (*Elector)(nil)

// New returns a participant. The caller keeps q, and closes it after the Elector.
func New(q Queue, cfg Config) (*Elector, error) {
	none := func() {}
	e := &Elector{cfg: cfg, queue: q, known: map[uint64]Entry{}, mine: none, ahead: none, touches: none}
	if err := e.Init(cfg.Config); err != nil {
		return nil, err
	}
	e.cfg.Machine.Self = protocol.NodeID(cfg.ID)
	m, err := machine.New(e.cfg.Machine)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	e.cfg.Machine = m.Config()
	if err := e.Start(m, machine.Name, e.cfg.Machine, drive.Hooks{Store: e, Timeout: e.cfg.Machine.RequestTimeout(), Standing: e.standing, SetMetadata: e.setMetadata, Tenure: e.tenure}); err != nil {
		return nil, err
	}
	return e, nil
}

// Limits implements [driver.Elector].
func (e *Elector) Limits() driver.Limits {
	c := e.cfg.Machine
	least := min(c.Claim(), machine.Config{Dialect: c.Dialect, TTL: 2 * time.Second}.Claim())
	return driver.Limits{
		Lease: c.Claim(), MinLease: least, MaxLease: protocol.DefaultDrift().Claim(machine.MaxTTL),
		Takeover: c.WorstTakeover() + e.cfg.Round, Exclusive: true,
		Abilities: e.Abilities(),
		Assumes:   drive.Assumes(e.cfg.Assumes),
	}
}

// Watch implements [driver.Elector].
func (e *Elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(e.Life, cancel)()
		var shown driver.State
		any := false
		for ctx.Err() == nil {
			s, first, revision, err := e.observe(ctx)
			if ctx.Err() != nil || e.Life.Err() != nil { // ctx may be told of the end a moment later
				return
			}
			if err != nil {
				s = driver.State{Leader: shown.Leader, Stale: true, Cause: fmt.Errorf("%w: %w", driver.ErrUnreachable, err)}
			}
			if !any || !drive.Same(&s, &shown) {
				if !yield(s, nil) {
					return
				}
				shown, any = s, true
			}
			pause := rand.N(2 * e.cfg.Machine.Backoff)
			if err == nil {
				err = e.change(ctx, first, revision)
			}
			if err != nil {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		}
	}
}

// observe reads what the queue shows.
func (e *Elector) observe(ctx context.Context) (s driver.State, first Entry, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Machine.RequestTimeout())
	defer cancel()
	l, err := e.queue.List(ctx, Entry{})
	if err != nil || len(l.Entries) == 0 {
		return s, first, l.Revision, err
	}
	first = l.Entries[0]
	t := decode(&first)
	s.Leader = &driver.Leader{ID: t.ID, Token: e.Run.Token(first.Order), Metadata: t.Metadata}
	if m, err := decodeMark(l.Mark); err == nil && m.Held && m.Order == first.Order {
		s.Leader.Since = m.Since
	}
	return s, first, l.Revision, nil
}

// change waits for a change, and not for longer than a poll takes: a watch may be silent because
// its store cannot be reached.
func (e *Elector) change(ctx context.Context, first Entry, revision uint64) error {
	poll := e.cfg.Machine.Poll
	timer, cancel := context.WithTimeout(ctx, poll/2+rand.N(poll))
	defer cancel()
	err := e.queue.Watch(timer, first, revision)
	if timer.Err() != nil {
		return nil
	}
	return err
}

// setMetadata writes the own entry again.
func (e *Elector) setMetadata(ctx context.Context, m *runtime.Mandate, metadata map[string]string) error {
	var own Entry
	held := false
	e.Run.Call(func() {
		if held = e.Run.Held() == m; held {
			own = e.known[e.own]
		}
	})
	if !held || own.Order == 0 {
		return errors.New("the entry is not known any more")
	}
	t := decode(&own)
	text, err := encode(t.ID, t.nonce, metadata)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Machine.RequestTimeout())
	defer cancel()
	return e.queue.Change(ctx, own, Change{Text: text})
}

// standing returns the participant whose entry is first and its wish, for operators.
func (e *Elector) standing(ctx context.Context) (s drive.Standing, err error) {
	l, err := e.queue.List(ctx, Entry{})
	if err != nil || len(l.Entries) == 0 {
		return s, err
	}
	first := l.Entries[0]
	t := decode(&first)
	s.Leader, s.Count = t.ID, first.Order
	if t.nonce == (protocol.Nonce{}) {
		s.Deaf = "is a candidate of another program, which cannot be asked through the store; want that program to end, or its entry deleted"
	}
	s.Wish, _ = drive.ParseWish([]byte(l.Wish)) // malformed text is no wish
	s.Record = func(ctx context.Context, w drive.Wish) error {
		return e.queue.Change(ctx, first, Change{Wish: w.Text()})
	}
	return s, nil
}

// obey makes the leader obey a wish, and answers it. If the answer is lost, the operator sees the end of the tenure.
func (e *Elector) obey(own Entry, wish string) {
	if e.own != own.Order || !e.Obey([]byte(wish), own.Order) {
		return
	}
	e.Go(func() {
		ctx, cancel := context.WithTimeout(e.Life, e.cfg.Machine.RequestTimeout())
		defer cancel()
		_ = e.queue.Change(ctx, own, Change{Wish: drive.Obeyed(own.Order).Text()})
	})
}

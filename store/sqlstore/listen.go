package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// channel is the channel of PostgreSQL's notifications. A payload is the name of an election, of any
// table, or a trial of a [Listener]: a dot and random text.
const channel = "elect"

// Listen listens to a channel of PostgreSQL (LISTEN) with a connection of its own. It calls heard
// with "" as soon as it listens, and then with the payload of each notification. It returns when ctx
// or the connection has ended, after it has closed the connection. With package pgx, and a pool db:
//
//	func(ctx context.Context, channel string, heard func(payload string)) error {
//		conn, err := db.Conn(ctx)
//		if err != nil {
//			return err
//		}
//		defer conn.Close()
//		return conn.Raw(func(driver any) error {
//			c := driver.(*stdlib.Conn).Conn()
//			defer c.Close(context.Background()) // it listens, and is of no use to others
//			if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
//				return err
//			}
//			for heard(""); ; {
//				n, err := c.WaitForNotification(ctx)
//				if err != nil {
//					return err
//				}
//				heard(n.Payload)
//			}
//		})
//	}
type Listen func(ctx context.Context, channel string, heard func(payload string)) error

// Listener makes candidates in PostgreSQL read at once when the leader leaves or changes its
// metadata. One Listener serves all participants of a process in one database, with one connection.
// A notification proves nothing, and polling makes up for a missed one. Its methods are safe for
// concurrent use.
type Listener struct {
	db     *sql.DB
	send   func(ctx context.Context, payload string) error
	listen Listen
	log    *slog.Logger
	cancel context.CancelFunc
	work   sync.WaitGroup

	sent <-chan struct{} // a trial that has not returned; nil if there is none. run's goroutines have it, one after the other

	elections pool.Topics

	mu   sync.Mutex
	want string // the trial that is under way
	up   func() // the trial was heard
}

// Times of a [Listener].
const (
	trialEvery = time.Minute      // how often it tries whether it hears anything
	trialTime  = 10 * time.Second // how long a trial may take
	minPause   = time.Second      // after a connection has failed
	maxPause   = time.Minute
)

// NewListener begins to listen. Once a minute it sends a notification by db, to find out whether
// notifications arrive. Through a pooler in transaction mode, such as PgBouncer's, they do not, which
// it logs once. The caller closes it after the participants that have it in their [Config]. A nil
// logger is silence.
func NewListener(db *sql.DB, listen Listen, logger *slog.Logger) *Listener {
	return newListener(db, func(ctx context.Context, payload string) error {
		_, err := db.ExecContext(ctx, `SELECT pg_notify('`+channel+`', $1)`, payload)
		return err
	}, listen, logger)
}

func newListener(db *sql.DB, send func(context.Context, string) error, listen Listen, logger *slog.Logger) *Listener {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Listener{db: db, send: send, listen: listen, log: logger, cancel: cancel}
	l.work.Go(func() { l.run(ctx) })
	return l
}

// Close ends the connection. Participants that are still there poll.
func (l *Listener) Close() {
	l.cancel()
	l.work.Wait()
}

// run listens again and again.
func (l *Listener) run(ctx context.Context) {
	told, pause := false, minPause
	for ctx.Err() == nil {
		err := l.once(ctx, func() {
			if pause = minPause; told {
				l.log.Warn("the notifications of PostgreSQL are heard again")
			}
			told = false
		})
		if ctx.Err() != nil {
			return
		}
		if !told {
			l.log.Warn("the notifications of PostgreSQL are not heard, so participants only poll", "error", err)
		}
		told = true
		select {
		case <-time.After(pause/2 + mathrand.N(pause)):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// once listens until something is wrong. It calls up after each trial that was heard.
func (l *Listener) once(ctx context.Context, up func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	var listens sync.Once
	err := l.listen(ctx, channel, func(payload string) {
		if payload == "" {
			listens.Do(func() { work.Go(func() { cancel(l.try(ctx, up)) }) })
		}
		l.heard(payload)
	})
	if why := context.Cause(ctx); why != nil {
		return why
	}
	if err == nil {
		err = errors.New("the connection has ended")
	}
	return err
}

// try sends trials until one is not heard.
func (l *Listener) try(ctx context.Context, up func()) error {
	if l.sent != nil { // another one would hold one more connection
		select {
		case <-l.sent:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		trial, heard := "."+rand.Text(), make(chan struct{})
		l.mu.Lock()
		l.want, l.up = trial, sync.OnceFunc(func() { close(heard) })
		l.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, trialTime)
		var err error
		if l.sent, err = drive.Within(within, func() error { return l.send(within, trial) }); err == nil {
			select {
			case <-heard:
			case <-within.Done():
				err = fmt.Errorf("none has come after %v; want LISTEN to have a connection that is its own, and not one of a pooler in transaction mode", trialTime)
			}
		}
		cancel()
		if err != nil {
			return err
		}
		up()
		select {
		case <-time.After(trialEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// heard wakes the participants that a notification is for; "" is for all.
func (l *Listener) heard(payload string) {
	if payload == "" {
		l.elections.WakeAll()
		return
	}
	l.mu.Lock()
	if payload == l.want {
		l.up()
	}
	l.mu.Unlock()
	l.elections.Wake(payload)
}

// listening is a row with a Listener.
type listening struct {
	*row
	listener *Listener
}

var _ register.Watcher = listening{}

// Watch implements [register.Watcher].
func (r listening) Watch(ctx context.Context, changed func()) {
	r.listener.elections.Watch(ctx, r.election, func() {}, changed)
}

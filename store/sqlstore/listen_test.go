package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// server is a PostgreSQL of which only the notifications exist.
type server struct {
	sent  chan string
	end   chan error   // ends the connection that listens
	deaf  atomic.Bool  // what is sent does not arrive: a pooler has another connection
	lives atomic.Int32 // connections
}

func (s *server) send(ctx context.Context, payload string) error {
	if s.deaf.Load() {
		return nil
	}
	select {
	case s.sent <- payload:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) listen(ctx context.Context, channel string, heard func(string)) error {
	s.lives.Add(1)
	defer s.lives.Add(-1)
	for heard(""); ; {
		select {
		case payload := <-s.sent:
			heard(payload)
		case err := <-s.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listens runs a test in fake time, of a Listener at a server.
func listens(t *testing.T, test func(t *testing.T, s *server, l *Listener, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		s, log := &server{sent: make(chan string), end: make(chan error)}, &bytes.Buffer{}
		l := newListener(nil, s.send, s.listen, slog.New(slog.NewTextHandler(log, nil)))
		test(t, s, l, log)
		l.Close()
		if n := s.lives.Load(); n != 0 {
			t.Errorf("%d connections after Close", n)
		}
	})
}

// wakes counts what a participant of an election hears from now on.
func (l *Listener) wakes(t *testing.T, name string) *atomic.Int32 {
	var n atomic.Int32
	go l.elections.Watch(t.Context(), name, func() {}, func() { n.Add(1) })
	synctest.Wait()
	return &n
}

func TestListener(t *testing.T) {
	listens(t, func(t *testing.T, s *server, l *Listener, log *bytes.Buffer) {
		<-time.After(time.Second)
		a, b := l.wakes(t, "a"), l.wakes(t, "b")
		want := func(what string, forA, forB int32) {
			t.Helper()
			synctest.Wait()
			if a.Load() != forA || b.Load() != forB {
				t.Errorf("%s: %d and %d wake-ups; want %d and %d", what, a.Load(), b.Load(), forA, forB)
			}
		}
		want("nothing has happened", 0, 0)
		s.sent <- "a"
		want("news of a", 1, 0)
		s.sent <- "other"
		s.sent <- ".trial of another process"
		want("news of others", 1, 0)
		<-time.After(time.Hour) // trials wake nobody
		want("an hour later", 1, 0)
		if n := s.lives.Load(); n != 1 || log.Len() > 0 {
			t.Errorf("%d connections, and %q; want one, and nothing", n, log)
		}
		s.end <- errors.New("the server goes away")
		<-time.After(time.Minute)
		want("it listens again, and may have missed something", 2, 1)
		if text := log.String(); !strings.Contains(text, "the server goes away") || !strings.Contains(text, "heard again") {
			t.Errorf("%q; want the trouble and its end", text)
		}
	})
}

// TestListenerDeaf: a pooler in transaction mode has the notifications come to nobody. That is said
// once, and is tried again.
func TestListenerDeaf(t *testing.T) {
	listens(t, func(t *testing.T, s *server, l *Listener, log *bytes.Buffer) {
		s.deaf.Store(true)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := strings.Count(log.String(), "only poll"); n != 1 || !strings.Contains(log.String(), "not one of a pooler in transaction mode") {
			t.Errorf("said %d times; want once: %s", n, log)
		}
		s.deaf.Store(false)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if !strings.Contains(log.String(), "heard again") {
			t.Errorf("%q; want it to listen again", log)
		}
	})
}

func TestListenerRefused(t *testing.T) {
	db := sql.OpenDB(nil)
	defer db.Close()
	db.SetMaxOpenConns(1)
	l := newListener(db, nil, func(ctx context.Context, _ string, _ func(string)) error { <-ctx.Done(); return ctx.Err() }, nil)
	defer l.Close()
	for d, want := range map[Dialect]string{SQLite: "only PostgreSQL", PostgreSQL: "a pool of one connection"} {
		if _, err := New(t.Context(), db, d, "e", "a", Config{Listener: l}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want a permanent error with %q", d, err, want)
		}
	}
}

// TestListenerStuck: a driver that does not return when its context ends holds up no Close, and no second trial is sent
// beside the first one.
func TestListenerStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := &server{sent: make(chan string), end: make(chan error)}, &bytes.Buffer{}
		frozen, trials := make(chan struct{}), atomic.Int32{}
		l := newListener(nil, func(context.Context, string) error {
			trials.Add(1)
			<-frozen
			return errors.New("frozen")
		}, s.listen, slog.New(slog.NewTextHandler(log, nil)))
		time.Sleep(time.Hour)
		if n := trials.Load(); n != 1 {
			t.Errorf("%d trials; want 1 while it does not return", n)
		}
		if s.lives.Load() != 1 || strings.Count(log.String(), "not heard") != 1 {
			t.Errorf("%d connections, and the log says %s; want one that listens, and one line", s.lives.Load(), log)
		}
		begun := time.Now()
		l.Close()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		close(frozen)
	})
}

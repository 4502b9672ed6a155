package redis

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Sight is what an elector sees of a server. The zero Sight is one that was never seen.
type Sight struct {
	Info   Info          // the last one
	InfoAt time.Time     // before it was asked for; zero: never
	OK     time.Time     // before the last PING that was answered well; of a server that was never seen, since when
	Fails  int           // attempts in a row that have failed since
	Gone   int           // how many of these in a row found that nobody listens
	GoneAt time.Time     // of the second of them
	Ill    string        // what it answers to PING instead
	Err    string        // of the last attempt
	Part   bool          // it has begun to take a master's data, and was not seen to have ended
	Mean   time.Duration // that answers took lately
	Slow   time.Duration // the greatest Mean of late; it falls by half in 35 looks
}

// Down is why a server is taken to be down.
type Down string

// The reasons.
const (
	Up     Down = ""
	Gone   Down = "gone"   // its machine answers, and nobody listens there: the process has ended
	Silent Down = "silent" // no answer
	Ill    Down = "ill"    // it answers, and not well: its disk has failed
)

// down judges a sight. A process that has ended is known at once; the second attempt rules out that one was refused by
// chance. One failure after a long time is none: this process itself may have been stopped.
func (s *Sight) down(now time.Time, after time.Duration) Down {
	switch {
	case s.Gone >= 2:
		return Gone
	case now.Sub(s.OK) < after || s.Fails < 2:
		return Up
	case s.Ill != "":
		return Ill
	}
	return Silent
}

// late reports whether an answer is overdue by patience, of a server that is well and has not ended. That alone is no
// reason to promote another.
func (s *Sight) late(now time.Time, patience time.Duration) bool {
	return s.Ill == "" && s.Gone == 0 && now.Sub(s.OK) >= patience
}

// behind is by how much the timer of Redis may be late that looks once a second whether replicas have answered: it counts
// its turns, and each may begin as late as the commands before it take. An answer waits for half of such a time.
func (s *Sight) behind() time.Duration {
	if s.Info.Hz == 0 {
		return time.Second // it was never seen
	}
	return time.Duration(2*s.Info.Hz) * s.Slow
}

// fresh reports whether the server has answered lately.
func (s *Sight) fresh(now time.Time, after time.Duration) bool {
	return s.Fails == 0 && !s.InfoAt.IsZero() && now.Sub(s.InfoAt) < after
}

// watcher looks at one server, again and again.
type watcher struct {
	server  server
	dialer  *dialer
	name    string // of its connections
	cfg     func() *Config
	changed func() // is called after each change that matters

	mu   sync.Mutex
	last Sight
}

// sight is what was seen last; a nil watcher has seen nothing.
func (w *watcher) sight() Sight {
	if w == nil {
		return Sight{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// note changes the sight, and tells of a change that matters.
func (w *watcher) note(change func(s *Sight)) {
	w.mu.Lock()
	before := w.last
	change(&w.last)
	after := w.last
	w.mu.Unlock()
	if before.Fails != after.Fails || before.InfoAt.IsZero() != after.InfoAt.IsZero() || before.Info.RunID != after.Info.RunID || before.Info.Master != after.Info.Master ||
		before.Info.Of != after.Info.Of || before.Info.Linked != after.Info.Linked || before.Ill != after.Ill {
		w.changed()
	}
}

// Run looks until ctx ends.
func (w *watcher) Run(ctx context.Context) error {
	w.note(func(s *Sight) { s.OK = time.Now() })
	for ctx.Err() == nil {
		c, err := w.dialer.open(ctx, w.server.addr(), w.name, w.cfg().patience())
		if err != nil {
			w.failed(err)
			// The end of a process is confirmed quickly, and the start of one is seen quickly.
			wait(ctx, min(w.cfg().poll(), 50*time.Millisecond))
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		err = w.converse(ctx, c)
		stop()
		_ = c.Close()
		if ctx.Err() == nil {
			w.failed(err)
		}
	}
	return context.Cause(ctx)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (w *watcher) failed(err error) {
	w.note(func(s *Sight) {
		s.Fails++
		if s.Err = err.Error(); refused(err) {
			if s.Gone++; s.Gone == 2 {
				s.GoneAt = time.Now()
			}
		} else {
			s.Gone = 0
		}
	})
}

// converse looks over one connection until it ends.
func (w *watcher) converse(ctx context.Context, c *conn) error {
	for {
		began := time.Now()
		replies, err := c.do(w.cfg().patience(), []string{"PING"}, []string{"INFO", "server"}, []string{"INFO", "replication"}, []string{"INFO", "keyspace"})
		if err != nil {
			return err
		}
		w.answered(began, replies)
		if err := c.idle(began.Add(w.cfg().poll())); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// answered notes replies. What is not PONG is well if it says that the server loads its data, or has lost its master,
// as for Sentinel.
func (w *watcher) answered(began time.Time, replies []any) {
	pong, text := "", ""
	switch v := replies[0].(type) {
	case string:
		pong = v
	case replyError:
		pong = string(v)
	}
	took := time.Since(began)
	whole := true
	for _, v := range replies[1:] {
		s, ok := v.(string)
		whole = whole && ok
		text += s
	}
	w.note(func(s *Sight) {
		s.Gone = 0
		s.Mean += (took - s.Mean) / 8
		s.Slow = max(s.Mean, s.Slow*49/50)
		if whole {
			s.Info, s.InfoAt = parseInfo(text), began
			// A replica that has thrown away its data for a master's, and has not got all of those, may show the master's
			// history all the same.
			s.Part = s.Info.Syncing || s.Part && !s.Info.Linked && !s.Info.Master
		}
		if pong == "PONG" || strings.HasPrefix(pong, "LOADING") || strings.HasPrefix(pong, "MASTERDOWN") {
			s.OK, s.Fails, s.Ill, s.Err = began, 0, "", ""
			return
		}
		s.Ill = pong
		s.Fails++
		s.Err = pong
	})
}

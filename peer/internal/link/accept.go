package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// guest is an accepted connection of which it is not known yet whose it is.
type guest struct{ raw net.Conn }

// accept takes connections until the listener is closed.
func (l *Link) accept() {
	pause := 5 * time.Millisecond
	for {
		raw, err := l.cfg.Listener.Accept()
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			l.admitGuest(raw)
			continue
		case l.ctx.Err() != nil:
			return
		}
		// Out of descriptors, most likely. Some will come free.
		l.strange.log(l.log, "", "cannot accept connections", "error", err)
		if errors.Is(err, net.ErrClosed) || !wait(l.ctx, pause) {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// wait waits for a while; false: ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// admitGuest starts the handshake with somebody who called. Where too many are
// at that already, the oldest is dropped: an honest one takes milliseconds.
func (l *Link) admitGuest(raw net.Conn) {
	g := &guest{raw}
	var drop net.Conn
	l.mu.Lock()
	full := l.closing || l.accepted >= maxAccepted
	if !full {
		l.accepted++
		if len(l.guests) >= maxGuests {
			drop = l.guests[0].raw
			l.guests = slices.Delete(l.guests, 0, 1)
		}
		l.guests = append(l.guests, g)
	}
	l.mu.Unlock()
	if full {
		_ = raw.Close()
		l.strange.log(l.log, "", "too many connections", "limit", maxAccepted, "from", raw.RemoteAddr())
		return
	}
	if drop != nil {
		_ = drop.Close()
	}
	tune(raw, l.cfg.Idle)
	l.work.Go(func() {
		defer func() {
			l.known(g)
			l.mu.Lock()
			l.accepted--
			l.mu.Unlock()
		}()
		defer l.closeOnEnd(raw)()
		l.receive(g)
	})
}

// known takes a guest off the list of those who may be dropped.
func (l *Link) known(g *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.guests, g); i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
}

// closeOnEnd ends a connection when the Link is closed, unless it is one of those
// that Close itself sees to. What it returns stops that.
func (l *Link) closeOnEnd(raw net.Conn) func() {
	stop := context.AfterFunc(l.ctx, func() {
		if !l.isLive(raw) {
			_ = raw.Close()
		}
	})
	return func() { stop() }
}

func (l *Link) isLive(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.live {
		if c.raw == raw {
			return true
		}
	}
	return false
}

// limiter keeps a log from being filled by others: a few lines a second, and the
// same one not twice a minute.
type limiter struct {
	mu    sync.Mutex
	lines int       // in the present second…
	since time.Time // …which began then
	left  int       // out, since the last line
	same  map[string]time.Time
}

const (
	linesPerSecond = 5
	sameAfter      = time.Minute
	maxSame        = 64 // lines that are remembered
)

// log writes a line. Those with the same key are the same; "" is like no other.
func (r *limiter) log(to *slog.Logger, key, text string, args ...any) {
	now := time.Now()
	r.mu.Lock()
	if now.Sub(r.since) >= time.Second {
		r.lines, r.since = 0, now
	}
	full := r.lines >= linesPerSecond
	if at, ok := r.same[key]; ok && now.Sub(at) < sameAfter {
		full = true
	} else if !full && key != "" {
		if r.same == nil || len(r.same) >= maxSame {
			r.same = make(map[string]time.Time)
		}
		r.same[key] = now
	}
	left := r.left
	if !full {
		r.lines++
	}
	if full {
		r.left++
	} else {
		r.left = 0
	}
	r.mu.Unlock()
	if full {
		return
	}
	if left > 0 {
		args = append(args, "left_out_before", left)
	}
	to.Warn(text, args...)
}

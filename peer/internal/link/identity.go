package link

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

const (
	lookTime  = time.Minute    // between two checks of certificates
	sameWorry = 24 * time.Hour // before a problem is logged again
)

// watchIdentity checks this node's certificate and those of the others. It logs what an operator should know before
// other nodes refuse this one.
func (l *Link) watchIdentity() {
	w := worries{said: make(map[string]time.Time)}
	w.last = l.cfg.TLS.Warnings() // so that the first check logs all of it
	t := time.NewTicker(l.cfg.Look)
	defer t.Stop()
	for {
		for _, text := range w.due(append(l.cfg.TLS.Warnings(), l.review()...), time.Now()) {
			l.log.Warn("certificates want a look", "id", l.cfg.Hello.ID, "problem", text)
		}
		select {
		case <-t.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// review checks the existing connections by the present contents of the files. A
// connection with a node is made anew if it was made with another certificate of this
// node, or if the certificate shown on it is not accepted any more. The new connection is
// made beside the old one and replaces it, so that no side takes the change for a death.
// If that fails, the old connection goes on for as long as Identity.Recheck allows. A
// client's connection is ended, because a client can make another one. review returns
// the problems with nodes.
func (l *Link) review() (problems []string) {
	version := l.cfg.TLS.Version()
	var all []*conn
	l.mu.Lock()
	for _, p := range l.peers {
		if n := len(p.conns); n > 0 {
			all = append(all, p.conns[n-1])
		}
	}
	callers := slices.Collect(maps.Keys(l.callers))
	l.mu.Unlock()

	var mu sync.Mutex
	var work sync.WaitGroup
	for _, c := range all {
		state, secure := c.shown()
		if !secure {
			continue
		}
		refused, over := l.cfg.TLS.Recheck(state)
		if refused == nil && c.version == version {
			continue
		}
		work.Go(func() {
			if text := l.renew(c, refused, over); text != "" {
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, text)
			}
		})
	}
	for _, c := range callers {
		state, secure := c.s.shown()
		if !secure {
			continue
		}
		if refused, _ := l.cfg.TLS.Recheck(state); refused != nil {
			l.log.Info("the connection of a client is ended", "from", c.from.Addr, "cause", refused)
			work.Go(func() { c.end(notAccepted(refused)) })
		}
	}
	work.Wait()
	slices.Sort(problems)
	return problems
}

func notAccepted(err error) *wire.Refusal {
	return &wire.Refusal{Code: wire.CodeCertificate, Says: err.Error()}
}

// calls records that a node has begun a handshake, until over is called. While this
// side, the node with the smaller id, makes its connection anew, that node has to wait:
// of two connections that are made at once, the end of one would be taken for a death.
func (l *Link) calls(id protocol.NodeID) (over func(), r *wire.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[id]
	switch {
	case p == nil:
		return func() {}, nil
	case p.renewed && l.cfg.Hello.ID.Compare(id) < 0:
		return nil, &wire.Refusal{Code: wire.CodeBusy, Says: string(l.cfg.Hello.ID) + " is making the connection anew itself"}
	}
	p.calling++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.calling--
	}), nil
}

// renew makes the connection with a node anew, and returns what is wrong if that fails.
func (l *Link) renew(c *conn, refused error, over bool) string {
	p := c.peer
	l.mu.Lock()
	mine := p.calling == 0 && len(p.conns) > 0 && p.conns[len(p.conns)-1] == c
	p.renewed = mine
	l.mu.Unlock()
	if !mine {
		return "" // there is another one, or will be
	}
	defer func() {
		l.mu.Lock()
		p.renewed = false
		l.mu.Unlock()
	}()
	made, err := l.try(p)
	switch {
	case err == nil:
		l.work.Go(func() { l.run(made) })
		return ""
	case c.peer.gone.Load() || l.ctx.Err() != nil:
		return ""
	case over:
		l.log.Warn("a connection is ended", "peer", c.peer.id, "addr", c.addr(), "cause", refused)
		c.finish(&wire.Frame{Refusal: notAccepted(refused)}, flushTime)
		return ""
	case refused != nil: // a text that stays the same, so without the time of day
		return fmt.Sprintf("the certificate that %s has shown has expired: the connection goes on for some days at most, and a new one is refused; want elect certs renew %s",
			c.peer.id, c.peer.id)
	case errors.Is(err, errNoAddress): // the node calls, and checks certificates itself
		return ""
	}
	return fmt.Sprintf("the connection with %s goes on with the certificates that it was made with, because a new one fails: %s", c.peer.id, reason(err))
}

// worries are the problems of a certificate. One goroutine uses them.
type worries struct {
	last []string // at the last check
	said map[string]time.Time
}

// due is what is to be logged now: what was so at the last check as well, because the files of a renewal change one
// after the other, and was not logged for a day.
func (w *worries) due(now []string, at time.Time) (due []string) {
	for _, text := range now {
		before, ok := w.said[text]
		if slices.Contains(w.last, text) && (!ok || at.Sub(before) >= sameWorry) {
			due = append(due, text)
			w.said[text] = at
		}
	}
	for text, before := range w.said {
		if at.Sub(before) >= sameWorry {
			delete(w.said, text)
		}
	}
	w.last = now
	return due
}

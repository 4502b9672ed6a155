package link

import (
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/peer/internal/wire"
)

// A connection on which nothing was said since that was last looked at is given a
// sign of life: an empty response. It is looked at when something is sent or
// received anyway, if a quarter of Config.Idle has passed, and by a timer when half
// of it has. So a peer is heard of within three quarters of it. To wake up for
// nothing else costs as much as a letter does: hence the two.

// heard notes that a node has said something.
func (l *Link) heard(p *peer) {
	now := clock.Now()
	p.lastHeard.Store(int64(now))
	l.signs(now)
}

// signs gives the signs that are due.
func (l *Link) signs(now clock.Boot) {
	last := l.signed.Load()
	if now.Sub(clock.Boot(last)) < l.idle()/4 || !l.signed.CompareAndSwap(last, int64(now)) {
		return
	}
	var silent []*conn
	l.mu.Lock()
	for _, p := range l.peers {
		if n := len(p.conns); n > 0 && !p.conns[n-1].said.Swap(false) {
			silent = append(silent, p.conns[n-1])
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		c.say(&wire.Frame{Response: &wire.Response{}})
	}
}

// keepSigning gives signs where nothing else happens.
func (l *Link) keepSigning() {
	t := time.NewTimer(l.idle() / 2)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-l.ctx.Done():
			return
		}
		now := clock.Now()
		l.signs(now)
		t.Reset(max(l.idle()/2-now.Sub(clock.Boot(l.signed.Load())), time.Millisecond))
	}
}

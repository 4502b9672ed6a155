package link

import (
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/peer/internal/wire"
)

// A connection on which nothing was written since the last check is sent a sign of life: an empty response. The check
// happens at a send or a receipt, if a quarter of Config.Idle has passed, and by a timer when half of it has. So a
// peer is heard within three quarters of it. A wake-up for the check alone costs as much as a letter does: hence the
// two intervals.

// heard records that something came from a node.
func (l *Link) heard(p *peer) {
	now := clock.Now()
	p.lastHeard.Store(int64(now))
	l.signs(now)
}

// signs sends the signs of life that are due.
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

// keepSigning sends signs of life when nothing else is sent or received.
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

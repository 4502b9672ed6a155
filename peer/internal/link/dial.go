package link

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/peer/internal/wire"
)

// dial keeps a connection with a node: whenever there is none it dials, and it reads what it has dialled.
func (l *Link) dial(p *peer) {
	pauses := pauses{}
	for {
		if !l.awaitNone(p, &pauses) {
			return
		}
		begun := time.Now()
		c, err := l.try(p)
		if err == nil {
			l.run(c)
			pauses.reset(time.Since(c.since))
			if !l.rest(p, jitter(firstPause)) {
				return
			}
			continue
		}
		if p.ctx.Err() != nil {
			return
		}
		l.failed(p, err)
		// A pause counts from the beginning of the attempt. An attempt without an answer was pause enough.
		d := jitter(firstPause)
		if !isTimeout(err) {
			d = max(d, jitter(pauses.next())-time.Since(begun))
		}
		if !l.rest(p, d) {
			return
		}
	}
}

// awaitNone waits until there is no connection with the node, and an address to dial. It returns false if the Link is
// closed or the node was removed.
func (l *Link) awaitNone(p *peer, pauses *pauses) bool {
	for {
		l.mu.Lock()
		wanted, closing := len(p.conns) == 0 && len(p.addrs) > 0, l.closing || p.gone.Load()
		if p.lasted {
			p.lasted = false
			pauses.reset(steady)
		}
		l.mu.Unlock()
		if closing {
			return false
		}
		if wanted {
			return true
		}
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			return false
		}
	}
}

// rest waits for d, or until there is a connection. It returns false if the Link is closed or the node was removed.
func (l *Link) rest(p *peer, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		l.mu.Lock()
		connected := len(p.conns) > 0
		l.mu.Unlock()
		if connected {
			return true
		}
		select {
		case <-t.C:
			return true
		case <-p.wake:
		case <-p.ctx.Done():
			return false
		}
	}
}

// try dials once.
func (l *Link) try(p *peer) (*conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTime(l.idle()))
	defer cancel()
	l.mu.Lock()
	addr := p.at()
	l.mu.Unlock()
	if addr == "" {
		return nil, errNoAddress // the address was removed a moment ago
	}
	raw, err := l.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if ip := ipOf(raw.RemoteAddr()); ip.IsValid() {
		l.mu.Lock()
		p.home = ip
		l.mu.Unlock()
	}
	defer l.closeOnEnd(raw)()
	tune(raw, l.idle())
	_ = raw.SetDeadline(time.Now().Add(l.idle()))
	s, err := call(raw, l.cfg.TLS, p.id)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	c, err := l.meet(s, p)
	if err != nil {
		_ = raw.Close()
	}
	return c, err
}

var errNoAddress = errors.New("no address of it is known")

// dialTime bounds an attempt to connect. After a cut of the network TCP repeats its first packet too seldom: after
// one second, then after two more. A new attempt connects sooner.
func dialTime(idle time.Duration) time.Duration {
	return min(max(idle/4, 200*time.Millisecond), time.Second)
}

// starting is how long other nodes may take to start. They are started one after another, and one that does not
// listen yet is no error.
const starting = 5 * time.Second

// maxTold bounds the failures that are remembered for a peer.
const maxTold = 16

// failed records why there is no connection, and logs it if it is new: each failure once until there is a connection.
func (l *Link) failed(p *peer, err error) {
	why, level := reason(err), slog.LevelWarn
	l.mu.Lock()
	p.err = err
	addr := p.at()
	p.turn++ // try the next address
	if !p.met && isRefused(err) && time.Since(l.begun) < starting {
		level = slog.LevelInfo
	}
	if r, ok := errors.AsType[*wire.Refusal](err); ok && !r.Final {
		level = slog.LevelInfo // Config.Refused decides how loud it is
	}
	news := len(p.conns) == 0 && tellOnce(&p.told, why, level)
	l.mu.Unlock()
	if news {
		l.log.Log(l.ctx, level, "cannot connect", "peer", p.id, "addr", addr, "cause", err)
	}
}

// locate checks once whether a calling node answers at its configured address. A wrong address does no harm while
// that node calls. When this side has to dial, it is too late to learn that the address is wrong.
func (l *Link) locate(p *peer) {
	late := time.NewTimer(starting) // it may only just begin to listen
	defer late.Stop()
	select {
	case <-late.C:
	case <-p.ctx.Done():
		return
	}
	l.mu.Lock()
	addr, from := p.at(), p.from
	l.mu.Unlock()
	if addr == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, l.idle())
	defer cancel()
	c, err := Dial(ctx, ClientConfig{Addr: addr, Hello: *l.self(), TLS: l.cfg.TLS, Expect: p.id, Dial: l.cfg.Dial})
	if err == nil {
		_ = c.Close()
		return
	}
	if r, ok := errors.AsType[*wire.Refusal](err); p.ctx.Err() != nil || ok && r.Code != wire.CodeIdentity { // it has answered
		return
	}
	l.log.Warn("a node has called, and is not found at the address that this node has for it; want its own address there, or the way to it open",
		"peer", p.id, "addr", addr, "calls_from", from, "cause", err)
}

// pauses are those between attempts. They double, and a connection that lasted resets them.
type pauses struct{ last time.Duration }

func (b *pauses) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), lastPause)
	return b.last
}

func (b *pauses) reset(lasted time.Duration) {
	if lasted >= steady {
		b.last = 0
	}
}

// jitter is a random time between d/2 and d, so that two hosts do not keep colliding.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

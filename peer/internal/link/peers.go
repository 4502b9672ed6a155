package link

import (
	"context"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// SetPeers changes with whom connections are kept, while they are used: new ones
// are dialled, those that have other addresses are dialled there when they are
// dialled next, and those who are not in peers are told what outside says of them
// and are dropped: nothing that they have said and nobody has taken yet counts.
// Whoever is being admitted meanwhile is put to Admit again, so that what Admit
// goes by must have changed before. held is what Hello says from now on.
//
// It does not wait for anything. outside is called beneath a lock and must not call
// the Link. After Close nothing comes of it.
func (l *Link) SetPeers(held protocol.ConfigID, peers Peers, outside func(protocol.NodeID) *wire.Refusal) {
	type farewell struct {
		conn *conn
		says *wire.Refusal
	}
	var leaving []farewell
	l.mu.Lock()
	l.set++
	l.hello.Held = held
	if l.closing {
		l.mu.Unlock()
		return
	}
	for id, p := range l.peers {
		if _, in := peers[id]; in {
			continue
		}
		says := outside(id)
		for _, c := range p.conns {
			leaving = append(leaving, farewell{c, says})
		}
		l.drop(p)
	}
	for id, addrs := range peers {
		if id != l.cfg.Hello.ID {
			l.add(id, addrs).passing = false
		}
	}
	l.mu.Unlock()
	for _, f := range leaving {
		l.log.Info("a connection is ended", "peer", f.conn.peer.id, "addr", f.conn.addr(), "cause", f.says.Says)
		f.conn.finish(&wire.Frame{Refusal: f.says}, flushTime)
	}
}

// add makes, beneath the lock, a peer or changes where it is dialled.
func (l *Link) add(id protocol.NodeID, addrs []string) *peer {
	p := l.peers[id]
	if p == nil {
		p = &peer{id: id, wake: make(chan struct{}, 1)}
		p.ctx, p.stop = context.WithCancel(l.ctx)
		l.peers[id] = p
	}
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == "" })
	if slices.Equal(addrs, p.addrs) {
		return p
	}
	p.addrs, p.turn = addrs, 0
	if len(addrs) > 0 {
		p.home = ipIn(addrs[0])
	}
	switch {
	case len(addrs) == 0 || l.closing:
	case p.dialled:
		p.look()
	default:
		p.dialled = true
		l.work.Go(func() { l.dial(p) })
	}
	return p
}

// drop forgets a peer, beneath the lock. Its connections end by themselves.
func (l *Link) drop(p *peer) {
	p.gone.Store(true)
	p.stop()
	delete(l.peers, p.id)
}

// at is where the peer is dialled next, beneath the lock; "" if it is not.
func (p *peer) at() string {
	if len(p.addrs) == 0 {
		return ""
	}
	return p.addrs[p.turn%len(p.addrs)]
}

// asked is how often SetPeers was called, for [Link.join].
func (l *Link) asked() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set
}

package link

import (
	"context"
	"maps"
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
func (e *Election) SetPeers(held protocol.ConfigID, peers Peers, outside func(protocol.NodeID) *wire.Refusal) {
	type farewell struct {
		id   protocol.NodeID
		addr string
		says *wire.Refusal
	}
	var leaving []farewell
	l := e.link
	l.mu.Lock()
	e.set++
	e.hello.Held = held
	if l.closing || e.closing {
		l.mu.Unlock()
		return
	}
	for id, m := range e.members {
		if _, in := peers[id]; in || !m.listed && len(m.open) == 0 { // what is being decided is decided anew
			continue
		}
		says := outside(id)
		e.unlist(m)
		for c := range l.live {
			if n := c.entries[e]; n != nil && n.m == m {
				if n.open {
					leaving = append(leaving, farewell{id, c.addr(), says})
				}
				l.refuse(n, says)
				delete(c.entries, e)
			}
		}
	}
	for id, addrs := range peers {
		if id != l.cfg.Hello.ID {
			e.list(id, addrs)
		}
	}
	l.mu.Unlock()
	for _, f := range leaving {
		e.log.Info("a connection is ended", "peer", f.id, "addr", f.addr, "cause", f.says.Says)
	}
}

// member is a node in the election, beneath the lock.
func (e *Election) member(id protocol.NodeID) *member {
	m := e.members[id]
	if m == nil {
		m = &member{id: id}
		e.members[id] = m
	}
	return m
}

// list has, beneath the lock, a connection kept with a node, and enters the election
// where there is one already.
func (e *Election) list(id protocol.NodeID, addrs []string) {
	m := e.member(id)
	m.listed = true
	m.addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == "" })
	e.link.route(id)
	for _, c := range e.link.peers[id].conns {
		if !c.left && !c.over {
			e.link.enter(c.entry(e, m), false)
		}
	}
}

// unlist has, beneath the lock, no connection kept with a node.
func (e *Election) unlist(m *member) {
	m.listed, m.addrs = false, nil
	delete(e.members, m.id)
	e.link.route(m.id)
}

// addPeer makes a peer, beneath the lock.
func (l *Link) addPeer(id protocol.NodeID) *peer {
	p := &peer{id: id, wake: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(l.ctx)
	l.peers[id] = p
	return p
}

// route dials a host, beneath the lock, where the elections that list it have it, or
// forgets it if none does.
func (l *Link) route(id protocol.NodeID) {
	var addrs []string
	listed := false
	for _, name := range slices.Sorted(maps.Keys(l.elections)) {
		if m := l.elections[name].members[id]; m != nil && m.listed {
			listed = true
			for _, a := range m.addrs {
				if !slices.Contains(addrs, a) {
					addrs = append(addrs, a)
				}
			}
		}
	}
	p := l.peers[id]
	switch {
	case p == nil && !listed:
		return
	case p == nil:
		p = l.addPeer(id)
	case !listed && len(p.conns) == 0:
		l.drop(p)
		return
	case !listed:
		l.reap(p)
	}
	p.passing = !listed
	if slices.Equal(addrs, p.addrs) {
		return
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

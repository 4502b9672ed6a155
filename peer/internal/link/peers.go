package link

import (
	"context"
	"maps"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// SetPeers changes the nodes with which connections are kept. New ones are dialled. Changed addresses count from the
// next dialling. The nodes that are not in peers are sent the result of outside and dropped; letters from them that
// were not yet passed on are lost. Admit is asked again about a node that is being admitted, so the caller must first
// change what Admit depends on. held is the membership in later Enters.
//
// It does not wait. outside is called while a lock is held and must not call the Link. After Close SetPeers does
// nothing.
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
		if _, in := peers[id]; in || !m.listed && len(m.open) == 0 { // what is being decided is decided again
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

// member returns a node of the election. The lock is held.
func (e *Election) member(id protocol.NodeID) *member {
	m := e.members[id]
	if m == nil {
		m = &member{id: id}
		e.members[id] = m
	}
	return m
}

// list keeps a connection with a node, and enters the election on an existing one. The lock is held.
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

// unlist keeps no connection with a node. The lock is held.
func (e *Election) unlist(m *member) {
	m.listed, m.addrs = false, nil
	delete(e.members, m.id)
	e.link.route(m.id)
}

// addPeer makes a peer. The lock is held.
func (l *Link) addPeer(id protocol.NodeID) *peer {
	p := &peer{id: id, wake: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(l.ctx)
	l.peers[id] = p
	return p
}

// route dials a host at the addresses of the elections that list it, or forgets it if none does. The lock is held.
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

// drop forgets a peer. Its connections end by themselves. The lock is held.
func (l *Link) drop(p *peer) {
	p.gone.Store(true)
	p.stop()
	delete(l.peers, p.id)
}

// at is the address that is dialled next; "" if none. The lock is held.
func (p *peer) at() string {
	if len(p.addrs) == 0 {
		return ""
	}
	return p.addrs[p.turn%len(p.addrs)]
}

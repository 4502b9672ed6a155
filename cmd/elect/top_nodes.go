package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/top"
	"github.com/electd/elect/peer"
)

// nodeWatch asks the nodes of an election at an interval, each in a goroutine of its own: one that is silent delays no
// other.
type nodeWatch struct {
	ask    func(ctx context.Context, of peer.Peer) peer.NodeResult
	start  func(do func()) // runs do in a goroutine
	listed []peer.Peer     // voters first
	voters int
	every  time.Duration
	early  bool // report before each node has answered or failed

	nodes   []*askedNode
	answers chan nodeAnswer
}

// askedNode is a node that is asked.
type askedNode struct {
	of   peer.Peer
	last peer.NodeResult
	at   time.Time // when last came; zero: nothing has come yet
	stop context.CancelFunc
}

type nodeAnswer struct {
	of     *askedNode
	result peer.NodeResult
	at     time.Time
}

// follow reports all nodes after each answer, until ctx ends.
func (w *nodeWatch) follow(ctx context.Context, report func([]top.Node)) {
	w.answers = make(chan nodeAnswer)
	for _, p := range w.listed {
		if p.Addr != "" {
			w.nodes = append(w.nodes, w.begin(ctx, p))
		}
	}
	for {
		select {
		case a := <-w.answers:
			a.of.last, a.of.at = a.result, a.at
		case <-ctx.Done():
			return
		}
		w.adapt(ctx)
		if w.early || !slices.ContainsFunc(w.nodes, func(n *askedNode) bool { return n.at.IsZero() }) {
			report(w.report())
		}
	}
}

func (w *nodeWatch) begin(ctx context.Context, p peer.Peer) *askedNode {
	n := &askedNode{of: p, last: peer.NodeResult{Peer: p, Err: errors.New("no answer yet")}}
	ctx, n.stop = context.WithCancel(ctx)
	w.start(func() {
		tick := time.NewTicker(w.every)
		defer tick.Stop()
		for {
			r := w.ask(ctx, p)
			select {
			case w.answers <- nodeAnswer{n, r, time.Now()}:
			case <-ctx.Done():
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return n
}

func (w *nodeWatch) results() (all []peer.NodeResult) {
	for _, n := range w.nodes {
		all = append(all, n.last)
	}
	return all
}

// adapt asks the members of the newest membership, too: those that the URL does not list, and those that do not answer
// at the address of the URL.
func (w *nodeWatch) adapt(ctx context.Context) {
	m := peer.Newest(w.results())
	if m == nil {
		return
	}
	var members []peer.Peer
	for _, v := range m.Voters {
		members = append(members, peer.Peer{ID: v.ID, Addr: v.Addr})
	}
	for _, o := range m.Observers {
		members = append(members, peer.Peer(o))
	}
	for _, p := range members {
		i := slices.IndexFunc(w.nodes, func(n *askedNode) bool { return n.of.ID == p.ID })
		switch {
		case p.Addr == "":
		case i < 0:
			w.nodes = append(w.nodes, w.begin(ctx, p))
		case w.nodes[i].last.Status == nil && !w.nodes[i].at.IsZero() && w.nodes[i].of.Addr != p.Addr: // it has moved
			w.nodes[i].stop()
			w.nodes[i] = w.begin(ctx, p)
		}
	}
	known := append(members, w.listed...)
	w.nodes = slices.DeleteFunc(w.nodes, func(n *askedNode) bool {
		gone := !slices.ContainsFunc(known, func(p peer.Peer) bool { return p.ID == n.of.ID })
		if gone {
			n.stop()
		}
		return gone
	})
}

// report combines the last answers.
func (w *nodeWatch) report() []top.Node {
	nodes := topNodes(membersOf(w.results(), w.voters))
	for i := range nodes {
		for _, n := range w.nodes {
			if n.of.ID == nodes[i].ID {
				nodes[i].At = n.at
			}
		}
	}
	return nodes
}

// topNodes are the members as nodes.
func topNodes(m *members) []top.Node {
	nodes := []top.Node{}
	for _, e := range m.Members {
		n := top.Node{ID: e.ID, Source: e.Address, RTT: e.RTT, Ready: e.Ready, Paused: e.Paused}
		if s := e.Status; s != nil {
			n.State, n.Leads, n.Token = s.Role, s.Active, s.Token
			if s.Active {
				left := s.LeaseLeft.Milliseconds()
				n.Lease = &left
			}
		} else {
			n.Error = or(e.Error)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

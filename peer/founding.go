package peer

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/wire"
	"github.com/electd/elect/protocol"
)

// Founding binds the voters to their data directories, once. A voter is its id
// and its directory: one with an empty disk has forgotten its votes and its
// promises, and must not be taken for the one that made them.
//
// Two voters that meet each pin the other's directory durably, and say so by a
// Welcome. A voter whom all others have welcomed is founded: its machine boots,
// and from then on it votes. So before a voter can vote for the first time,
// every other one knows its directory for good and refuses any other under its
// id. A voter that crashes before it is founded begins anew, with the pins that
// there are.
//
// Only the welcomes of all make a voter founded, even if one of them comes with
// the membership of a founded voter: that one knows that all have pinned itself,
// and not that all have pinned this one.

// admit decides whether somebody may talk to this node. It is called by the
// links' goroutines and may wait for the disk.
func (n *Node) admit(h *wire.Hello, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
	final := func(code wire.Code, format string, args ...any) (*wire.Welcome, *wire.Refusal) {
		return nil, &wire.Refusal{Code: code, Final: true, Says: fmt.Sprintf(format, args...)}
	}
	welcome := &wire.Welcome{Program: n.cfg.Program}
	switch {
	case h.Cluster != n.cfg.Cluster:
		return final(wire.CodeCluster, "%s is of cluster %q, and the caller of %q: an address is wrong, or cluster=", n.cfg.ID, n.cfg.Cluster, h.Cluster)
	case h.Election != n.cfg.Name:
		return final(wire.CodeElection, "at this address is the election %q, and the caller stands in %q: an address is wrong, or the name", n.cfg.Name, h.Election)
	case caller == wire.ClientOf:
		return welcome, nil
	case h.ID == n.cfg.ID:
		if caller == wire.WitnessOf {
			return final(wire.CodeIdentity, "a witness of %s speaks to the others, not to %s", h.ID, h.ID)
		}
		return final(wire.CodeIdentity, "%s called itself: two participants have one id, or an address in the list is that of another", h.ID)
	}
	voter := has(n.cfg.Voters, h.ID)
	if !voter && !has(n.cfg.Observers, h.ID) {
		return final(wire.CodeUnknown, "%s does not list %s; it knows the voters %s and the observers %s", n.cfg.ID, h.ID, list(ids(n.cfg.Voters)), orNone(ids(n.cfg.Observers)))
	}
	if caller == wire.Node {
		if own := ids(n.cfg.Voters); !slices.Equal(own, h.Voters) {
			return final(wire.CodeVoters, "%s has the voters %s, and %s has %s; want the same ones at every participant", n.cfg.ID, list(own), h.ID, list(h.Voters))
		}
	}
	if caller == wire.Node && h.Era != n.cfg.Era {
		// For a while, when it is raised at one node after the other: those of one
		// era do not elect with those of another, or a leader of the smaller one
		// could follow one of the greater.
		return nil, &wire.Refusal{Code: wire.CodeEra, Says: fmt.Sprintf("%s is in era %d of tokens, and %s in era %d; want era=%d at every participant", n.cfg.ID, n.cfg.Era, h.ID, h.Era, max(h.Era, n.cfg.Era))}
	}
	if voter {
		if r := n.bind(h, caller); r != nil {
			return nil, r
		}
	}
	if caller == wire.Node && voter {
		id, promise := h.ID, h.Promise
		n.inbox.put(item{do: func() { n.compare(id, promise) }})
	}
	welcome.Membership = n.membership.Load()
	return welcome, nil
}

// compare tells people, once, when another voter asks for another promise: that
// is safe, as when a profile is changed at one node after the other, but then the
// longest one says how long a takeover may take.
func (n *Node) compare(id protocol.NodeID, promise time.Duration) {
	if promise == n.plan.Promise {
		delete(n.promises, id)
		return
	}
	if n.promises[id] != promise {
		n.promises[id] = promise
		n.log.Warn("another voter has other times; a takeover may take as long as the longest promise", "peer", string(id), "promise", promise, "own", n.plan.Promise)
	}
}

// bind holds a voter to its directory, and pins it if none is known yet.
func (n *Node) bind(h *wire.Hello, caller wire.Caller) *wire.Refusal {
	known, bound := protocol.DirID{}, false
	if ms := n.membership.Load(); ms != nil {
		if i := ms.Index(h.ID); i >= 0 {
			known, bound = ms.Voters[i].Dir, true
		}
	}
	if !bound {
		known, bound = n.dir.Pins()[h.ID]
	}
	if !bound && caller == wire.Node && n.cfg.voter() {
		err := n.dir.Pin(h.ID, h.Dir)
		if known, bound = n.dir.Pins()[h.ID]; !bound {
			n.log.Error("the directory of a voter cannot be pinned", "voter", h.ID, "error", err)
			return &wire.Refusal{Code: wire.CodeBusy, Says: fmt.Sprintf("%s cannot write down the directory of %s: its disk fails", n.cfg.ID, h.ID)}
		}
		n.inbox.put(item{do: n.found})
	}
	if bound && known != h.Dir {
		return &wire.Refusal{Code: wire.CodeDirectory, Final: true, Says: fmt.Sprintf(
			"%s knows %s by the data directory %s, and this one is %s: its disk was wiped, or data= is another place",
			n.cfg.ID, h.ID, known, h.Dir)} // what to do about it, the refused one says itself, once
	}
	return nil
}

func orNone(all []protocol.NodeID) string {
	if len(all) == 0 {
		return "none"
	}
	return list(all)
}

// welcomed takes notice that somebody has pinned this node's directory.
func (n *Node) welcomed(from protocol.NodeID, w *wire.Welcome) {
	n.admitted(from)
	if !has(n.cfg.Voters, from) {
		return
	}
	n.welcomes[from] = w.Membership
	if n.machine == nil {
		n.found()
	}
}

// found founds this node, if the time has come.
func (n *Node) found() {
	if n.machine != nil {
		return
	}
	ms := n.met()
	if ms == nil {
		return
	}
	ms.Observers = ids(n.cfg.Observers)
	if err := n.boot(ms, nil); err != nil {
		n.machine = nil
		n.membership.Store(nil)
		n.log.Error("the election cannot begin", "error", err)
		n.refuse(n.cfg.ID, &wire.Refusal{Code: wire.CodeVoters, Says: err.Error(), Final: true})
	}
}

// met is the membership that this node can boot with, nil if it cannot yet.
func (n *Node) met() *protocol.Membership {
	newest := (*protocol.Membership)(nil)
	for _, ms := range n.welcomes {
		if ms != nil && (newest == nil || ms.Compare(newest) > 0) {
			newest = ms
		}
	}
	if !n.cfg.voter() {
		if newest == nil {
			return nil
		}
		ms := *newest
		return &ms
	}
	ms := &protocol.Membership{Version: 1}
	pins := n.dir.Pins()
	for _, id := range ids(n.cfg.Voters) {
		d, pinned := n.self.Dir, true
		if id != n.cfg.ID {
			d, pinned = pins[id]
		}
		if _, welcome := n.welcomes[id]; !pinned || !welcome && id != n.cfg.ID {
			return nil
		}
		ms.Voters = append(ms.Voters, protocol.Voter{ID: id, Dir: d})
	}
	if newest == nil {
		return ms
	}
	if !slices.Equal(newest.Voters, ms.Voters) {
		n.refuse(n.cfg.ID, &wire.Refusal{Code: wire.CodeDirectory, Final: true, Says: fmt.Sprintf(
			"the others know the voters %s, and this directory knows %s: it is of another founding. %s", list(newest.Voters), list(ms.Voters), disk.Remedy)})
		return nil
	}
	ms.ConfigTerm, ms.Version = newest.ConfigTerm, newest.Version
	return ms
}

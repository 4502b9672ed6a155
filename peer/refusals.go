package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// A refusal is repeated at each attempt to connect, at least about every second. One that is not repeated is
// forgotten: the node that sent it is gone, or has changed its mind and is not heard for another reason.
const (
	refusalLasts  = 10 * time.Second // and at least three promises
	refusalRepeat = 3 * time.Second  // after this time, another failure of the connection tells more
)

// refusal is a participant's last refusal of this node's Hello, or this node's own.
type refusal struct {
	*wire.Refusal
	at protocol.Instant
}

// refused records that a node refuses this one.
func (n *Node) refused(by protocol.NodeID, r *wire.Refusal) {
	n.forget()
	if before := n.refusals[by]; before.Refusal == nil || before.Code != r.Code || before.Says != r.Says {
		level := slog.LevelWarn
		if n.cfg.Join && !r.Final {
			level = slog.LevelInfo // it waits, and its own log says so
		}
		n.log.Log(context.Background(), level, "this node is refused", "by", by, "code", string(r.Code), "says", r.Says)
	}
	n.refuse(by, r)
	if n.run.Machine() != nil && r.Code == wire.CodeDirectory {
		n.parted()
	}
}

func (n *Node) refuse(by protocol.NodeID, r *wire.Refusal) {
	n.refusals[by] = refusal{r, n.run.Latest().Boot}
	if n.run.Waits() {
		if err := n.hopeless(); err != nil {
			n.run.Reject(err)
		}
	}
}

// admitted forgets a refusal, and logs that at the level of the refusal.
func (n *Node) admitted(by protocol.NodeID) {
	if n.refusals[by].Refusal == nil {
		return
	}
	level := slog.LevelWarn
	if n.cfg.Join && !n.refusals[by].Final {
		level = slog.LevelInfo
	}
	delete(n.refusals, by)
	n.log.Log(context.Background(), level, "this node is refused no more", "by", by)
}

// forget drops the refusals that were not repeated. What this node has found out by itself stays.
func (n *Node) forget() {
	lasts := max(refusalLasts, 3*n.plan.Promise)
	otherwise := false
	for by, r := range n.refusals {
		age := n.run.Latest().Boot.Sub(r.at)
		switch {
		case by == n.cfg.ID:
		case age > lasts:
			delete(n.refusals, by)
		case age > refusalRepeat:
			otherwise = true
		}
	}
	if !otherwise || n.link == nil {
		return
	}
	for _, p := range n.link.Peers() {
		r := n.refusals[p.ID]
		if _, same := errors.AsType[*wire.Refusal](p.Err); r.Refusal != nil && !same && (p.Connected || p.Err != nil) && n.run.Latest().Boot.Sub(r.at) > refusalRepeat {
			delete(n.refusals, p.ID)
		}
	}
}

// hopeless returns an error if this node cannot be elected as it is: by what it knows itself, or because so many
// voters refuse it for good that the rest, itself included, is no majority. Fewer may be wrong themselves, and are no
// reason to stop while a majority elects. Observers do not vote, so their refusals do not count.
func (n *Node) hopeless() error {
	n.forget()
	if own := n.refusals[n.cfg.ID]; own.Refusal != nil && own.Final {
		return driver.Permanent(errors.New(own.Says))
	}
	final := func(r refusal) bool { return r.Final }
	voters := ids(n.voters())
	count, forgot, moved := 0, false, false
	for _, id := range voters {
		if r := n.refusals[id]; r.Refusal != nil && final(r) {
			count++
		}
	}
	for by, r := range n.refusals {
		forgot = forgot || r.Final && r.Code == wire.CodeDirectory
		moved = moved || r.Final && (r.Code == wire.CodeRemoved || !slices.Contains(voters, by))
	}
	// A voter that is missing in a newer membership was removed by a majority of the one that it knows. So those of them
	// that know the newer one leave no majority to the rest. If the voters that it knows are gone for good too, only
	// other nodes may be left to say so.
	if len(voters)-count > len(voters)/2 && !(moved && n.alone()) {
		return nil
	}
	text := n.refusers(final)
	if forgot {
		text += ". " + n.dialect.remedy()
	}
	return driver.Permanent(errors.New(text))
}

// alone reports whether, for as long as a refusal is remembered, only nodes were heard that refuse this node for
// good.
func (n *Node) alone() bool {
	if n.link == nil || n.run.Latest().Boot.Sub(n.began) < refusalLasts {
		return false
	}
	voters := n.voters()
	for _, p := range n.link.Peers() {
		r := n.refusals[p.ID]
		if r.Refusal != nil && r.Final || !has(voters, p.ID) {
			continue
		}
		if p.Connected || p.LastHeard != 0 && clock.Boot(n.run.Latest().Boot).Sub(p.LastHeard) < max(refusalLasts, 3*n.plan.Promise) {
			return false
		}
	}
	return true
}

// refusers lists the voters, and unlisted callers, that refuse this node, and each reason once; "" if none does.
func (n *Node) refusers(which func(refusal) bool) string {
	var texts []string
	also := map[int][]protocol.NodeID{}
	first := map[wire.Code]int{}
	all := ids(n.voters())
	for _, id := range slices.SortedFunc(maps.Keys(n.refusals), protocol.NodeID.Compare) {
		if !slices.Contains(all, id) && !has(n.observers(), id) {
			all = append(all, id) // a caller that is not known here
		}
	}
	for _, id := range all {
		r := n.refusals[id]
		if r.Refusal == nil || !which(r) || id == n.cfg.ID {
			continue
		}
		if at, told := first[r.Code]; told {
			also[at] = append(also[at], id)
			continue
		}
		first[r.Code] = len(texts)
		texts = append(texts, fmt.Sprintf("%s refuses this node: %s", id, r.Says))
	}
	for at, more := range also {
		refuse := "refuse"
		if len(more) == 1 {
			refuse = "refuses"
		}
		texts[at] += fmt.Sprintf(" (%s %s it too)", list(more), refuse)
	}
	return strings.Join(texts, "; ")
}

// removed reports whether this node takes no part any more, as it knows itself or was told.
func (n *Node) removed() bool {
	for _, r := range n.refusals {
		if r.Code == wire.CodeRemoved {
			return true
		}
	}
	return false
}

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
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/wire"
)

// A refusal is repeated at each attempt to connect, at least about every second. One that is not repeated is
// forgotten: the node that sent it is gone, or has changed its mind and is not heard for another reason.
const (
	refusalLasts  = 10 * time.Second // and at least three promises
	refusalRepeat = 3 * time.Second  // after this time, another failure of the connection tells more
)

// refusals are what other nodes, and this one itself, have against its part in the election. Turns own them.
type refusals struct {
	*membership
	contacts *contacts
	run      *runtime.Runner
	from     map[protocol.NodeID]refusal
}

// refusal is a participant's last refusal of this node's Hello, or this node's own.
type refusal struct {
	*wire.Refusal
	at protocol.Instant
}

func (rs *refusals) refuse(by protocol.NodeID, r *wire.Refusal) {
	rs.from[by] = refusal{r, rs.run.Latest().Boot}
	if rs.run.Waits() {
		if err := rs.hopeless(); err != nil {
			rs.run.Reject(err)
		}
	}
}

// admitted forgets a refusal, and logs that at the level of the refusal.
func (rs *refusals) admitted(by protocol.NodeID) {
	if rs.from[by].Refusal == nil {
		return
	}
	level := slog.LevelWarn
	if rs.cfg.Join && !rs.from[by].Final {
		level = slog.LevelInfo
	}
	delete(rs.from, by)
	rs.log.Log(context.Background(), level, "this node is refused no more", "by", by)
}

// forget drops the refusals that were not repeated. What this node has found out by itself stays.
func (rs *refusals) forget() {
	lasts := max(refusalLasts, 3*rs.plan.Promise)
	otherwise := false
	for by, r := range rs.from {
		age := rs.run.Latest().Boot.Sub(r.at)
		switch {
		case by == rs.cfg.ID:
		case age > lasts:
			delete(rs.from, by)
		case age > refusalRepeat:
			otherwise = true
		}
	}
	if !otherwise {
		return
	}
	for _, p := range rs.contacts.Peers() {
		r := rs.from[p.ID]
		if _, same := errors.AsType[*wire.Refusal](p.Err); r.Refusal != nil && !same && (p.Connected || p.Err != nil) && rs.run.Latest().Boot.Sub(r.at) > refusalRepeat {
			delete(rs.from, p.ID)
		}
	}
}

// hopeless returns an error if this node cannot be elected as it is: by what it knows itself, or because so many
// voters refuse it for good that the rest, itself included, is no majority. Fewer may be wrong themselves, and are no
// reason to stop while a majority elects. Observers do not vote, so their refusals do not count.
func (rs *refusals) hopeless() error {
	rs.forget()
	if own := rs.from[rs.cfg.ID]; own.Refusal != nil && own.Final {
		return driver.Permanent(errors.New(own.Says))
	}
	final := func(r refusal) bool { return r.Final }
	voters := ids(rs.voters())
	count, forgot, moved := 0, false, false
	for by, r := range rs.from {
		if r.Final && slices.Contains(voters, by) {
			count++
		}
		forgot = forgot || r.Final && r.Code == wire.CodeDirectory
		moved = moved || r.Final && (r.Code == wire.CodeRemoved || !slices.Contains(voters, by))
	}
	// A voter that is missing in a newer membership was removed by a majority of the one that it knows. So those of them
	// that know the newer one leave no majority to the rest. If the voters that it knows are gone for good too, only
	// other nodes may be left to say so.
	if len(voters)-count > len(voters)/2 && !(moved && rs.alone()) {
		return nil
	}
	text := rs.refusers(final)
	if forgot {
		text += ". " + rs.dialect.remedy()
	}
	return driver.Permanent(errors.New(text))
}

// alone reports whether, for as long as a refusal is remembered, only nodes were heard that refuse this node for
// good.
func (rs *refusals) alone() bool {
	if rs.run.Latest().Boot.Sub(rs.began) < refusalLasts {
		return false
	}
	voters := rs.voters()
	for _, p := range rs.contacts.Peers() {
		r := rs.from[p.ID]
		if r.Refusal != nil && r.Final || !has(voters, p.ID) {
			continue
		}
		if p.Connected || p.LastHeard != 0 && clock.Boot(rs.run.Latest().Boot).Sub(p.LastHeard) < max(refusalLasts, 3*rs.plan.Promise) {
			return false
		}
	}
	return true
}

// refusers lists the voters, and unlisted callers, that refuse this node, and each reason once; "" if none does.
func (rs *refusals) refusers(which func(refusal) bool) string {
	var texts []string
	also := map[int][]protocol.NodeID{}
	first := map[wire.Code]int{}
	all := ids(rs.voters())
	for _, id := range slices.SortedFunc(maps.Keys(rs.from), protocol.NodeID.Compare) {
		if !slices.Contains(all, id) && !has(rs.observers(), id) {
			all = append(all, id) // a caller that is not known here
		}
	}
	for _, id := range all {
		r := rs.from[id]
		if r.Refusal == nil || !which(r) || id == rs.cfg.ID {
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
func (rs *refusals) removed() bool {
	for _, r := range rs.from {
		if r.Code == wire.CodeRemoved {
			return true
		}
	}
	return false
}

// advice says what to do if other voters know this node by another directory, but too few to end its campaign for
// good while the rest is silent; for people.
func (rs *refusals) advice() string {
	for by, r := range rs.from {
		if by != rs.cfg.ID && r.Final && r.Code == wire.CodeDirectory {
			return ". " + rs.dialect.remedy()
		}
	}
	return ""
}

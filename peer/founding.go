package peer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/wire"
)

// Founding binds the voters to their data directories, once. A voter is its id
// and its directory: one with an empty disk has forgotten its votes and its
// promises, and must not be taken for the one that made them.
//
// Two voters that meet each pin the other's directory durably, and send a Welcome. A voter that all others have
// welcomed is founded: its machine boots, and from then on it votes. So before a voter can vote for the first time,
// every other one knows its directory for good and refuses any other under its id. A voter that crashes before it is
// founded begins again, with the existing pins.
//
// A voter needs the welcomes of all, even if one of them comes with the membership of a founded voter. That voter
// knows that all have pinned it, but not that all have pinned this one.
//
// After the founding the membership binds, and pins count no more. A node has a vote in a membership of a version
// above 1 only because a leader gave it: the leader asked the process of that very directory for its id, and a
// majority saved the membership (R15). Such a node boots with that membership, however it was configured: it may have
// waited to join, or have met the founders and been gone when they were founded. That membership need not be the
// newest. With an older one the node is like a voter that was cut off since then. Its votes are those of an older
// membership, and elect no leader once a newer one is settled.
//
// A node that waits to join founds nothing, pins nothing, and is never pinned. Two nodes that are not founded do not
// talk if one of them waits to join, so that its Welcome is never taken for a pin.

// founding decides who may enter the election at this node, founds it, and finds out if it was founded a second time.
type founding struct {
	*membership
	contacts *contacts
	refusals *refusals
	run      *runtime.Runner
	dir      *disk.Dir
	boot     func(ms *protocol.Membership, durable []byte) error // starts the machine

	apart atomic.Bool // this node takes no part any more, see apart.go
	voids sync.WaitGroup

	// Owned by turns.
	welcomes map[protocol.NodeID]*protocol.Membership
	// the promises of other nodes when they lead, if different from this node's
	promises map[protocol.NodeID]time.Duration
	rivals   map[protocol.NodeID]protocol.ConfigID // callers with a changed membership, see apart.go
	lone     *time.Timer                           // nil: not too early to found alone, or not checked yet
}

// admit decides whether a node, or a witness on its behalf, may enter the election. The links' goroutines call it,
// and it may wait for the disk.
func (f *founding) admit(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
	final := func(code wire.Code, format string, args ...any) (*wire.Welcome, *wire.Refusal) {
		return nil, &wire.Refusal{Code: code, Final: true, Says: fmt.Sprintf(format, args...)}
	}
	welcome := &wire.Welcome{Program: f.cfg.Program}
	switch {
	case caller == wire.Node && e.Protocol != f.cfg.spoken():
		return final(wire.CodeProtocol, "%s elects by protocol=%s, and the caller, %s, by protocol=%s; want one protocol at every participant",
			f.cfg.ID, f.dialect.protocol(), from, cmp.Or(e.Protocol, quorum.Name))
	case caller == wire.WitnessOf && f.dialect.lacks(witnesses) != nil:
		return final(wire.CodeProtocol, "%s elects by protocol=%s, and what a witness has to say, that a lease is over, means nothing there", f.cfg.ID, f.dialect.protocol())
	case from == f.cfg.ID:
		if caller == wire.WitnessOf {
			return final(wire.CodeIdentity, "a witness of %s speaks to the others, not to %s", from, from)
		}
		return final(wire.CodeIdentity, "%s called itself: two participants have one id, or an address in the list is that of another", from)
	}
	if caller == wire.Node && e.Era != f.cfg.Era {
		// The era is raised at one node after the other. Meanwhile nodes of one era do not elect with those of another: a
		// leader of the smaller era could follow one of the greater.
		return nil, &wire.Refusal{Code: wire.CodeEra, Says: fmt.Sprintf("%s is in era %d of tokens, and %s in era %d; want era=%d at every participant", f.cfg.ID, f.cfg.Era, from, e.Era, max(e.Era, f.cfg.Era))}
	}
	if caller == wire.Node {
		if f.apart.Load() {
			return nil, f.noPart()
		}
		held := e.Held
		f.run.Do(func() { f.called(from, held) })
	}
	ms := f.membership.Load()
	voter, refusal := false, (*wire.Refusal)(nil)
	if ms != nil {
		voter, refusal = f.admitTo(ms, from, e, caller)
	} else {
		voter, refusal = f.admitUnfounded(from, e, caller)
	}
	if refusal != nil {
		return nil, refusal
	}
	if caller == wire.Node && voter {
		promise := e.Promise
		f.run.Do(func() { f.compare(from, promise) })
	}
	welcome.Membership = ms
	return welcome, nil
}

// admitTo is admit of a founded node: its membership decides, and not its URL.
//
// A caller with a newer membership is let in although this node's membership does not have it: this node is behind,
// and learns from the caller's messages. The caller has put this node to the same question, so this node is in that
// newer membership, with this directory, if the connection becomes complete. That the caller does not lie follows
// from its certificate, or from the trust that holds without one.
func (f *founding) admitTo(ms *protocol.Membership, from protocol.NodeID, e *wire.Enter, caller wire.Caller) (voter bool, _ *wire.Refusal) {
	newer := caller == wire.Node && e.Held.Compare(ms.ID()) > 0
	// A version 1 comes before all others, whatever its term, if it is of the same founding. apart.go says what it means
	// if it is not.
	founders, later := ms.Version <= 1 && e.Held.Version > 1, ms.Version > 1 && e.Held.Version <= 1
	i := ms.Index(from)
	switch {
	case i >= 0 && ms.Voters[i].Dir == e.Dir, newer && (i < 0 || !later):
		return i >= 0, nil
	case i < 0 && founders && caller == wire.Node:
		return false, nil // its answer to this node tells which one is right
	case i >= 0:
		return true, f.another(from, e, ms.Voters[i].Dir)
	case slices.Contains(ms.Observers, from):
		return false, nil
	case e.Held == protocol.ConfigID{}:
		first := "start it with join=true, and "
		if e.Join {
			first = ""
		}
		return false, &wire.Refusal{Code: wire.CodeUnknown, Final: !e.Join, Says: fmt.Sprintf(
			"%s is not in membership %v, which has %s: %srun elect member add %s@HOST:PORT", from, ms.ID(), who(ms), first, from)}
	}
	r := outside(ms, from, e.Join)
	r.Final = !e.Join
	return false, r
}

// admitUnfounded is admit of a node that is not yet founded.
func (f *founding) admitUnfounded(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (voter bool, _ *wire.Refusal) {
	founded := e.Held != protocol.ConfigID{}
	voter = has(f.cfg.Voters, from)
	switch {
	case caller == wire.Node && !founded && (f.cfg.Join || e.Join):
		waits, other := from, f.cfg.ID
		if f.cfg.Join {
			waits, other = other, waits
		}
		return voter, &wire.Refusal{Code: wire.CodeUnfounded, Says: fmt.Sprintf(
			"%s waits to join an election (join=true), and %s is in none yet; if it is to found one with the others, want it started without that", waits, other)}
	case f.cfg.Join && caller == wire.Node:
		// The leader that adds this node calls it, from any address. The node holds nothing yet that a caller could misuse,
		// and boots only with a membership that has it.
		return voter, nil
	case !voter && !has(f.cfg.Observers, from) && !founded:
		return false, &wire.Refusal{Code: wire.CodeUnknown, Final: true, Says: fmt.Sprintf(
			"%s does not list %s; it knows the voters %s and the observers %s", f.cfg.ID, from, list(ids(f.cfg.Voters)), orNone(ids(f.cfg.Observers)))}
	case caller == wire.Node && !founded && !slices.Equal(ids(f.cfg.Voters), e.Voters):
		return voter, &wire.Refusal{Code: wire.CodeVoters, Final: true, Says: fmt.Sprintf(
			"%s has the voters %s, and %s has %s; want the same ones at every participant", f.cfg.ID, list(ids(f.cfg.Voters)), from, list(e.Voters))}
	case voter && e.Held.Version > 1:
		return true, nil // the caller knows which directories count
	case voter:
		return true, f.bind(from, e, caller)
	}
	return false, nil
}

// compare logs once that another voter asks for another promise. That is safe, as when a profile is changed at one
// node after the other, but the longest promise then bounds a takeover. Without a lease there is no promise: the time
// is how long voters wait for a silent leader, and the shortest one counts.
func (f *founding) compare(id protocol.NodeID, promise time.Duration) {
	if promise == f.plan.Promise {
		delete(f.promises, id)
		return
	}
	if f.promises[id] != promise {
		f.promises[id] = promise
		if f.dialect.lacks(leases) != nil {
			f.log.Warn("another voter has other times; a voter that waits for less than a leader's heartbeat interval takes every leader for dead, and may depose it",
				"peer", string(id), "promise", promise, "own", f.plan.Promise)
			return
		}
		f.log.Warn("another voter has other times; a takeover may take as long as the longest promise", "peer", string(id), "promise", promise, "own", f.plan.Promise)
	}
}

// bind holds a voter to its directory before the founding, and pins it if none is
// known yet.
func (f *founding) bind(from protocol.NodeID, e *wire.Enter, caller wire.Caller) *wire.Refusal {
	known, bound := f.dir.Pins()[from]
	if !bound && caller == wire.Node && f.cfg.voter() {
		err := f.dir.Pin(from, e.Dir)
		if known, bound = f.dir.Pins()[from]; !bound {
			f.log.Error("the directory of a voter cannot be pinned", "voter", from, "error", err)
			return &wire.Refusal{Code: wire.CodeBusy, Says: fmt.Sprintf("%s cannot write down the directory of %s: its disk fails", f.cfg.ID, from)}
		}
		f.run.Do(f.found)
	}
	if bound && known != e.Dir {
		return f.another(from, e, known)
	}
	return nil
}

// another refuses a directory other than the one by which a voter is known. The refused node itself logs the remedy,
// once.
func (f *founding) another(from protocol.NodeID, e *wire.Enter, known protocol.DirID) *wire.Refusal {
	return &wire.Refusal{Code: wire.CodeDirectory, Final: !e.Join, Says: fmt.Sprintf(
		"%s knows %s by the data directory %s, and this one is %s: its disk was wiped, or data= is another place",
		f.cfg.ID, from, known, e.Dir)}
}

func orNone(all []protocol.NodeID) string {
	if len(all) == 0 {
		return "none"
	}
	return list(all)
}

// welcomed records that a node has admitted this one and, before the founding, has pinned its directory.
func (f *founding) welcomed(from protocol.NodeID, w *wire.Welcome) {
	f.refusals.admitted(from)
	if f.run.Machine() != nil {
		f.compareNotes(from, w.Membership)
		return
	}
	if known := f.welcomes[from]; known == nil || w.Membership != nil && w.Membership.Compare(known) > 0 {
		f.welcomes[from] = w.Membership
	}
	f.found()
}

// refused records that a node refuses this one.
func (f *founding) refused(by protocol.NodeID, r *wire.Refusal) {
	f.refusals.forget()
	if before := f.refusals.from[by]; before.Refusal == nil || before.Code != r.Code || before.Says != r.Says {
		level := slog.LevelWarn
		if f.cfg.Join && !r.Final {
			level = slog.LevelInfo // it waits, and its own log says so
		}
		f.log.Log(context.Background(), level, "this node is refused", "by", by, "code", string(r.Code), "says", r.Says)
	}
	f.refusals.refuse(by, r)
	if f.run.Machine() != nil && r.Code == wire.CodeDirectory {
		f.parted()
	}
}

// found founds this node if all conditions are met.
func (f *founding) found() {
	if f.run.Machine() != nil || f.apart.Load() {
		return
	}
	ms := f.met()
	if ms == nil || ms.Version <= 1 && ms.Has(f.self) && (f.parted() || f.early()) {
		return
	}
	if err := f.boot(ms, nil); err != nil {
		f.membership.Store(nil)
		f.log.Error("the election cannot begin", "error", err)
		f.refusals.refuse(f.cfg.ID, &wire.Refusal{Code: wire.CodeVoters, Says: err.Error(), Final: true})
	}
}

// met returns the membership with which this node can boot, nil if it cannot yet.
func (f *founding) met() *protocol.Membership {
	newest := (*protocol.Membership)(nil) // of all nodes
	given := (*protocol.Membership)(nil)  // of those in which this node has a place without founding it
	for _, ms := range f.welcomes {
		if ms == nil {
			continue
		}
		if newest == nil || ms.Compare(newest) > 0 {
			newest = ms
		}
		placed := slices.Contains(ms.Observers, f.self.ID) || ms.Version > 1 && ms.Has(f.self)
		if placed && (given == nil || ms.Compare(given) > 0) {
			given = ms
		}
	}
	switch {
	case given != nil:
		return given
	case f.cfg.Join || !f.cfg.voter():
		return nil
	}
	ms := f.cfg.founding()
	pins := f.dir.Pins()
	for i := range ms.Voters {
		v := &ms.Voters[i]
		pinned, welcome := true, true
		if v.Dir = f.self.Dir; v.ID != f.cfg.ID {
			v.Dir, pinned = pins[v.ID]
			_, welcome = f.welcomes[v.ID]
		}
		if !pinned || !welcome {
			return nil
		}
	}
	if newest == nil {
		return ms
	}
	if !slices.Equal(newest.Voters, ms.Voters) {
		f.refusals.refuse(f.cfg.ID, &wire.Refusal{Code: wire.CodeDirectory, Final: true, Says: fmt.Sprintf(
			"the others know the voters %s, and this directory knows %s: it is of another founding. %s", list(newest.Voters), list(ms.Voters), f.dialect.remedy())})
		return nil
	}
	return newest
}

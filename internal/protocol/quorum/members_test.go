package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// made is a membership that exists or existed in a world.
type made struct {
	ms      *protocol.Membership
	changed bool // by a leader, beyond its term
	durable bool // it is or was durable on some node
}

// register notes a membership. It checks that two memberships with one ID are equal, and that a new
// one shares a voter with each majority of the previous one.
func (w *world) register(n *node, ms, from *protocol.Membership) {
	id := ms.ID()
	if was := w.made[id]; was != nil {
		if !alike(was.ms, ms) {
			w.violated(n, "membership %v is %s and %s", id, show(was.ms), show(ms))
		}
		return
	}
	w.made[id] = &made{ms: ms, changed: from != nil}
	for o, was := range w.made {
		if o.Version == id.Version && o.Term < id.Term && alike(was.ms, ms) {
			w.made[id].changed = false // in a later term it is the initial one
		}
	}
	if from == nil {
		return
	}
	if w.made[id].changed {
		w.changes++
	}
	if !from.Overlap(ms) {
		w.violated(n, "makes %s of %s: not all majorities share a voter", show(ms), show(from))
	}
}

func alike(a, b *protocol.Membership) bool {
	return slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Observers, b.Observers) && slices.Equal(a.Addresses, b.Addresses)
}

// watch registers the memberships that a step has brought.
func (n *node) watch() {
	ms, was, w := n.m.ballot.Membership, n.ms, n.w
	if ms != was {
		n.ms, w.stale = ms, true
		if ms != nil {
			w.register(n, ms, was)
			if was != nil && was.Version != ms.Version {
				n.log("has membership %v: %s", ms.ID(), show(ms))
			}
			if m := w.made[ms.ID()]; m.changed && !m.durable {
				w.violated(n, "installs membership %v, which nobody has on disk", ms.ID())
			}
		}
	}
	if n.m.next != nil && w.made[n.m.next.ID()] == nil {
		w.register(n, n.m.next, ms)
	}
}

// write makes data what the disk holds.
func (n *node) write(data []byte) {
	b, err := DecodeBallot(data)
	if err != nil {
		panic(err)
	}
	n.disk, n.ballot, n.w.stale = data, b, true
	m := n.w.made[n.durable().ID()]
	if m == nil {
		n.w.violated(n, "saves a membership that it does not have: %s", show(n.durable()))
		return
	}
	m.durable = true
}

// durable is the membership that the node would start with.
func (n *node) durable() *protocol.Membership {
	if n.disk != nil {
		return n.ballot.Membership
	}
	return n.cfg.Membership
}

// sends checks a message that leaves: what it tells of memberships is durable.
func (n *node) sends(msg *protocol.Message) {
	if m := n.w.made[msg.Membership.ID()]; m.changed && !m.durable {
		n.w.violated(n, "a %s tells of membership %v, which no node has on disk", msg.Type, msg.Membership.ID())
	}
	if msg.Held.Compare(n.durable().ID()) > 0 {
		n.w.violated(n, "a %s says that it has membership %v on disk; it has %v", msg.Type, msg.Held, n.durable().ID())
	}
}

// adjacent checks the memberships that can elect now: any two of them share a voter in every pair
// of majorities. A membership can elect if a node holds it and a majority of its voters has nothing
// newer on disk.
func (w *world) adjacent() {
	if !w.stale {
		return
	}
	w.stale = false
	var live []*protocol.Membership
	for _, n := range w.nodes {
		for _, ms := range [...]*protocol.Membership{n.ms, n.durable()} {
			if ms == nil || slices.ContainsFunc(live, func(o *protocol.Membership) bool { return o.ID() == ms.ID() }) {
				continue
			}
			if w.able(ms, func(o *node) bool { return o.durable().Compare(ms) <= 0 }) {
				live = append(live, ms)
			}
		}
	}
	for i, a := range live {
		for _, b := range live[:i] {
			if !a.Overlap(b) {
				w.violations = append(w.violations, fmt.Sprintf("%v: memberships %v, %s, and %v, %s: both can elect, with no voter in common", w.Now, a.ID(), show(a), b.ID(), show(b)))
			}
		}
	}
}

// able reports whether a majority of a membership's voters exists, with their directories, and
// satisfies wanted.
func (w *world) able(ms *protocol.Membership, wanted func(*node) bool) bool {
	k := 0
	for _, n := range w.nodes {
		if ms.Has(n.cfg.Self) && wanted(n) {
			k++
		}
	}
	return k >= ms.Quorum()
}

// note records what the owner says.
func (n *node) note(in *protocol.Input) {
	if in.Kind != protocol.Do {
		return
	}
	switch t, c := &n.told, in.Command; c.Verb {
	case protocol.Campaign:
		t.candidate = true
		if c.Priority != 0 {
			t.priority = c.Priority
		}
	case protocol.Withdraw:
		t.candidate = false
	case protocol.Sicken, protocol.Recover:
		t.sick = c.Verb == protocol.Sicken
	case protocol.Pause, protocol.Resume:
		t.paused = c.Verb == protocol.Pause
	case protocol.Locate:
		t.position = c.Position
	}
}

// willing checks which candidates a voter votes for: none that never leads, and none that is behind
// where that counts.
func (n *node) willing(in *protocol.Input, fx *protocol.Effects) {
	for _, s := range fx.Sends {
		if s.Message.Type != VoteReply || !s.Message.Granted || in.Kind != protocol.Receive || in.From != s.To {
			continue
		}
		if in.Message.Priority == protocol.NeverLead {
			n.w.violated(n, "votes for %s, which never leads", in.From)
		}
		if n.m.cfg.Position == RequirePosition && n.m.cfg.Compare(in.Message.Position, n.told.position) < 0 {
			n.w.violated(n, "is at %q, and votes for %s, which is at %q", n.told.position, in.From, in.Message.Position)
		}
	}
}

// show is a membership for messages. A voter is shown with its directory unless that is its first
// one.
func show(ms *protocol.Membership) string {
	var all []string
	for _, v := range ms.Voters {
		name := string(v.ID)
		if v.Dir[1] != v.Dir[0] {
			name += fmt.Sprintf("/%d", v.Dir[1])
		}
		all = append(all, name)
	}
	text := []string{"{" + strings.Join(all, ",") + "}"}
	for _, id := range ms.Observers {
		text = append(text, "+"+string(id))
	}
	return strings.Join(text, " ")
}

// wipe empties the disk of a node that is down: the node is another voter from then on.
func (n *node) wipe() {
	n.disk, n.ballot, n.w.stale = nil, Ballot{}, true
	if n.cfg.Self.Dir[1] == n.cfg.Self.Dir[0] {
		n.cfg.Self.Dir[1] = 200
	}
	n.cfg.Self.Dir[1]++
	n.log("has lost its disk")
}

// dispensable reports whether every membership that some node has, or may have after a restart, has
// a majority without this node.
func (n *node) dispensable() bool {
	w := n.w
	for _, o := range w.nodes {
		all := []*protocol.Membership{o.durable()}
		if o.ms != nil {
			all = append(all, o.ms, o.m.next)
		}
		for _, p := range o.pending {
			if b, err := DecodeBallot(p.data); err == nil {
				all = append(all, b.Membership)
			}
		}
		for _, ms := range all {
			if ms != nil && !w.able(ms, func(o *node) bool { return o != n }) {
				return false
			}
		}
	}
	return true
}

// stepTo is the next membership from ms towards the wanted voters, one voter away from ms: unwanted
// voters go first.
func stepTo(ms *protocol.Membership, wanted []protocol.Voter, spare protocol.NodeID) *protocol.Membership {
	next := &protocol.Membership{Voters: slices.Clone(ms.Voters), Observers: slices.Clone(ms.Observers), Addresses: slices.Clone(ms.Addresses)}
	if i := slices.IndexFunc(ms.Voters, func(v protocol.Voter) bool { return v.ID != spare && !slices.Contains(wanted, v) }); i >= 0 {
		next.Voters = slices.Delete(next.Voters, i, i+1)
		return next
	}
	for _, v := range wanted {
		if ms.Index(v.ID) >= 0 {
			continue
		}
		if !slices.Contains(ms.Observers, v.ID) && v.Dir[2]%2 == 0 { // as an observer first
			next.Observers = append(next.Observers, v.ID)
			return next
		}
		next.Observers = slices.DeleteFunc(next.Observers, func(id protocol.NodeID) bool { return id == v.ID })
		next.Voters = append(next.Voters, v)
		slices.SortFunc(next.Voters, func(a, b protocol.Voter) int { return a.ID.Compare(b.ID) })
		return next
	}
	return nil
}

// operate has an operator change the membership, step by step towards a set of voters that changes
// with time; sometimes at random.
func (w *world) operate(pace time.Duration, until time.Duration) {
	r := w.rng
	var wanted []protocol.Voter
	want := func() {
		wanted = nil
		for _, i := range r.Perm(len(w.nodes))[:1+r.IntN(min(len(w.nodes), 7))] {
			wanted = append(wanted, w.nodes[i].cfg.Self)
		}
		slices.SortFunc(wanted, func(a, b protocol.Voter) int { return a.ID.Compare(b.ID) })
	}
	want()
	var tick func()
	tick = func() {
		if w.Now > until {
			return
		}
		w.In(time.Duration(r.Int64N(int64(pace)+1)), tick)
		if r.IntN(12) == 0 {
			want()
		}
		for i, v := range wanted { // a node whose disk was replaced is wanted with its new directory
			j := slices.IndexFunc(w.nodes, func(n *node) bool { return n.cfg.Self.ID == v.ID })
			wanted[i] = w.nodes[j].cfg.Self
		}
		for _, n := range w.nodes {
			if n.up && n.view.Elected {
				next := stepTo(n.ms, wanted, n.cfg.Self.ID)
				switch r.IntN(10) {
				case 0: // whatever it is
					next = &protocol.Membership{Voters: slices.Clone(wanted)}
				case 1: // another address
					next = &protocol.Membership{Voters: n.ms.Voters, Addresses: []protocol.Address{{ID: n.cfg.Self.ID, Addr: fmt.Sprint("host:", r.IntN(9))}}}
				}
				if next != nil {
					n.log("is asked for %s", show(next))
					n.do(protocol.Command{Verb: protocol.Reconfigure, Membership: next})
					if r.IntN(4) == 0 { // and to lead, perhaps before it has learnt of it
						to := next.Voters[r.IntN(len(next.Voters))].ID
						w.In(time.Duration(r.Int64N(int64(200*time.Millisecond))), func() {
							n.do(protocol.Command{Verb: protocol.Transfer, Target: to})
						})
					}
				}
			}
		}
	}
	w.In(100*time.Millisecond, tick)
}

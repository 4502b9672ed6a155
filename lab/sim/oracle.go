package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// oracle checks a run: after every event, by true time, which no participant sees. It never acts on
// the world. Its cost grows with the number of changes of leadership, not with the number of
// events.
type oracle struct {
	processes []processState // by node.index
	tenures   []tenure       // by rising token
	votes     []voteLog      // one for each disk that ever existed
	proven    uint64         // the greatest token that was ever led with
	provenBy  int32          // the node.index of the participant that led with it
	serving   serving
	live      liveness
	members   memberships

	// For the sometimes-properties only.
	restarts  bool
	contested uint64       // a term with two candidates and no winner so far
	former    formerLeader // the last leader that leads no more
	transfer  transfer
}

// stage is the last order of a term.
type stage uint8

const (
	stageNone stage = iota
	stageElected
	stageLeading
)

// processState is the oracle's state of one process: of all its incarnations.
type processState struct {
	stage   stage
	up      bool
	frozen  bool
	renews  bool   // it gave up by itself, and renews its lease until its work is joined
	joining uint64 // a token that was stopped and whose work is not joined yet; 0: none
	token   uint64 // while elected
	votes   int32  // of the disk it has; -1: none yet

	// The proof that Check uses, and the interval of true time, [since, until), in which it holds,
	// whatever the process does in the meantime. The proof of a stopped term counts until its work
	// is joined: the work may act until then, and no participant is told before that the lease is
	// free. It ends for good: a clock that goes back does not make the term any less stopped.
	active       bool
	end          protocol.Instant
	read         protocol.Reading
	since, until Time
	proved       uint64 // the token of the latest such interval
	broken       bool   // a clock ended it, not time

	// The work of a killed process, with this token, may go on until then.
	orphan Time
	parent uint64

	durable Vote // the vote on its disk

	members  *protocol.Membership // as its machine has it
	lastTold *protocol.Membership // that it has sent last
	held     protocol.ConfigID    // of the membership on its disk
	paused   bool                 // its machine was told to pause

	shown shown // what a register's answers showed

	notes notes // for the sometimes-properties
}

// process returns the state of n. That of a twin is made when the twin starts.
func (o *oracle) process(n *node) *processState {
	for n.index >= len(o.processes) {
		o.processes = append(o.processes, processState{votes: -1})
	}
	return &o.processes[n.index]
}

func (o *oracle) clone() oracle {
	c := *o
	c.processes = slices.Clone(o.processes)
	c.tenures = slices.Clone(o.tenures)
	c.members.all = slices.Clone(o.members.all)
	c.votes = slices.Clone(o.votes)
	for i := range c.votes {
		c.votes[i] = o.votes[i].clone()
	}
	return c
}

// electedCounts reports whether a leader counts from its election: where work needs no proven
// lease, or the protocol has none.
func electedCounts(w *World) bool { return w.schedule.Work.NonExclusive || w.protocol.Leaseless }

// stepped is called after every Step, before its effects are carried out.
func (o *oracle) stepped(w *World, n *node, in *protocol.Input, fx *protocol.Effects) {
	s := o.process(n)
	v := &n.view
	back := w.protocol.Store == StoreRegister && s.shown.see(in)
	for i := range fx.Orders {
		o.checkOrder(w, n, s, in, &fx.Orders[i])
	}
	if w.protocol.Store == StoreRegister {
		o.checkRegister(w, n, s, fx, back)
	}
	if v.Elected != (s.stage != stageNone) || v.Active != (s.stage == stageLeading) || v.Elected && v.Token != s.token {
		w.fail(Orders, n, "its view says elected %t, active %t, token %d; what it ordered is %s, token %d", v.Elected, v.Active, v.Token, s.stage, s.token)
	}
	if v.Elected && w.protocol.Store == StoreNone && v.Leader.ID == n.id && v.Leader.Term > s.token {
		o.checkAnchor(w, n, s, v.Leader.Term)
	}
	if s.joining == 0 && (v.Active != s.active || v.Active && (v.LeaseEnd != s.end || v.Read != s.read)) {
		o.prove(w, n, s)
	}
	if s.joining != 0 && s.active && s.until > w.now && v.LeaseEnd > s.end {
		s.end, s.read = v.LeaseEnd, v.Read // it renews until its work has returned
		o.refresh(w, n, s)
	}
	o.notice(w, n, s, in, fx)
	if w.protocol.Members != nil {
		o.checkMembership(w, n, s, fx)
	}
	if w.strict {
		o.checkVotes(w, n, in, fx)
	}
}

// ordered is called for each order as it is carried out.
func (o *oracle) ordered(w *World, n *node, ord *protocol.Order) {
	s := o.process(n)
	switch ord.Kind {
	case protocol.CatchUp:
		w.catchUp(n, ord)
	case protocol.Elected:
		w.work.elected(w, n, ord.Token)
	case protocol.Lead:
		w.work.lead(w, n, ord.Token)
	case protocol.Stop:
		until := s.until
		if s.renews {
			until = never
		}
		w.work.stop(w, n, ord.Token, until)
	}
}

// sent is called when a message leaves.
func (o *oracle) sent(w *World, n *node, m *protocol.Send) {
	w.stats.Messages++
	if p := w.protocol; p.Heartbeat == nil || !p.Heartbeat(&m.Message) {
		w.stats.Electing++
	}
	if w.protocol.Grants != nil {
		o.granted(w, n, m)
	}
	if ms := m.Message.Membership; ms != nil && w.protocol.Members != nil {
		o.checkTold(w, n, ms)
	}
	if m.Message.Handover != nil {
		o.transfer.target = int32(w.index(m.Message.Handover.Target))
	}
	if m.Message.Incarnation != 0 {
		o.process(n).notes.incarnation = m.Message.Incarnation
	}
}

// asked is called when a request to the store leaves.
func (o *oracle) asked(w *World, n *node, a *protocol.Ask) {
	w.stats.Asks++
	looks := a.Op == protocol.KeepAlive
	switch a.Op {
	case protocol.Read, protocol.Watch, protocol.List, protocol.Sync, protocol.WatchEntry, protocol.WatchTouch:
		looks = n.view.Role == protocol.Follower
	}
	if !looks && !n.view.Active {
		w.stats.Electing++
	}
}

// booted is called when an incarnation begins.
func (o *oracle) booted(w *World, n *node) {
	s := o.process(n)
	s.up, s.frozen, s.paused, s.shown = true, false, false, shown{}
	o.findVotes(w, n, s)
	o.noticeBoot(w, s)
}

// died is called when an incarnation has ended, for any reason.
func (o *oracle) died(w *World, n *node) {
	s := o.process(n)
	o.noticeDeath(w, n, s)
	if s.stage != stageNone {
		o.termEnded(w, n, s, formerLeader{died: true})
	}
	s.up, s.frozen, s.joining, s.stage, s.token = false, false, 0, stageNone, 0
	s.active = false
	s.until = min(s.until, w.now)
	o.changed(w)
	w.work.died(w, n)
}

// froze and thawed are called when a process stops running for a while, and when it resumes, before
// it gets any input.
func (o *oracle) froze(w *World, n *node) {
	o.process(n).frozen = true
	o.changed(w)
}

func (o *oracle) thawed(w *World, n *node) {
	s := o.process(n)
	s.frozen = false
	if w.protocol.Leaseless && s.stage != stageNone {
		o.checkSole(w, n, s)
	}
	o.noticeThaw(w, s)
	o.changed(w)
	w.work.thawed(w, n)
}

// clock is called when the rate or offset of n's clocks has changed.
func (o *oracle) clock(w *World, n *node) {
	s := o.process(n)
	if !s.active || s.joining != 0 && s.until <= w.now {
		return
	}
	was, broken := s.until, s.broken
	s.broken = true // what a clock brings back unobserved is no revival
	o.refresh(w, n, s)
	if s.broken = false; s.until <= w.now {
		s.broken = broken || was > w.now
	}
	if was > w.now && s.until < w.trueAt(n, s.end) {
		s.broken = true
		w.seen.add(SawJumpEndsLease)
	}
	w.work.clock(w, n)
}

// event is called for evWork and evWrite.
func (o *oracle) event(w *World, e event) {
	if e.kind == evWrite {
		w.resource.arrive(w, e)
		return
	}
	w.work.event(w, e)
}

// over is called at the end of the run.
func (o *oracle) over(w *World) {
	o.changed(w)
	o.judge(w)
}

var stageNames = [...]string{"nothing", "elected", "elected and leading"}

func (s stage) String() string { return stageNames[s] }

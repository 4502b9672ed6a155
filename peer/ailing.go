package peer

import (
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// ailing has a node whose disk is ill give way: it could not vote, nor win again. A leader needs no disk to renew, so it
// learns by [runtime.Probe] that its disk hangs. Turns own it.
//
// A follower stands aside early, and a leader hands over late and only if another voter would stand. So where the disks
// of all are ill, as on one storage, all know that before a leader that works would give up for nothing. And where
// nobody leads, those whose disks are ill stand after all: an election takes as long as the disks.
type ailing struct {
	*membership
	handover *handover
	run      *runtime.Runner

	ill    bool            // the disk was ill for long enough, and has not been well for long enough
	sick   bool            // as the machine was told
	leader protocol.NodeID // the known one; empty: none
	since  protocol.Instant
}

const (
	// asideAfter is how long a disk is ill before a follower stands aside, and handsAfter before a leader hands over:
	// by then followers with the same trouble have written once ([runtime.Probe]), and stand aside.
	asideAfter = 5 * time.Second
	handsAfter = runtime.Probe + 2*asideAfter

	// asideFor is how long a disk is well before its node stands again or is handed the leadership: one that is ill now
	// and then must not take leadership back and forth.
	asideFor = 15 * time.Minute

	// aloneFor is for how many promises no leader is known before a node stands although its disk is ill.
	aloneFor = 2
)

// survey runs at the end of a turn.
func (a *ailing) survey() {
	now, leader := a.run.Latest().Boot, a.run.View().Leader.ID
	if leader != a.leader || a.since == 0 {
		a.leader, a.since = leader, now
	}
	lasts, past := a.run.Illness()
	if lasts < asideAfter && !a.ill || a.run.Machine() == nil || a.dialect.lacks(transfers) != nil {
		return // the usual case
	}
	switch {
	case lasts >= asideAfter && !a.ill:
		a.ill = true
		a.log.Warn("the disk of the data directory is ill: this node stands aside, and hands over if it leads and another can", "for", lasts.Truncate(time.Second), "limit", runtime.SlowSync)
	case past >= asideFor:
		a.ill = false
		a.log.Warn("the disk of the data directory is well again: this node stands again", "for", past.Truncate(time.Second))
	}
	sick := a.ill
	switch so := now.Sub(a.since); {
	case leader == "":
		sick = sick && so < aloneFor*a.plan.Promise
	case leader == a.cfg.ID && !a.sick: // a new leader does not know yet which others would stand
		sick = sick && min(lasts, so) >= handsAfter && a.handover.eligible("") == nil
	}
	if sick == a.sick {
		return
	}
	verb := protocol.Recover
	if a.sick = sick; sick {
		verb = protocol.Sicken
	}
	a.run.Command(protocol.Command{Verb: verb})
}

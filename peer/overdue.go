package peer

import (
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
)

// NoLeaderKnown is the message of a warning in [Config.Logger]. A node logs it once, with
// the reason, when it has known no leader for longer than a promise. A program that
// shows its users the states of Watch may drop it.
const NoLeaderKnown = "no leader is known"

// overdue records since when no leader is known, and whether that was logged.
type overdue struct {
	since   protocol.Instant // 0: a leader is known
	founded bool             // the election was founded at since; before, the node waited for its founding
	told    bool
}

// tellOverdue logs why no leader is known, once for each period without a leader that
// is longer than a promise. Most programs do not watch the election, and would not
// learn of it.
func (w *watch) tellOverdue(led bool) {
	o := &w.overdue
	founded := w.run.Machine() != nil
	now := w.run.Latest().Boot
	switch {
	case led:
		o.since = 0
		return
	case o.since == 0 || o.founded != founded:
		*o = overdue{since: now, founded: founded}
		return
	case o.told || now.Sub(o.since) <= w.idle() || w.founding.apart.Load():
		return
	}
	o.told = true
	_, cause := w.leaderless(founded && w.contacts.reaches(now))
	if cause == nil {
		cause = w.undecided(now)
	}
	if !founded {
		w.log.Info("the election has not begun", "for", now.Sub(o.since), "cause", cause)
		return
	}
	w.log.Warn(NoLeaderKnown, "for", now.Sub(o.since), "cause", cause)
}

// undecided says, as far as this node can tell, why there is no leader although it may stand and hears a majority.
func (w *watch) undecided(now protocol.Instant) error {
	text := "a majority of the voters is heard, and has elected nobody"
	if w.membership.votes() && !w.run.Waits() {
		text += fmt.Sprintf("; %s does not campaign", w.cfg.ID)
	}
	silent := func(p *link.PeerInfo) bool { return !w.contacts.hears(p, now) }
	voters := w.membership.voters()
	if slices.ContainsFunc(w.contacts.Peers(), func(p link.PeerInfo) bool { return has(voters, p.ID) && silent(&p) }) {
		text += "; not heard: " + w.missing(silent)
	}
	return fmt.Errorf("%s", text)
}

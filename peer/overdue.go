package peer

import (
	"fmt"
	"slices"

	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/protocol"
)

// NoLeaderKnown is the message of a warning in [Config.Logger]: a node writes it, once,
// when it has known no leader for longer than a promise, and says why. A program that
// shows its users the states of Observe may leave it out.
const NoLeaderKnown = "no leader is known"

// overdue is since when no leader is known, and whether the log was told.
type overdue struct {
	since   protocol.Instant // 0: a leader is known
	founded bool             // since then; what is waited for is another thing before
	told    bool
}

// tellOverdue tells the log why no leader is known, once for each time that this lasts
// longer than a promise. Most programs do not watch, and would hear nothing.
func (n *Node) tellOverdue(led bool) {
	o := &n.watch.overdue
	founded := n.machine != nil
	now := n.latest.Boot
	switch {
	case led:
		o.since = 0
		return
	case o.since == 0 || o.founded != founded:
		*o = overdue{since: now, founded: founded}
		return
	case o.told || now.Sub(o.since) <= n.idle() || n.apart.Load():
		return
	}
	o.told = true
	_, cause := n.leaderless(founded && n.reaches(now))
	if cause == nil {
		cause = n.undecided(now)
	}
	if !founded {
		n.log.Info("the election has not begun", "for", now.Sub(o.since), "cause", cause)
		return
	}
	n.log.Warn(NoLeaderKnown, "for", now.Sub(o.since), "cause", cause)
}

// undecided is why nobody leads although this node stands, or might, and hears a
// majority, as far as it can tell.
func (n *Node) undecided(now protocol.Instant) error {
	text := "a majority of the voters is heard, and has elected nobody"
	if n.votes() && n.waiter == nil {
		text += fmt.Sprintf("; %s does not campaign", n.cfg.ID)
	}
	silent := func(p *link.PeerInfo) bool { return !n.hears(p, now) }
	voters := n.voters()
	if slices.ContainsFunc(n.link.Peers(), func(p link.PeerInfo) bool { return has(voters, p.ID) && silent(&p) }) {
		text += "; not heard: " + n.missing(silent)
	}
	return fmt.Errorf("%s", text)
}

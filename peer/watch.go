package peer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/link"
)

// watch is the state of the election as observers see it. While the election is settled, changes show at once. While
// it is not (the node has just started, or was cut off) a change shows after it has lasted: right after a cut the
// first messages may be old. Turns own it.
type watch struct {
	*membership
	contacts *contacts
	refusals *refusals
	founding *founding
	leaders  *leaders
	pausing  *pausing
	locator  *locator
	run      *runtime.Runner

	settled bool
	known   bool                // there has been a state
	shown   protocol.Leadership // of the latest state
	as      leadership
	last    *driver.Leader // the last leader shown; kept while none is known
	cause   string
	since   protocol.Instant // when the present view began
	what    protocol.Leadership
	reach   bool
	overdue overdue
}

// survey derives the state for observers, and returns when to look again.
func (w *watch) survey() protocol.Instant {
	now := w.run.Latest().Boot
	lead, reach := protocol.Leadership{}, false
	if w.run.Machine() != nil {
		lead = w.run.View().Leader
	}
	w.tellOverdue(lead.ID != "")
	if lead.ID != "" && w.settled && lead == w.shown && w.leaders.of(lead).same(w.as) && w.cause == "" {
		return protocol.Never // the usual case
	}
	if lead.ID == "" {
		reach = w.contacts.reaches(now)
	}
	if lead != w.what || reach != w.reach || w.since == 0 {
		w.what, w.reach, w.since = lead, reach, now
	}
	hold := w.hold(lead, reach)
	switch shows := w.since.Add(hold); {
	case now < shows && lead.ID == "":
		return min(shows, now.Add(w.plan.Heartbeat))
	case now < shows:
		return shows
	case lead.ID != "":
		w.settled = true
		w.show(lead, w.leaders.of(lead))
		return protocol.Never
	}
	w.settled = reach
	w.showNobody(w.leaderless(reach))
	return now.Add(w.plan.Heartbeat) // nothing notifies the loss of a majority
}

// standsNot is why this node does not stand, for people, when there is no leader.
func (w *watch) standsNot() error {
	if w.pausing.isPaused() {
		return w.errPaused()
	}
	return w.locator.placeless()
}

// leaderless is why no leader is known, and whether there may be one all the same. The cause is nil if a majority is
// heard and this node stands.
func (w *watch) leaderless(reach bool) (stale bool, cause error) {
	if reach {
		return false, w.standsNot()
	}
	w.refusals.forget()
	switch {
	case w.run.Machine() == nil && w.cfg.Join:
		return true, w.unjoined() // the others may have a leader
	case w.run.Machine() == nil && w.cfg.voter():
		return false, w.unfounded()
	}
	return true, w.unreachable(w.run.Latest().Boot)
}

// hold is how long a view has to last before it is shown.
func (w *watch) hold(lead protocol.Leadership, reach bool) time.Duration {
	switch {
	case w.settled && lead.ID == "" && w.leaders.silence && w.shown.ID != "":
		return 2 * w.plan.Heartbeat // nodes that are cut off have not been heard for a promise by then
	case w.settled, lead.ID == w.cfg.ID:
		return 0
	case lead.ID == "" && !reach:
		if w.known {
			return 0
		}
		return w.idle()
	case w.known && lead.ID != "":
		return w.plan.Heartbeat
	case w.known:
		return w.idle()
	case lead.ID != "":
		return 0
	}
	return 2 * w.plan.Heartbeat
}

func (w *watch) show(lead protocol.Leadership, as leadership) {
	w.known, w.shown, w.as, w.cause = true, lead, as, ""
	w.last = &driver.Leader{ID: string(lead.ID), Token: w.run.Token(as.token), Metadata: maps.Clone(as.metadata), NoLease: w.dialect.lacks(leases) != nil}
	if as.since != 0 {
		w.last.Since = time.Unix(0, as.since)
	}
	w.run.States().Set(driver.State{Leader: w.last})
}

func (w *watch) showNobody(stale bool, cause error) {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	if w.known && w.shown.ID == "" && w.cause == text && (stale || w.last == nil) {
		return
	}
	w.known, w.shown, w.cause = true, protocol.Leadership{}, text
	if !stale {
		w.last = nil
	}
	w.run.States().Set(driver.State{Leader: w.last, Stale: stale, Cause: cause})
}

// unfounded says for which voters the first start waits, for people.
func (w *watch) unfounded() error {
	missing := w.missing(func(p *link.PeerInfo) bool {
		_, welcome := w.founding.welcomes[p.ID]
		return !welcome
	})
	if says := w.refusals.refusers(func(refusal) bool { return true }); says != "" {
		return fmt.Errorf("%s; waiting for %s%s", says, missing, w.refusals.advice())
	}
	if len(w.voters()) == 1 {
		return fmt.Errorf("one voter waits %v, the first time, for others who know it", max(loneFounder, w.plan.Promise))
	}
	return fmt.Errorf("the first start of an election needs all its voters: waiting for %s", missing)
}

// unjoined says what a node waits for that is to be added, for people.
func (w *watch) unjoined() error {
	text := fmt.Sprintf("%s waits until it is added (join=true): run elect member add %s, or elect member replace %s for a disk that was lost", w.cfg.ID, w.cfg.here(), w.cfg.ID)
	if says := w.refusals.refusers(func(refusal) bool { return true }); says != "" {
		text += "; " + says
	}
	return errors.New(text)
}

// unreachable says why nothing is known, for people.
func (w *watch) unreachable(now protocol.Instant) error {
	if w.cfg.Join && w.refusals.removed() {
		return w.unjoined()
	}
	missing := w.missing(func(p *link.PeerInfo) bool { return w.run.Machine() == nil || !w.contacts.hears(p, now) })
	says := w.refusals.refusers(func(refusal) bool { return true })
	if says != "" {
		says += "; "
	}
	if w.run.Machine() == nil {
		return fmt.Errorf("%w: %sno voter has told who takes part: waiting for %s", driver.ErrUnreachable, says, missing)
	}
	return fmt.Errorf("%w: %sno majority of the voters was heard for %v: waiting for %s%s", driver.ErrUnreachable, says, w.idle(), missing, w.refusals.advice())
}

// missing lists voters, each with the known reason. The reasons of those that refuse this node come first, once.
func (w *watch) missing(is func(*link.PeerInfo) bool) string {
	var all []string
	voters := w.voters()
	for _, p := range w.contacts.Peers() {
		if !has(voters, p.ID) || !is(&p) {
			continue
		}
		text := string(p.ID)
		if p.Err != nil && w.refusals.from[p.ID].Refusal == nil {
			text = fmt.Sprintf("%s (%v)", p.ID, p.Err)
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "the others to be founded"
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

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
	w.log.Warn(runtime.NoLeaderKnown, "for", now.Sub(o.since), "cause", cause)
}

// undecided says, as far as this node can tell, why there is no leader although it may stand and hears a majority.
func (w *watch) undecided(now protocol.Instant) error {
	text := "a majority of the voters is heard, and has elected nobody"
	if w.votes() && !w.run.Waits() {
		text += fmt.Sprintf("; %s does not campaign", w.cfg.ID)
	}
	silent := func(p *link.PeerInfo) bool { return !w.contacts.hears(p, now) }
	voters := w.voters()
	if slices.ContainsFunc(w.contacts.Peers(), func(p link.PeerInfo) bool { return has(voters, p.ID) && silent(&p) }) {
		text += "; not heard: " + w.missing(silent)
	}
	return fmt.Errorf("%s", text)
}

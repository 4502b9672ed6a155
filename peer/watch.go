package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// leadership is what a leader's heartbeats say of it.
type leadership struct {
	incarnation, term uint64
	token             uint64 // its count; after a stranded victory below the term
	since             int64  // unix, in nanoseconds; 0 is unknown
	raw               string // the metadata, encoded
	metadata          map[string]string
}

// noteLeader records the contents of a heartbeat. The machine decides whether its sender leads.
func (n *Node) noteLeader(from protocol.NodeID, l *runtime.Letter) {
	msg := &l.Message
	known := n.leaders[from]
	if known.incarnation == msg.Incarnation && known.term == msg.Term && known.raw == msg.Metadata && known.token == l.Token && known.since == l.Since {
		return
	}
	fresh := leadership{incarnation: msg.Incarnation, term: msg.Term, token: l.Token, since: l.Since, raw: msg.Metadata}
	if known.raw == fresh.raw {
		fresh.metadata = known.metadata
	} else if err := json.Unmarshal([]byte(msg.Metadata), &fresh.metadata); err != nil {
		n.log.Debug("metadata of a leader that is none", "leader", from, "error", err)
	}
	if fresh.token == 0 {
		fresh.token = msg.Term
	}
	n.leaders[from] = fresh
}

// remember notes the events of a new view.
func (n *Node) remember(in *protocol.Input, before *protocol.View) {
	if before.Active {
		n.leaseEnd = before.LeaseEnd
	}
	l := n.run.View().Leader
	if l.ID == "" && before.Leader.ID != "" {
		said := in.Kind == protocol.Do || in.Kind == protocol.Receive && in.From == before.Leader.ID
		n.watch.silence = !said
	}
	if l == before.Leader || l.ID == "" || l.ID == n.cfg.ID {
		return
	}
	n.lastCount = n.leading(l).token
	token := n.run.Token(n.lastCount)
	n.notes.put(disk.History{At: time.Now(), Event: "follows", Leader: l.ID, Token: token})
	n.log.Info("follows", "leader", l.ID, "token", token)
}

// leading returns what a leader has said of itself.
func (n *Node) leading(l protocol.Leadership) leadership {
	known := n.leaders[l.ID]
	if l.ID == n.cfg.ID {
		known = n.own
		known.term = l.Term
	}
	if known.token != l.Term && (known.incarnation != l.Incarnation || known.term != l.Term) {
		return leadership{incarnation: l.Incarnation, term: l.Term, token: l.Term}
	}
	return known
}

// watch is the state of the election as observers see it. While the election is settled, changes show at once. While
// it is not (the node has just started, or was cut off) a change shows after it has lasted: right after a cut the
// first messages may be old.
type watch struct {
	settled bool
	known   bool                // there has been a state
	shown   protocol.Leadership // of the latest state
	as      leadership
	last    *driver.Leader // the last leader shown; kept while none is known
	cause   string
	since   protocol.Instant // when the present view began
	what    protocol.Leadership
	reach   bool
	silence bool // the known leader fell silent without a farewell
	overdue overdue
}

// survey derives the state for observers, and returns when to look again.
func (n *Node) survey() protocol.Instant {
	w := &n.watch
	now := n.run.Latest().Boot
	lead, reach := protocol.Leadership{}, false
	if n.run.Machine() != nil {
		lead = n.run.View().Leader
	}
	n.tellOverdue(lead.ID != "")
	if lead.ID != "" && w.settled && lead == w.shown && n.leading(lead).same(w.as) && w.cause == "" {
		return protocol.Never // the usual case
	}
	if lead.ID == "" {
		reach = n.reaches(now)
	}
	if lead != w.what || reach != w.reach || w.since == 0 {
		w.what, w.reach, w.since = lead, reach, now
	}
	hold := n.hold(lead, reach)
	switch shows := w.since.Add(hold); {
	case now < shows && lead.ID == "":
		return min(shows, now.Add(n.plan.Heartbeat))
	case now < shows:
		return shows
	case lead.ID != "":
		w.settled = true
		n.show(lead, n.leading(lead))
		return protocol.Never
	}
	w.settled = reach
	n.showNobody(n.leaderless(reach))
	return now.Add(n.plan.Heartbeat) // nothing notifies the loss of a majority
}

// leaderless is why no leader is known, and whether there may be one all the same. The cause is nil if a majority is
// heard and this node stands.
func (n *Node) leaderless(reach bool) (stale bool, cause error) {
	switch {
	case reach:
		return false, n.standsNot()
	case n.run.Machine() == nil && n.cfg.Join:
		return true, n.unjoined() // the others may have a leader
	case n.run.Machine() == nil && n.cfg.voter():
		return false, n.unfounded()
	}
	return true, n.unreachable(n.run.Latest().Boot)
}

// hold is how long a view has to last before it is shown.
func (n *Node) hold(lead protocol.Leadership, reach bool) time.Duration {
	w := &n.watch
	switch {
	case w.settled && lead.ID == "" && w.silence && w.shown.ID != "":
		return 2 * n.plan.Heartbeat // nodes that are cut off have not been heard for a promise by then
	case w.settled, lead.ID == n.cfg.ID:
		return 0
	case lead.ID == "" && !reach:
		if w.known {
			return 0
		}
		return n.idle()
	case w.known && lead.ID != "":
		return n.plan.Heartbeat
	case w.known:
		return n.idle()
	case lead.ID != "":
		return 0
	}
	return 2 * n.plan.Heartbeat
}

func (l leadership) same(o leadership) bool {
	return l.token == o.token && l.since == o.since && l.raw == o.raw
}

func (n *Node) show(lead protocol.Leadership, as leadership) {
	w := &n.watch
	w.known, w.shown, w.as, w.cause = true, lead, as, ""
	w.last = &driver.Leader{ID: string(lead.ID), Token: n.run.Token(as.token), Metadata: maps.Clone(as.metadata), NoLease: n.dialect.lacks(leases) != nil}
	if as.since != 0 {
		w.last.Since = time.Unix(0, as.since)
	}
	n.run.States().Set(driver.State{Leader: w.last})
}

func (n *Node) showNobody(stale bool, cause error) {
	w := &n.watch
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
	n.run.States().Set(driver.State{Leader: w.last, Stale: stale, Cause: cause})
}

// reaches reports whether a majority of the voters, this one included, was heard within a promise.
func (n *Node) reaches(now protocol.Instant) bool {
	if n.run.Machine() == nil {
		return false
	}
	heard := 0
	if n.votes() {
		heard++
	}
	voters := n.voters()
	for _, p := range n.link.Peers() {
		if has(voters, p.ID) && n.hears(&p, now) {
			heard++
		}
	}
	if !n.dialect.majority() {
		return true // this node alone is enough
	}
	return heard > len(voters)/2
}

func (n *Node) hears(p *link.PeerInfo, now protocol.Instant) bool {
	return p.LastHeard != 0 && clock.Boot(now).Sub(p.LastHeard) < n.idle()
}

// unfounded says for which voters the first start waits, for people.
func (n *Node) unfounded() error {
	n.forget()
	missing := n.missing(func(p *link.PeerInfo) bool {
		_, welcome := n.welcomes[p.ID]
		return !welcome
	})
	if says := n.refusers(func(refusal) bool { return true }); says != "" {
		return fmt.Errorf("%s; waiting for %s%s", says, missing, n.advice())
	}
	if len(n.voters()) == 1 {
		return fmt.Errorf("one voter waits %v, the first time, for others who know it", max(loneFounder, n.plan.Promise))
	}
	return fmt.Errorf("the first start of an election needs all its voters: waiting for %s", missing)
}

// advice says what to do if other voters know this node by another directory, but too few to end its campaign for
// good while the rest is silent; for people.
func (n *Node) advice() string {
	for by, r := range n.refusals {
		if by != n.cfg.ID && r.Final && r.Code == wire.CodeDirectory {
			return ". " + n.dialect.remedy()
		}
	}
	return ""
}

// unjoined says what a node waits for that is to be added, for people.
func (n *Node) unjoined() error {
	n.forget()
	text := fmt.Sprintf("%s waits until it is added (join=true): run elect member add %s, or elect member replace %s for a disk that was lost", n.cfg.ID, n.here(), n.cfg.ID)
	if says := n.refusers(func(refusal) bool { return true }); says != "" {
		text += "; " + says
	}
	return errors.New(text)
}

// here is this node with the address at which others find it, for people.
func (n *Node) here() string {
	if p := find(slices.Concat(n.cfg.Voters, n.cfg.Observers), n.cfg.ID); p != nil && p.Addr != "" {
		return p.String()
	}
	return string(n.cfg.ID) + "@HOST:PORT"
}

// unreachable says why nothing is known, for people.
func (n *Node) unreachable(now protocol.Instant) error {
	n.forget()
	if n.cfg.Join && n.removed() {
		return n.unjoined()
	}
	missing := n.missing(func(p *link.PeerInfo) bool { return n.run.Machine() == nil || !n.hears(p, now) })
	says := n.refusers(func(refusal) bool { return true })
	if says != "" {
		says += "; "
	}
	if n.run.Machine() == nil {
		return fmt.Errorf("%w: %sno voter has told who takes part: waiting for %s", driver.ErrUnreachable, says, missing)
	}
	return fmt.Errorf("%w: %sno majority of the voters was heard for %v: waiting for %s%s", driver.ErrUnreachable, says, n.idle(), missing, n.advice())
}

// missing lists voters, each with the known reason. The reasons of those that refuse this node come first, once.
func (n *Node) missing(is func(*link.PeerInfo) bool) string {
	var all []string
	voters := n.voters()
	for _, p := range n.link.Peers() {
		if !has(voters, p.ID) || !is(&p) {
			continue
		}
		switch {
		case n.refusals[p.ID].Refusal != nil:
			all = append(all, string(p.ID))
		case p.Err != nil:
			all = append(all, fmt.Sprintf("%s (%v)", p.ID, p.Err))
		default:
			all = append(all, string(p.ID))
		}
	}
	if len(all) == 0 {
		return "the others to be founded"
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// look is a snapshot of what a node shows of itself.
type look struct {
	View        protocol.View // the zero View before the election is founded
	State       driver.State  // what observers are shown; stale, with a cause, while nothing is known
	Incarnation uint64
	Started     time.Time
	Membership  *protocol.Membership // the newest known one; nil if not founded
	LeaseLeft   time.Duration
	Owes        time.Duration
	Counters    Counters
	Peers       []link.PeerInfo
}

var errJustStarted = errors.New("this node has just started and has not heard from the others yet")

// look may be called by any goroutine.
func (n *Node) look() look {
	l := look{
		Incarnation: n.run.Incarnation(), Started: n.started, Membership: n.membership.Load(),
		Peers: n.link.Peers(),
	}
	c := n.run.Counters()
	l.Counters = Counters{
		Elections: c.Elections, Saves: c.Saves, SaveSlowest: c.SaveSlowest, ClockJumps: c.ClockJumps, Pauses: c.Pauses, LongestPause: c.LongestPause,
	}
	if n.recorder.Load() != nil {
		l.Counters.FlightGaps = n.recorder.Load().Gaps()
	}
	version := uint64(0)
	if l.State, version, _, _ = n.run.States().Get(); version == 0 {
		l.State = driver.State{Stale: true, Cause: errJustStarted}
	}
	if v := n.run.Seen(); v != nil {
		l.View = *v
		now := n.run.Now()
		if v.Proven(now) {
			l.LeaseLeft = v.LeaseEnd.Sub(now.Boot)
		}
		if v.OwesUntil > now.Boot {
			l.Owes = v.OwesUntil.Sub(now.Boot)
		}
	}
	return l
}

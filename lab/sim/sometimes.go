package sim

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Sometimes is a situation that at least one run of a suite has to reach. A suite that never
// reaches it has shown nothing about it, and fails.
type Sometimes uint8

// The situations. Says describes each of them.
const (
	SawElected Sometimes = iota
	SawProven
	SawLeaderChanged
	SawWonAndWaited
	SawWonTooLate
	SawWinnerStopped
	SawWinnerDied
	SawSplitVote
	SawTwoElected
	SawSuperseded
	SawReanchored
	SawCrashTakeover
	SawElectedEarly
	SawWitnessed
	SawCutOff
	SawFrozenPastLease
	SawThawedInTime
	SawFrozenInWork
	SawStaleRefused
	SawLateWrite
	SawOverrun
	SawDrained
	SawDiedJoining
	SawJumpEndsLease
	SawDiedUnsaved
	SawSaveFailed
	SawBackInLease
	SawWipedReturns
	SawResigned
	SawReproven
	SawOldLife
	SawFalseAlarm
	SawUnknownOutcome
	SawUnknownWin
	SawLostAfterUnknown
	SawConditionFailed
	SawEntryGone
	SawWatchEnded
	SawThrottled
	SawLateAnswer
	SawSettled
	SawSettledInPart
	SawTransferRaced
	SawSuccessorDied
	SawHandedOver
	SawOutranked
	SawHeldBack
	SawCaughtUp
	SawChangeRefused
	SawChangedInPartition
	SawDeposedUnsettled
	SawReadmitted
	SawPromotedVotes
	SawAllReplaced
	SawRevokedEarly
	SawRenewedInVain
	SawTwinReplaced
	SawTwinRefused
	SawRolledBack
	SawWentBack

	sometimesCount
)

// applies reports whether runs of a protocol have to reach a situation.
type applies func(p *Protocol) bool

func ofAll(*Protocol) bool         { return true }
func ofLeases(p *Protocol) bool    { return !p.Leaseless }
func ofPeers(p *Protocol) bool     { return p.Store == StoreNone }
func ofStores(p *Protocol) bool    { return p.Store != StoreNone }
func ofRegisters(p *Protocol) bool { return p.Store == StoreRegister }
func ofSessions(p *Protocol) bool  { return p.Store == StoreEtcd || p.Store == StoreZooKeeper }
func ofEtcd(p *Protocol) bool      { return p.Store == StoreEtcd }
func ofVotes(p *Protocol) bool     { return p.Vote != nil }

// ofWiped are the protocols in which a wiped disk loses votes within the model.
func ofWiped(p *Protocol) bool {
	if p.Vote == nil || p.Breaks == nil {
		return p.Vote != nil
	}
	breaks, err := p.Breaks(nil)
	return err == nil && !slices.Contains(breaks, OpWipe)
}

func ofWitnesses(p *Protocol) bool {
	return p.Death != nil && !p.Leaseless
}

// ofWaiting are the protocols whose winners may have to wait for their lease.
func ofWaiting(p *Protocol) bool {
	return !p.Leaseless && p.Store != StoreRegister
}

// ofMembers are the protocols whose membership can change.
func ofMembers(p *Protocol) bool { return p.Members != nil }

// ofQuorums are the protocols in which peers promise leases to each other.
func ofQuorums(p *Protocol) bool { return p.Store == StoreNone && !p.Leaseless && p.Vote != nil }

var sometimes = [sometimesCount]struct {
	name, says string
	of         applies
}{
	SawElected:          {"elected", "a participant was elected", ofAll},
	SawProven:           {"proven", "a lease was proven", ofLeases},
	SawLeaderChanged:    {"leader-changed", "leadership went from one participant to another", ofAll},
	SawWonAndWaited:     {"won-and-waited", "a winner had to wait, and became active later", ofWaiting},
	SawWonTooLate:       {"won-too-late", "a lease was proven with less left of it than the drain takes", ofNone},
	SawWinnerStopped:    {"winner-stopped", "a winner was stopped before its lease was proven", ofWaiting},
	SawWinnerDied:       {"winner-died", "a winner died before its lease was proven", ofWaiting},
	SawSplitVote:        {"split-vote", "two stood in one term, and neither won it", ofVotes},
	SawTwoElected:       {"two-elected", "two were elected at the same time, a frozen one included", ofAll},
	SawSuperseded:       {"superseded", "a leader was stopped by a message of a higher term", ofPeers},
	SawReanchored:       {"re-anchored", "an active leader's term rose, and its token stayed", ofQuorums},
	SawCrashTakeover:    {"crash-takeover", "a leader died, and another took over", ofAll},
	SawElectedEarly:     {"elected-early", "a leader died, and another was elected while the dead one's lease would still have been proven", ofQuorums},
	SawWitnessed:        {"witnessed", "a leader died, its keeper said so, and another was active while the dead one's lease would still have been proven", ofWitnesses},
	SawCutOff:           {"cut-off", "a leader was cut off, and another took over before the cut was healed", ofPeers},
	SawFrozenPastLease:  {"frozen-past-lease", "a leader was frozen until after the end of its lease", ofLeases},
	SawThawedInTime:     {"thawed-in-time", "a leader was frozen, and woke with its lease still proven", ofLeases},
	SawFrozenInWork:     {"frozen-in-work", "the work was frozen between its check and its write", ofAll},
	SawStaleRefused:     {"stale-refused", "the guarded resource refused a stale write", ofAll},
	SawLateWrite:        {"late-write", "a write arrived after its writer had died", ofAll},
	SawOverrun:          {"overrun", "work had not returned when its lease ended", ofLeases},
	SawDrained:          {"drained", "work was told by the drain before its machine stopped the term", ofLeases},
	SawDiedJoining:      {"died-joining", "a process died after its work was told to stop and before it had returned", ofAll},
	SawJumpEndsLease:    {"jump-ends-lease", "a clock that jumped, or a machine that slept, ended a lease", ofLeases},
	SawDiedUnsaved:      {"died-unsaved", "a process died with a save that was not durable yet", ofVotes},
	SawSaveFailed:       {"save-failed", "a save failed", ofVotes},
	SawBackInLease:      {"back-in-lease", "a leader died, and was back before its lease would have ended", ofLeases},
	SawWipedReturns:     {"wiped-returns", "a participant came back with an empty disk", ofWiped},
	SawResigned:         {"resigned", "a leader was asked to give up, and another took over", ofAll},
	SawReproven:         {"reproven", "a term was proven anew by a round trip", ofLeases},
	SawOldLife:          {"old-life", "a message of an earlier life of its sender arrived", ofQuorums},
	SawFalseAlarm:       {"false-alarm", "a connection was closed while the process behind it lived", ofQuorums},
	SawUnknownOutcome:   {"unknown-outcome", "the answer of the store was lost", ofStores},
	SawUnknownWin:       {"unknown-win", "a candidate was elected after an answer to it had been lost", ofStores},
	SawLostAfterUnknown: {"lost-after-unknown", "a leader was stopped after an answer to it had been lost", ofStores},
	SawConditionFailed:  {"condition-failed", "a write found another version", ofRegisters},
	SawEntryGone:        {"entry-gone", "a leader learned that its session or entry was gone", ofSessions},
	SawWatchEnded:       {"watch-ended", "a watch ended", ofStores},
	SawThrottled:        {"throttled", "the store refused a request", ofStores},
	SawLateAnswer:       {"late-answer", "an answer arrived after the term that had asked was over", ofStores},
	SawSettled:          {"settled", "the healed world was stable in time", ofAll},
	SawSettledInPart:    {"settled-in-part", "it was, with a part of the world left broken", ofAll},

	SawTransferRaced:      {"transfer-raced-crash", "a leader was asked to hand over, and it or its successor died before the next one led", ofMembers},
	SawSuccessorDied:      {"successor-died", "the one that a leader handed over to died, and another took over", ofMembers},
	SawHandedOver:         {"handed-over", "a term that was handed over began without a pre-vote", ofMembers},
	SawOutranked:          {"outranked", "a leader handed over by itself to one of a higher priority", ofMembers},
	SawHeldBack:           {"held-back", "a candidate was held back because its position was behind", ofMembers},
	SawCaughtUp:           {"caught-up", "a candidate that was held back caught up, and was elected", ofMembers},
	SawChangeRefused:      {"change-refused", "a leader objected to a reconfiguration", ofMembers},
	SawChangedInPartition: {"changed-in-partition", "a membership changed while a partition lasted", ofMembers},
	SawDeposedUnsettled:   {"deposed-unsettled", "a leader's term ended after it had made a membership durable and before that was settled", ofMembers},
	SawReadmitted:         {"readmitted", "a voter whose disk was wiped became one again", ofMembers},
	SawPromotedVotes:      {"promoted-votes", "a participant that was no voter at the beginning voted", ofMembers},
	SawAllReplaced:        {"all-replaced", "none of the voters of the beginning was one any more", ofMembers},

	SawRevokedEarly:  {"revoked-early", "a leader of etcd that had hung ended a lease that its successor had renewed", ofEtcd},
	SawRenewedInVain: {"renewed-in-vain", "a leader of etcd that hung renewed a lease that its successor had ended", ofEtcd},
	SawTwinReplaced:  {"twin-replaced", "a second process with one id took the place of the first at a peer", ofNone},
	SawTwinRefused:   {"twin-refused", "a peer refused one of two processes with one id", ofNone},

	SawRolledBack: {"rolled-back", "a store went back, and gave versions again", ofRegisters},
	SawWentBack:   {"went-back", "a leader gave up because its store had gone back", ofRegisters},
}

// ofNone: the situation is reported when it is seen, but is too rare to be required, or occurs only
// beyond the model. TestSuite requires those of twins.
func ofNone(*Protocol) bool { return false }

// String is the situation's name, such as stale-refused.
func (s Sometimes) String() string {
	if s < sometimesCount {
		return sometimes[s].name
	}
	return fmt.Sprintf("unknown-%d", uint8(s))
}

// Says describes the situation in a sentence.
func (s Sometimes) Says() string {
	if s < sometimesCount {
		return sometimes[s].says
	}
	return s.String()
}

// Expected reports whether a suite over p has to reach the situation.
func (s Sometimes) Expected(p *Protocol) bool { return s < sometimesCount && sometimes[s].of(p) }

// Situations lists them all.
func Situations() []Sometimes {
	every := make([]Sometimes, sometimesCount)
	for i := range every {
		every[i] = Sometimes(i)
	}
	return every
}

// Seen is a set of situations.
type Seen uint64

func (s *Seen) add(p Sometimes) { *s |= 1 << p }

// Has reports whether p was seen.
func (s Seen) Has(p Sometimes) bool { return s>>p&1 == 1 }

// Add adds the situations of another run.
func (s *Seen) Add(o Seen) { *s |= o }

// Len is the number of situations in the set.
func (s Seen) Len() int { return bits.OnesCount64(uint64(s)) }

// Missing lists what a suite over p should have seen and has not.
func (s Seen) Missing(p *Protocol) []Sometimes {
	var missing []Sometimes
	for _, q := range Situations() {
		if q.Expected(p) && !s.Has(q) {
			missing = append(missing, q)
		}
	}
	return missing
}

// MarshalText writes the names, with a space between them.
func (s Seen) MarshalText() ([]byte, error) {
	var text []byte
	for _, p := range Situations() {
		if !s.Has(p) {
			continue
		}
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = append(text, p.String()...)
	}
	return text, nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *Seen) UnmarshalText(text []byte) error {
	*s = 0
names:
	for name := range strings.FieldsSeq(string(text)) {
		for _, p := range Situations() {
			if p.String() == name {
				s.add(p)
				continue names
			}
		}
		return fmt.Errorf("situation %q; want one of %v", name, Situations())
	}
	return nil
}

// notes is the state of one process that only the situations need.
type notes struct {
	serial      uint64 // the serial of its latest term; see serving
	incarnation uint64 // the latest that it has sent
	saving      uint64 // the latest Save that it asked for
	saved       uint64 // the latest that is durable
	asked       uint64 // the latest Ask
	stale       uint64 // asks up to this one are of a term that is over
	confirmed   uint64
	promised    Time // when its lease would have ended if it had not died
	cut         Time // until then a partition isolates it
	unknown     bool // an answer was lost since it was elected, or since it stood
	waited      bool // it was elected in an earlier step
	role        protocol.Role
	handed      uint64 // the term that it began after a handover
	behind      bool   // it was refused because of its position,
	caught      bool   // and has had another one since
}

// transfer is a requested transfer, until the next participant leads.
type transfer struct {
	some, successorDied bool
	from, target        int32
}

// formerLeader is a former leader, until there is another.
type formerLeader struct {
	some, died, resigned, outranked bool
	node                            int32
	promised                        Time
}

// termEnded is called when a term ends.
func (o *oracle) termEnded(w *World, n *node, s *processState, f formerLeader) {
	f.some, f.node, f.promised = true, int32(n.index), s.notes.promised
	o.former = f
	if i, ok := o.members.find(o.members.open); ok && o.members.all[i].node == int32(n.index) {
		if s.held.Compare(o.members.open) >= 0 {
			w.seen.add(SawDeposedUnsettled)
		}
		o.members.open = protocol.ConfigID{}
	}
}

// notice checks a step for situations.
func (o *oracle) notice(w *World, n *node, s *processState, in *protocol.Input, fx *protocol.Effects) {
	if k := len(fx.Saves); k > 0 {
		s.notes.saving = fx.Saves[k-1].Number
	}
	if k := len(fx.Asks); k > 0 {
		s.notes.asked = fx.Asks[k-1].Number
	}
	v := &n.view
	switch in.Kind {
	case protocol.Saved:
		if in.Failed {
			w.seen.add(SawSaveFailed)
		} else {
			s.notes.saved = max(s.notes.saved, in.Number)
		}
	case protocol.PeerClosed:
		for i := range o.processes {
			if r := &o.processes[i]; r.up && w.nodes[i].id == in.From && r.notes.incarnation == in.Incarnation {
				w.seen.add(SawFalseAlarm)
			}
		}
	case protocol.Receive:
		if o.restarts && !w.seen.Has(SawOldLife) && in.Message.Incarnation != 0 {
			for i := range o.processes {
				if r := &o.processes[i]; w.nodes[i].id == in.From && in.Message.Incarnation < r.notes.incarnation {
					w.seen.add(SawOldLife)
				}
			}
		}
	case protocol.Replied:
		o.noticeAnswer(w, s, &in.Answer)
	case protocol.Do:
		switch in.Command.Verb {
		case protocol.Pause:
			s.paused = true
		case protocol.Resume:
			s.paused = false
		case protocol.Locate:
			s.notes.caught = s.notes.behind
		}
	}
	if in.Kind == protocol.Receive && in.Message.Handover != nil && v.Role == protocol.Candidate && s.notes.role != protocol.Candidate {
		s.notes.handed = v.Term
	}
	s.notes.role = v.Role
	if s.stage != stageNone {
		if s.active && v.Term > s.token && w.protocol.Store == StoreNone {
			w.seen.add(SawReanchored)
		}
		if v.Confirmed > s.notes.confirmed {
			w.seen.add(SawReproven)
		}
		s.notes.waited = true
	} else if v.Role == protocol.Candidate && v.Term > o.contested && !w.seen.Has(SawSplitVote) {
		o.noticeContest(w, n)
	}
	s.notes.confirmed = v.Confirmed
}

// noticeContest checks whether another participant stands in the term of n. That vote is split if a
// higher term is won and this one never was.
func (o *oracle) noticeContest(w *World, n *node) {
	for i := range o.processes {
		if r := w.nodes[i]; r != n && o.processes[i].up && r.view.Role == protocol.Candidate && r.view.Term == n.view.Term {
			o.contested = n.view.Term
		}
	}
}

func (o *oracle) noticeAnswer(w *World, s *processState, a *protocol.Answer) {
	switch a.Status {
	case protocol.StatusUnknown:
		w.seen.add(SawUnknownOutcome)
		s.notes.unknown = true
	case protocol.StatusConflict:
		w.seen.add(SawConditionFailed)
	case protocol.StatusGone:
		if s.stage != stageNone || s.joining != 0 {
			w.seen.add(SawEntryGone)
		}
	case protocol.StatusClosed:
		w.seen.add(SawWatchEnded)
	case protocol.StatusRefused:
		w.seen.add(SawThrottled)
	case protocol.StatusDone:
		if a.Number <= s.notes.stale {
			w.seen.add(SawLateAnswer)
		}
	}
}

func (o *oracle) noticeElected(w *World, n *node, s *processState) {
	w.seen.add(SawElected)
	if s.notes.unknown {
		w.seen.add(SawUnknownWin)
	}
	if o.contested != 0 && s.token > o.contested {
		if _, won := o.find(o.contested); !won {
			w.seen.add(SawSplitVote)
		}
	}
	if s.notes.handed == s.token {
		w.seen.add(SawHandedOver)
	}
	if s.notes.caught {
		w.seen.add(SawCaughtUp)
	}
	s.notes.waited, s.notes.unknown, s.notes.confirmed = false, false, n.view.Confirmed
	if f := &o.former; f.some && f.died && int(f.node) != n.index && f.promised > w.now {
		w.seen.add(SawElectedEarly)
	}
}

func (o *oracle) noticeLead(w *World, n *node, s *processState) {
	w.seen.add(SawProven)
	if s.notes.waited {
		w.seen.add(SawWonAndWaited)
	}
	if f := &o.former; f.some && f.died && int(f.node) != n.index && f.promised > w.now {
		w.seen.add(SawWitnessed)
	}
}

// noticeTerm is called when the term of a leader that counts begins.
func (o *oracle) noticeTerm(w *World, n *node) {
	f := &o.former
	if f.some && int(f.node) != n.index {
		if f.died {
			w.seen.add(SawCrashTakeover)
		}
		if f.resigned {
			w.seen.add(SawResigned)
		}
		if f.outranked {
			w.seen.add(SawOutranked)
		}
	}
	if h := &o.transfer; h.some && h.successorDied && int(h.target) != n.index {
		w.seen.add(SawSuccessorDied)
	}
	o.transfer = transfer{}
	for i := range o.processes {
		if i != n.index && o.processes[i].notes.cut > w.now {
			w.seen.add(SawCutOff)
		}
	}
	o.former = formerLeader{}
	for i := range o.processes {
		k := &o.processes[i].notes
		k.cut, k.behind, k.caught = 0, false, false
	}
}

// behind is called when n's machine reports that its position is behind another's.
func (o *oracle) behind(w *World, n *node) {
	o.process(n).notes.behind = true
	w.seen.add(SawHeldBack)
}

func (o *oracle) noticeStop(w *World, n *node, s *processState, in *protocol.Input) {
	if in.Kind == protocol.Do && in.Command.Verb == protocol.Transfer {
		o.transfer = transfer{some: true, from: int32(n.index), target: int32(w.index(in.Command.Target))}
	}
	if s.stage == stageElected && !electedCounts(w) {
		w.seen.add(SawWinnerStopped)
	}
	if in.Kind == protocol.Receive && in.Message.Term > s.token {
		w.seen.add(SawSuperseded)
	}
	if s.notes.unknown {
		w.seen.add(SawLostAfterUnknown)
	}
	s.notes.stale, s.notes.unknown = s.notes.asked, false
}

func (o *oracle) noticeDeath(w *World, n *node, s *processState) {
	o.restarts = true
	if h := &o.transfer; h.some && (int(h.from) == n.index || int(h.target) == n.index) {
		w.seen.add(SawTransferRaced)
		h.successorDied = h.successorDied || int(h.target) == n.index
	}
	s.notes.behind, s.notes.caught = false, false
	s.notes.promised = max(s.until, s.notes.promised)
	if s.stage == stageElected && !electedCounts(w) {
		w.seen.add(SawWinnerDied)
	}
	if w.work.job(n).told {
		w.seen.add(SawDiedJoining)
	}
	if s.notes.saving > s.notes.saved {
		w.seen.add(SawDiedUnsaved)
	}
	s.notes.saving, s.notes.saved, s.notes.asked, s.notes.stale, s.notes.confirmed = 0, 0, 0, 0, 0
	s.notes.unknown, s.notes.waited = false, false
}

func (o *oracle) noticeBoot(w *World, s *processState) {
	if s.notes.promised > w.now {
		w.seen.add(SawBackInLease)
	}
}

func (o *oracle) noticeThaw(w *World, s *processState) {
	if s.stage != stageLeading {
		return
	}
	if s.until > w.now {
		w.seen.add(SawThawedInTime)
	} else {
		w.seen.add(SawFrozenPastLease)
	}
}

// fault is called when an operation begins.
func (o *oracle) fault(w *World, op *Op) {
	switch op.Kind {
	case OpIsolate, OpHalves, OpThird, OpOneWay:
	default:
		return
	}
	for i := range o.processes {
		s := &o.processes[i]
		if s.stage == stageNone {
			continue
		}
		id := w.nodes[i].id
		cut := op.Node == id
		for _, g := range op.Group {
			cut = cut || g == id
		}
		if cut {
			s.notes.cut = w.now + Time(op.For)
		}
	}
}

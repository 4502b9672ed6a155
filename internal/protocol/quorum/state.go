package quorum

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine]. Fields that the present role does not read are left
// out, so that equal behaviour has equal bytes.
func (m *Machine) AppendState(dst []byte) []byte {
	dst = append(dst, byte(m.role))
	switch m.role {
	case protocol.Down:
		return dst
	case protocol.Halted:
		return protocol.AppendString(dst, m.fault)
	}
	dst = protocol.AppendReading(dst, m.now)
	dst = protocol.AppendReading(dst, m.clock)
	if !m.cfg.Unclocked {
		dst = protocol.AppendUint(dst, m.jumps)
	}
	dst = m.ballot.append(dst)
	dst = appendUints(dst, m.saveNo, m.saved, m.bootSave, m.termSave, m.promiseSave, m.configSave)
	dst = appendUints(dst, m.held.Term, m.held.Version)
	dst = protocol.AppendMembership(dst, m.next)
	if m.next != nil {
		dst = protocol.AppendUint(dst, m.nextSave)
	}
	dst = protocol.AppendBool(dst, m.badDisk)
	dst = protocol.AppendInstant(dst, m.saveAt)
	dst = protocol.AppendBool(dst, m.candidate)
	dst = protocol.AppendBool(dst, m.sick)
	dst = protocol.AppendBool(dst, m.paused)
	dst = protocol.AppendUint(dst, uint64(m.priority))
	dst = protocol.AppendBool(protocol.AppendString(dst, m.position), m.located)
	dst = protocol.AppendString(dst, m.metadata)
	dst = appendInstants(dst, m.bootUntil, m.quietUntil, m.graceUntil, m.placeBy, m.asideUntil)
	dst = m.promises.append(dst)
	dst = m.dead.append(dst)
	dst = m.heard.append(dst)
	dst = m.appendKnown(dst)
	dst = appendUints(dst, m.votePrev, uint64(m.given))
	if m.awaited() {
		dst = protocol.AppendInstant(dst, m.votedAt)
	}
	dst = protocol.AppendInstant(dst, m.electAt)
	dst = protocol.AppendString(dst, m.cause)
	dst = appendNodes(dst, m.ranking)
	dst = protocol.AppendUint(protocol.AppendString(dst, m.yielded), m.yields)
	dst = appendUints(dst, m.failed, m.voted, m.rounds, m.maxSeen, m.seq, m.asked, m.proven)
	dst = m.appendRound(dst)
	if m.working() {
		dst = m.appendTenure(dst)
	}
	return dst
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("quorum: no state")
	}
	*m = Machine{cfg: m.cfg, role: protocol.Role(src[0])}
	d := protocol.NewDecoder(src[1:])
	switch m.role {
	case protocol.Down:
	case protocol.Halted:
		m.fault = d.String()
	case protocol.Observer, protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader, protocol.Fencing:
		m.load(d)
	default:
		return fmt.Errorf("quorum: a state with the role %v; want a role of this protocol", m.role)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("quorum: state: %w", err)
	}
	return nil
}

func (m *Machine) load(d *protocol.Decoder) {
	m.now, m.clock = d.Reading(), d.Reading()
	if !m.cfg.Unclocked {
		m.jumps = d.Uint()
	}
	if m.ballot = readBallot(d); m.ballot.Membership == nil {
		return
	}
	m.seat()
	m.saveNo, m.saved, m.bootSave, m.termSave, m.promiseSave, m.configSave = d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint()
	m.held = protocol.ConfigID{Term: d.Uint(), Version: d.Uint()}
	if m.next = d.Membership(); m.next != nil {
		m.nextSave = d.Uint()
		if err := m.next.Validate(); err != nil {
			d.Fail(err)
			return
		}
	}
	m.badDisk = d.Bool()
	m.saveAt = d.Instant()
	m.candidate, m.sick, m.paused = d.Bool(), d.Bool(), d.Bool()
	m.priority = priority(d)
	m.position, m.located = d.String(), d.Bool()
	if m.priority == 0 || len(m.position) > MaxPosition {
		d.Fail(fmt.Errorf("an own priority of %d, a position of %d bytes", m.priority, len(m.position)))
	}
	m.metadata = d.String()
	m.bootUntil, m.quietUntil, m.graceUntil, m.placeBy, m.asideUntil = d.Instant(), d.Instant(), d.Instant(), d.Instant(), d.Instant()
	m.promises.load(d)
	m.dead.load(d)
	m.heard.load(d)
	m.loadKnown(d)
	m.votePrev, m.given = d.Uint(), d.Duration()
	if m.awaited() {
		m.votedAt = d.Instant()
	}
	m.electAt = d.Instant()
	m.cause = protocol.Reason(d.String())
	m.ranking = loadNodes(d)
	if m.yielded, m.yields = protocol.NodeID(d.String()), d.Uint(); m.yields > mostYields {
		d.Fail(fmt.Errorf("%d handovers that failed; want at most %d", m.yields, mostYields))
	}
	m.failed, m.voted, m.rounds, m.maxSeen, m.seq, m.asked, m.proven = d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint()
	m.loadRound(d)
	if m.working() {
		m.loadTenure(d)
	}
	stands := m.role == protocol.PreCandidate || m.role == protocol.Candidate
	switch {
	case m.failed > mostFailures:
		d.Fail(fmt.Errorf("%d failures; want at most %d", m.failed, mostFailures))
	case m.self < 0 && (m.inTenure() || m.round.kind != idle || m.role == protocol.Follower):
		d.Fail(fmt.Errorf("the role %v, but %v is not a voter", m.role, m.cfg.Self))
	case stands != (m.round.kind != idle) && m.role != protocol.Leader:
		d.Fail(fmt.Errorf("the role %v does not go with its round", m.role))
	}
}

// appendKnown appends what is known of the voters, in the order of their places.
func (m *Machine) appendKnown(dst []byte) []byte {
	for i := range m.ballot.Membership.Voters {
		dst = protocol.AppendUint(dst, uint64(m.known[i].priority))
		dst = protocol.AppendString(dst, m.known[i].position)
		if !m.cfg.Unclocked {
			dst = m.known[i].pace.append(dst)
		}
	}
	return dst
}

func (m *Machine) loadKnown(d *protocol.Decoder) {
	for i := range m.ballot.Membership.Voters {
		k := &m.known[i]
		k.priority, k.position = priority(d), d.String()
		if !m.cfg.Unclocked {
			k.pace.load(d)
		}
	}
}

func (p *pace) append(dst []byte) []byte {
	dst = protocol.AppendUint(appendInstants(dst, p.apartUntil, p.apartSince), p.incarnation)
	if p.incarnation == 0 {
		return dst
	}
	dst = appendUints(dst, p.jumps, p.seq)
	for _, s := range [...]*sample{&p.first, &p.second, &p.last} {
		dst = protocol.AppendUint(appendInstants(dst, s.sent, s.got), uint64(s.read))
	}
	return dst
}

func (p *pace) load(d *protocol.Decoder) {
	p.apartUntil, p.apartSince, p.incarnation = d.Instant(), d.Instant(), d.Uint()
	if p.incarnation == 0 {
		return
	}
	p.jumps, p.seq = d.Uint(), d.Uint()
	for _, s := range [...]*sample{&p.first, &p.second, &p.last} {
		*s = sample{d.Instant(), d.Instant(), d.Duration()}
	}
}

// priority reads a priority; 0 is an unknown one.
func priority(d *protocol.Decoder) int {
	p := int64(d.Uint())
	if p < protocol.NeverLead || p > MaxPriority {
		d.Fail(fmt.Errorf("a priority of %d; want %d to %d", p, protocol.NeverLead, MaxPriority))
		return 0
	}
	return int(p)
}

func (p *promises) append(dst []byte) []byte {
	dst = protocol.AppendInstant(dst, p.floor)
	dst = protocol.AppendUint(dst, uint64(p.n))
	for i := range p.all[:p.n] {
		w := &p.all[i]
		dst = protocol.AppendVoter(dst, w.holder)
		dst = appendUints(dst, w.incarnation, w.term, w.seq)
		dst = protocol.AppendInstant(dst, w.until)
	}
	return dst
}

func (p *promises) load(d *protocol.Decoder) {
	p.floor = d.Instant()
	p.n = places(d)
	for i := range p.all[:p.n] {
		p.all[i] = promise{d.Voter(), d.Uint(), d.Uint(), d.Uint(), d.Instant()}
	}
}

func (g *deadLives) append(dst []byte) []byte {
	dst = protocol.AppendUint(dst, uint64(g.n))
	for i := range g.all[:g.n] {
		dst = protocol.AppendVoter(dst, g.all[i].voter)
		dst = protocol.AppendUint(dst, g.all[i].incarnation)
	}
	return dst
}

func (g *deadLives) load(d *protocol.Decoder) {
	g.n = places(d)
	for i := range g.all[:g.n] {
		g.all[i] = life{d.Voter(), d.Uint()}
	}
}

func (h *heard) append(dst []byte) []byte {
	dst = protocol.AppendVoter(dst, h.leader)
	dst = appendUints(dst, h.incarnation, h.term, h.seq, uint64(h.asked))
	dst = appendInstants(dst, h.at, h.contact)
	return protocol.AppendBool(dst, h.closed)
}

func (h *heard) load(d *protocol.Decoder) {
	*h = heard{d.Voter(), d.Uint(), d.Uint(), d.Uint(), d.Duration(), d.Instant(), d.Instant(), d.Bool()}
}

func (m *Machine) appendRound(dst []byte) []byte {
	r := &m.round
	dst = protocol.AppendUint(dst, uint64(r.kind))
	if r.kind == idle {
		return dst
	}
	dst = appendUints(dst, r.number, r.term, uint64(r.granted), uint64(r.refused))
	dst = appendInstants(dst, r.sent, r.ends)
	for i := range m.ballot.Membership.Voters {
		dst = appendInstants(dst, r.free[i], r.notBefore[i])
	}
	dst = protocol.AppendUint(dst, uint64(r.ahead))
	return protocol.AppendString(dst, r.position)
}

func (m *Machine) loadRound(d *protocol.Decoder) {
	r := &m.round
	r.kind = roundKind(small(d))
	if r.kind == idle {
		return
	}
	if r.kind > voting {
		d.Fail(fmt.Errorf("a round of kind %d", r.kind))
	}
	r.number, r.term = d.Uint(), d.Uint()
	r.granted, r.refused = bitmap(d), bitmap(d)
	r.sent, r.ends = d.Instant(), d.Instant()
	for i := range m.ballot.Membership.Voters {
		r.free[i], r.notBefore[i] = d.Instant(), d.Instant()
	}
	if r.ahead, r.position = small(d), d.String(); int(r.ahead) > len(m.ballot.Membership.Voters) {
		d.Fail(fmt.Errorf("the voter at place %d is ahead, and there are %d", r.ahead, len(m.ballot.Membership.Voters)))
	}
}

func (m *Machine) appendTenure(dst []byte) []byte {
	g := &m.tenure
	dst = appendUints(dst, g.term, g.token)
	dst = protocol.AppendBool(dst, m.inTenure())
	if !m.inTenure() {
		return dst
	}
	for _, b := range [...]bool{g.active, g.renewing, g.again} {
		dst = protocol.AppendBool(dst, b)
	}
	dst = appendInstants(dst, g.beatAt, g.leaseEnd, g.covered, g.fresh, g.heard, g.won, g.notBefore)
	dst = protocol.AppendString(protocol.AppendString(dst, g.target), g.better)
	dst = appendInstants(dst, g.betterAt, g.activeAt)
	dst = appendUints(dst, g.round, g.stranded)
	dst = appendInstants(dst, g.sent, g.strandAt)
	dst = appendUints(dst, g.confirmSeq, g.confirmAsked)
	for i := range m.ballot.Membership.Voters {
		f := &g.voters[i]
		dst = appendInstants(dst, f.sent, f.claim, f.notBefore)
		dst = appendUints(dst, f.seq, f.clean, f.held.Term, f.held.Version)
		dst = protocol.AppendBool(dst, f.idle)
	}
	n := 0
	for i := range g.marks {
		if g.marks[i].seq != 0 {
			n++
		}
	}
	dst = protocol.AppendUint(dst, uint64(n))
	for i := range g.marks {
		if k := &g.marks[i]; k.seq != 0 {
			dst = appendUints(dst, k.seq, uint64(k.asked))
			dst = protocol.AppendInstant(dst, k.at)
		}
	}
	return dst
}

func (m *Machine) loadTenure(d *protocol.Decoder) {
	g := &m.tenure
	g.term, g.token = d.Uint(), d.Uint()
	if !d.Bool() {
		if m.role == protocol.Leader {
			d.Fail(errors.New("a leader without a lease"))
		}
		return
	}
	g.active, g.renewing, g.again = d.Bool(), d.Bool(), d.Bool()
	if !m.inTenure() {
		d.Fail(errors.New("a lease that nobody renews"))
	}
	g.beatAt, g.leaseEnd, g.covered, g.fresh, g.heard, g.won, g.notBefore = d.Instant(), d.Instant(), d.Instant(), d.Instant(), d.Instant(), d.Instant(), d.Instant()
	g.target, g.better = protocol.NodeID(d.String()), protocol.NodeID(d.String())
	g.betterAt, g.activeAt = d.Instant(), d.Instant()
	g.round, g.stranded = d.Uint(), d.Uint()
	g.sent, g.strandAt = d.Instant(), d.Instant()
	g.confirmSeq, g.confirmAsked = d.Uint(), d.Uint()
	for i := range m.ballot.Membership.Voters {
		g.voters[i] = follower{
			sent: d.Instant(), claim: d.Instant(), notBefore: d.Instant(), seq: d.Uint(), clean: d.Uint(),
			held: protocol.ConfigID{Term: d.Uint(), Version: d.Uint()}, idle: d.Bool(),
		}
	}
	for range d.Len(24) {
		k := mark{seq: d.Uint(), asked: d.Duration(), at: d.Instant()}
		g.marks[k.seq%marks] = k
	}
}

// places reads a number of entries in a table with a place for each voter.
func places(d *protocol.Decoder) int {
	n := d.Len(8)
	if n > protocol.MaxVoters {
		d.Fail(fmt.Errorf("%d entries; want at most %d", n, protocol.MaxVoters))
		return 0
	}
	return n
}

func appendUints(dst []byte, all ...uint64) []byte {
	for _, v := range all {
		dst = protocol.AppendUint(dst, v)
	}
	return dst
}

func appendInstants(dst []byte, all ...protocol.Instant) []byte {
	for _, i := range all {
		dst = protocol.AppendInstant(dst, i)
	}
	return dst
}

func appendNodes(dst []byte, all []protocol.NodeID) []byte {
	dst = protocol.AppendUint(dst, uint64(len(all)))
	for _, id := range all {
		dst = protocol.AppendString(dst, id)
	}
	return dst
}

func loadNodes(d *protocol.Decoder) []protocol.NodeID {
	var all []protocol.NodeID
	for range d.Len(8) {
		all = append(all, protocol.NodeID(d.String()))
	}
	return all
}

// bitmap reads a set of places.
func bitmap(d *protocol.Decoder) uint16 {
	v := d.Uint()
	if v >= 1<<protocol.MaxVoters {
		d.Fail(fmt.Errorf("a set of places of %#x; want %d bits", v, protocol.MaxVoters))
	}
	return uint16(v)
}

// small reads a small number that was appended as an integer.
func small(d *protocol.Decoder) uint8 {
	v := d.Uint()
	if v > 255 {
		d.Fail(fmt.Errorf("%d; want at most 255", v))
	}
	return uint8(v)
}

package quorum

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine]. Fields that the present role does not read are left
// out, so that equal behaviour has equal bytes.
func (m *Machine) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	*m = Machine{cfg: m.cfg}
	c := protocol.Loading(src)
	m.state(&c)
	return c.Done("quorum: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if !c.Role(&m.role, &m.fault, protocol.Observer, protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader, protocol.Fencing) {
		return
	}
	c.Reading(&m.now)
	c.Reading(&m.clock)
	if !m.cfg.Unclocked {
		c.Uints(&m.jumps)
	}
	if m.ballot.state(c); m.ballot.Membership == nil {
		return
	}
	if c.Loads() {
		m.findSelf()
	}
	c.Uints(&m.saveNo, &m.saved, &m.bootSave, &m.termSave, &m.promiseSave, &m.configSave, &m.held.Term, &m.held.Version)
	if c.Membership(&m.next); m.next != nil {
		c.Uints(&m.nextSave)
		if c.Loads() {
			if err := m.next.Validate(); err != nil {
				c.Fail(err)
				return
			}
		}
	}
	c.Bools(&m.badDisk)
	c.Instants(&m.saveAt)
	c.Bools(&m.candidate, &m.sick, &m.paused)
	codePriority(c, &m.priority)
	protocol.Strings(c, &m.position)
	c.Bools(&m.located)
	if m.priority == 0 || len(m.position) > protocol.MaxPosition {
		c.Fail(fmt.Errorf("an own priority of %d, a position of %d bytes", m.priority, len(m.position)))
	}
	protocol.Strings(c, &m.metadata)
	c.Instants(&m.bootUntil, &m.quietUntil, &m.graceUntil, &m.placeBy, &m.asideUntil)
	m.promises.state(c)
	m.dead.state(c)
	m.heard.state(c)
	for i := range m.ballot.Membership.Voters {
		k := &m.known[i]
		codePriority(c, &k.priority)
		protocol.Strings(c, &k.position)
		if !m.cfg.Unclocked {
			k.pace.state(c)
		}
	}
	c.Uints(&m.votePrev)
	c.Durations(&m.given)
	if m.awaited() {
		c.Instants(&m.votedAt)
	}
	c.Instants(&m.electAt)
	protocol.Strings(c, &m.cause)
	m.stateOfRanking(c)
	protocol.Strings(c, &m.yielded)
	if c.Uints(&m.yields); m.yields > mostYields {
		c.Fail(fmt.Errorf("%d handovers that failed; want at most %d", m.yields, mostYields))
	}
	c.Uints(&m.failed, &m.voted, &m.rounds, &m.maxSeen, &m.seq, &m.asked, &m.proven)
	m.stateOfRound(c)
	if m.working() {
		m.stateOfTenure(c)
	}
	stands := m.role == protocol.PreCandidate || m.role == protocol.Candidate
	switch {
	case m.failed > mostFailures:
		c.Fail(fmt.Errorf("%d failures; want at most %d", m.failed, mostFailures))
	case m.self < 0 && (m.inTenure() || m.round.kind != idle || m.role == protocol.Follower):
		c.Fail(fmt.Errorf("the role %v, but %v is not a voter", m.role, m.cfg.Self))
	case stands != (m.round.kind != idle) && m.role != protocol.Leader:
		c.Fail(fmt.Errorf("the role %v does not go with its round", m.role))
	}
}

func (p *pace) state(c *protocol.Coder) {
	c.Instants(&p.apartUntil, &p.apartSince)
	if c.Uints(&p.incarnation); p.incarnation == 0 {
		return
	}
	c.Uints(&p.jumps, &p.seq)
	for _, s := range [...]*sample{&p.first, &p.second, &p.last} {
		c.Instants(&s.sent, &s.got)
		c.Durations(&s.read)
	}
}

func (p *promises) state(c *protocol.Coder) {
	c.Instants(&p.floor)
	codePlaces(c, &p.n)
	for i := range p.all[:p.n] {
		w := &p.all[i]
		c.Voter(&w.holder)
		c.Uints(&w.incarnation, &w.term, &w.seq)
		c.Instants(&w.until)
	}
}

func (g *deadLives) state(c *protocol.Coder) {
	codePlaces(c, &g.n)
	for i := range g.all[:g.n] {
		c.Voter(&g.all[i].voter)
		c.Uints(&g.all[i].incarnation)
	}
}

func (h *heard) state(c *protocol.Coder) {
	c.Voter(&h.leader)
	c.Uints(&h.incarnation, &h.term, &h.seq)
	c.Durations(&h.asked)
	c.Instants(&h.at, &h.contact)
	c.Bools(&h.closed)
}

func (m *Machine) stateOfRanking(c *protocol.Coder) {
	n := c.Len(len(m.ranking), 8)
	if c.Loads() && n > 0 {
		m.ranking = make([]protocol.NodeID, n)
	}
	for i := range m.ranking {
		protocol.Strings(c, &m.ranking[i])
	}
}

func (m *Machine) stateOfRound(c *protocol.Coder) {
	r := &m.round
	if protocol.Small(c, &r.kind, "a round of kind", idle, voting); r.kind == idle {
		return
	}
	c.Uints(&r.number, &r.term)
	protocol.Small(c, &r.granted, "a set of places of", 0, 1<<protocol.MaxVoters-1)
	protocol.Small(c, &r.refused, "a set of places of", 0, 1<<protocol.MaxVoters-1)
	c.Instants(&r.sent, &r.ends)
	for i := range m.ballot.Membership.Voters {
		c.Instants(&r.free[i], &r.notBefore[i])
	}
	protocol.Small(c, &r.ahead, "the voter that is ahead has the place", 0, uint8(len(m.ballot.Membership.Voters)))
	protocol.Strings(c, &r.position)
}

func (m *Machine) stateOfTenure(c *protocol.Coder) {
	g := &m.tenure
	c.Uints(&g.term, &g.token)
	if !c.Has(m.inTenure()) {
		if m.role == protocol.Leader {
			c.Fail(errors.New("a leader without a lease"))
		}
		return
	}
	if c.Bools(&g.active, &g.renewing, &g.again); !m.inTenure() {
		c.Fail(errors.New("a lease that nobody renews"))
	}
	c.Instants(&g.beatAt, &g.leaseEnd, &g.covered, &g.fresh, &g.heard, &g.won, &g.notBefore)
	protocol.Strings(c, &g.target, &g.better)
	c.Instants(&g.betterAt, &g.activeAt)
	c.Uints(&g.round, &g.stranded)
	c.Instants(&g.sent, &g.strandAt)
	c.Uints(&g.confirmSeq, &g.confirmAsked)
	for i := range m.ballot.Membership.Voters {
		f := &g.voters[i]
		c.Instants(&f.sent, &f.claim, &f.notBefore)
		c.Uints(&f.seq, &f.clean, &f.held.Term, &f.held.Version)
		c.Bools(&f.idle)
	}
	g.stateOfMarks(c)
}

// stateOfMarks codes the marks in use, in the order of their places, which follow from their numbers.
func (g *tenure) stateOfMarks(c *protocol.Coder) {
	used := 0
	for i := range g.marks {
		if g.marks[i].seq != 0 {
			used++
		}
	}
	used = c.Len(used, 24)
	for i := 0; used > 0; i++ {
		var k mark
		if !c.Loads() {
			if k = g.marks[i]; k.seq == 0 {
				continue
			}
		}
		c.Uints(&k.seq)
		c.Durations(&k.asked)
		c.Instants(&k.at)
		g.marks[k.seq%marks] = k
		used--
	}
}

// codePriority codes a priority; 0 is an unknown one.
func codePriority(c *protocol.Coder, p *int) {
	protocol.Small(c, p, "a priority of", protocol.NeverLead, protocol.MaxPriority)
}

// codePlaces codes the number of entries in a table with a place for each voter.
func codePlaces(c *protocol.Coder, n *int) {
	if *n = c.Len(*n, 8); *n > protocol.MaxVoters {
		c.Fail(fmt.Errorf("%d entries; want at most %d", *n, protocol.MaxVoters))
		*n = 0
	}
}

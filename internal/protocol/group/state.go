package group

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// AppendState appends all that determines the machine's behaviour, in one canonical encoding: machines with equal bytes
// behave equally. It is stable within one build only.
func (m *Member) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState sets the machine to the state that AppendState wrote. The machine must have been made with the same
// configuration. After an error it is as it was.
func (m *Member) LoadState(src []byte) error {
	c := protocol.Loading(src)
	n := Member{cfg: m.cfg}
	n.state(&c)
	if err := c.Done("group: a member's state"); err != nil {
		return err
	}
	*m = n
	return nil
}

func (m *Member) state(c *protocol.Coder) {
	c.Bools(&m.started, &m.leaving, &m.left)
	c.Reading(&m.clock)
	codeSession(c, &m.session)
	c.Instants(&m.claim)
	c.Bools(&m.admitted)
	codeRegistry(c, &m.registry)
	codeTraits(c, &m.traits)
	c.Uints(&m.top, &m.members, (*uint64)(&m.at.conn), &m.at.tenure, &m.number, &m.seq)
	m.polls = codeList(c, m.polls, 16, func(c *protocol.Coder, p *sent) {
		c.Uints(&p.seq)
		c.Instants(&p.at)
	})
	c.Instants(&m.pollAt)
	s := &m.standing
	c.Bools(&s.is)
	protocol.Small(c, &s.word, "a coordinator's word", unheard, unfitted)
	protocol.Small(c, &s.sight, "what is seen of E", unseen, lately)
	c.Uints(&s.top)
	c.Durations(&s.cover, &s.owed)
	c.Instants(&s.quiet, &s.then)
	m.keys.state(c)
}

func (ps *memberKeys) state(c *protocol.Coder) {
	ps.sort()
	ps.all = codeList(c, ps.all, 41, func(c *protocol.Coder, p *memberKey) {
		protocol.Strings(c, &p.key)
		codeToken(c, &p.token)
		codePriority(c, &p.priority)
		protocol.Small(c, &p.stage, "the stage of a key", idle, stopping)
		c.Bools(&p.wanted)
	})
	over := codeList(c, ps.overrunning(), 24, func(c *protocol.Coder, w *work) {
		protocol.Strings(c, &w.key)
		codeToken(c, &w.token)
	})
	if !c.Loads() {
		return
	}
	for i := range ps.all {
		p := &ps.all[i]
		ps.index.add(p.key, uint32(i))
		if i > 0 && ps.all[i-1].key >= p.key {
			c.Fail(errors.New("the keys are not in order"))
		}
		if p.stage != idle {
			ps.held++
		}
		if p.stage == running {
			ps.running++
		}
	}
	for i, w := range over {
		if i > 0 && over[i-1].compare(w) >= 0 {
			c.Fail(errors.New("the overruns are not in order"))
		}
		ps.overran(w)
	}
}

// AppendState appends all that determines the machine's behaviour, as Member's does.
func (c *Coordinator) AppendState(dst []byte) []byte {
	e := protocol.Appending(dst)
	c.state(&e)
	return e.Appended()
}

// LoadState sets the machine to the state that AppendState wrote, as Member's does.
func (c *Coordinator) LoadState(src []byte) error {
	e := protocol.Loading(src)
	n := makeCoordinator(c.cfg)
	n.state(&e)
	if err := e.Done("group: a coordinator's state"); err != nil {
		return err
	}
	*c = *n
	return nil
}

func (c *Coordinator) state(e *protocol.Coder) {
	if e.Bools(&c.begun, &c.over); c.over || !c.begun {
		return
	}
	e.Uints(&c.tenure)
	e.Reading(&c.clock)
	e.Reading(&c.before)
	e.Bools(&c.provenOnce)
	e.Instants(&c.begunAt, &c.cover)
	e.Durations(&c.wait)
	e.Bools(&c.covered, &c.account.vouched)
	c.account.all = codeList(e, c.account.all, 32, codeSession)
	codeRegistry(e, &c.enrolment.registry)
	e.Bools(&c.enrolment.changed, &c.enrolment.pass, &c.enrolment.waiting)
	e.Uints(&c.known.told)
	e.Instants(&c.known.check, &c.wake)
	e.Bools(&c.resigning)
	e.Instants(&c.resignAt)
	c.away = codeList(e, c.away, 16, func(e *protocol.Coder, a *Absence) {
		protocol.Strings(e, &a.Member)
		e.Instants(&a.Until)
	})
	codeMap(e, &c.known.peers, 16, protocol.NodeID.Compare, func(e *protocol.Coder, id *protocol.NodeID, p **peer) {
		if e.Loads() {
			*p = &peer{}
		}
		protocol.Strings(e, id)
		e.Instants(&(*p).heard)
	})
	codeMap(e, &c.processes, 34, life.compare, func(e *protocol.Coder, l *life, p **process) {
		if e.Loads() {
			*p = &process{}
		}
		protocol.Strings(e, &l.member)
		e.Nonce(&l.process)
		e.Uints(&(*p).number, &(*p).over)
		e.Bools(&(*p).dead)
		if e.Loads() {
			c.lives[l.member]++
		}
	})
	codeMap(e, &c.links, 48, cmp.Compare[Conn], func(e *protocol.Coder, conn *Conn, l **link) {
		if e.Loads() {
			*l = &link{}
		}
		e.Uints((*uint64)(conn))
		protocol.Strings(e, &(*l).from)
		codeSession(e, &(*l).session)
		e.Uints(&(*l).number)
	})
	c.stateOfSessions(e)
	protocol.Small(e, &c.gone, "sessions that are over:", 0, math.MaxInt32)
	c.stateOfKeys(e)
}

func (c *Coordinator) stateOfSessions(e *protocol.Coder) {
	c.sessions = codeList(e, c.sessions, 100, func(e *protocol.Coder, p **session) {
		if e.Loads() {
			*p = &session{}
		}
		s := *p
		codeSession(e, &s.id)
		e.Uints((*uint64)(&s.conn), &s.number)
		e.Instants(&s.promise)
		e.Durations(&s.longest, &s.cover)
		codeTraits(e, &s.traits)
		e.Bools(&s.admitted, &s.shown, &s.voucher)
		e.Uints(&s.since, &s.acked)
		e.Instants(&s.toldAt)
		if c.cfg.Mutant.Has("registry-of-arrival") {
			codeRegistry(e, &s.arrival)
		}
	})
	if !e.Loads() {
		return
	}
	for i, s := range c.sessions {
		p := c.processes[lifeOf(s.id)]
		if p == nil || p.session != nil || i > 0 && c.sessions[i-1].id.Compare(s.id) >= 0 {
			e.Fail(fmt.Errorf("the session %v is out of place", s.id))
			return
		}
		p.session = s
		if s.peer = c.known.peers[s.id.Member]; s.peer == nil {
			e.Fail(fmt.Errorf("the session %v is of an unknown member", s.id))
			return
		}
		s.slot = uint32(len(c.slots))
		c.slots = append(c.slots, s)
	}
}

// stateOfKeys codes the keys in their order, with sessions named by their places.
func (c *Coordinator) stateOfKeys(e *protocol.Coder) {
	ks := &c.keys
	places := make([]uint32, 0, len(ks.all))
	for i := range ks.all {
		if ks.all[i].key != "" {
			places = append(places, uint32(i))
		}
	}
	codeNumber(e, &ks.floor)
	ks.sort(places)
	n := e.Len(len(places), 65)
	var named []uint32 // the places of sessions, from 1, by slot
	if !e.Loads() {
		named = make([]uint32, len(c.slots))
		for i, s := range c.sessions {
			named[s.slot] = uint32(i + 1)
		}
	}
	session := func(slot *uint32) {
		v := uint64(0)
		if !e.Loads() {
			v = uint64(named[*slot])
		}
		if e.Uints(&v); !e.Loads() {
			return
		}
		if *slot = uint32(v); v >= uint64(len(c.slots)) {
			e.Fail(fmt.Errorf("the session %d of %d", v, len(c.slots)))
			*slot = 0
		}
	}
	var shared *candidacies
	for i := range n {
		var k *entry
		if e.Loads() {
			var key Key
			protocol.Strings(e, &key)
			if key == "" || i > 0 && ks.all[i].key >= key {
				e.Fail(errors.New("the keys are not in order"))
				return
			}
			k = &ks.all[ks.place(key)]
		} else {
			k = &ks.all[places[i]]
			protocol.Strings(e, &k.key)
		}
		holder, reserved, token := k.holder, k.reserved, Token{}
		if holder != 0 || c.cfg.Mutant.Has("next-takes-adopted-tenure") {
			token = k.token()
		}
		codeToken(e, &token)
		codeNumber(e, &k.last)
		session(&holder)
		session(&reserved)
		e.Bools(&k.revoked)
		wants := k.wants()
		if !e.Loads() {
			wants = slices.DeleteFunc(slices.Clone(wants), func(w want) bool { return c.slots[w.slot] == nil })
		}
		wants = codeList(e, wants, 16, func(e *protocol.Coder, w *want) {
			session(&w.slot)
			codePriority(e, &w.priority)
		})
		place := uint32(i + 1)
		if !e.Loads() {
			place = places[i]
		}
		left := ks.states[place]
		if left.bytes = codeBytes(e, left.bytes); left.bytes != nil {
			protocol.Strings(e, &left.by)
		}
		if !e.Loads() {
			continue
		}
		k.tenure, k.n, k.reserved = token.Tenure, token.N, reserved
		if len(wants) > 0 {
			if shared == nil || !slices.Equal(wants, *shared) {
				all := candidacies(wants)
				shared = &all
			}
			k.shared = shared
		}
		if holder == 0 && (k.revoked || token != Token{} && !mutant.Built) {
			e.Fail(fmt.Errorf("%.20q is free, and has a token or was revoked", k.key))
			return
		}
		for j, w := range wants {
			if w.slot == 0 || j > 0 && wants[j-1].slot >= w.slot {
				e.Fail(fmt.Errorf("the candidacies for %s are not in order", k.key))
				return
			}
		}
		for _, w := range wants {
			c.slots[w.slot].wants++
		}
		if left.bytes != nil {
			ks.leave(place, left)
		}
		if holder != 0 {
			revoked := k.revoked
			var fx Effects
			c.hold(place, c.slots[holder], token, &fx)
			k.revoked = revoked
		}
	}
	for _, s := range c.sessions {
		s.stateOfOverruns(e, c)
	}
}

func (s *session) stateOfOverruns(e *protocol.Coder, c *Coordinator) {
	var all []work
	for o := range s.overruns {
		all = append(all, work{c.keys.all[o.key].key, o.token})
	}
	slices.SortFunc(all, work.compare)
	all = codeList(e, all, 24, func(e *protocol.Coder, w *work) {
		protocol.Strings(e, &w.key)
		codeToken(e, &w.token)
	})
	if !e.Loads() {
		return
	}
	for _, w := range all {
		i, ok := c.keys.find(w.key)
		if !ok {
			e.Fail(fmt.Errorf("an overrun of the key %.20q, which is not known", w.key))
			return
		}
		s.covers(overrun{i, w.token}, &c.keys)
	}
}

func codeSession(c *protocol.Coder, s *Session) {
	protocol.Strings(c, &s.Member)
	c.Nonce(&s.Process)
	c.Uints(&s.Epoch)
}

func codeToken(c *protocol.Coder, t *Token) { c.Uints(&t.Tenure, &t.N) }

// codeNumber codes the number of an assignment.
func codeNumber(c *protocol.Coder, n *uint32) {
	v := int(*n)
	protocol.Small(c, &v, "an assignment's number", 0, 1<<maxBits)
	*n = uint32(v)
}

func codePriority(c *protocol.Coder, p *int32) {
	v := int(*p)
	protocol.Small(c, &v, "a priority of", protocol.NeverLead, protocol.MaxPriority)
	*p = int32(v)
}

func codeTraits(c *protocol.Coder, t *Traits) {
	weight := uint64(t.Weight)
	c.Uints(&weight)
	t.Weight = int(weight)
	protocol.Strings(c, &t.Zone)
	c.Bools(&t.Draining)
	c.Durations(&t.Back)
}

// codeRegistry codes a registry, which may be nil.
func codeRegistry(c *protocol.Coder, r **Registry) {
	if !c.Has(*r != nil) {
		*r = nil
		return
	}
	if c.Loads() {
		*r = &Registry{}
	}
	// A registry is shared between machines, and only read when it is appended.
	v := **r
	c.Uints(&v.Tenure, &v.Version)
	v.Sessions = codeList(c, v.Sessions, 32, codeSession)
	if c.Loads() {
		**r = v
	}
}

func codeBytes(c *protocol.Coder, b []byte) []byte {
	s := string(b)
	if protocol.Strings(c, &s); len(s) == 0 {
		return nil
	}
	return []byte(s)
}

// codeList codes items, each at least least bytes long.
func codeList[T any](c *protocol.Coder, all []T, least int, code func(*protocol.Coder, *T)) []T {
	n := c.Len(len(all), least)
	if c.Loads() {
		all = nil
		if n > 0 {
			all = make([]T, n)
		}
	}
	for i := range all {
		code(c, &all[i])
	}
	return all
}

// codeMap codes a map in the order of its keys.
func codeMap[K comparable, V any](c *protocol.Coder, m *map[K]V, least int, compare func(a, b K) int, code func(*protocol.Coder, *K, *V)) {
	keys := slices.SortedFunc(maps.Keys(*m), compare)
	n := c.Len(len(keys), least)
	if c.Loads() {
		*m = make(map[K]V, n)
		keys = make([]K, n)
	}
	for i := range keys {
		v := (*m)[keys[i]]
		if code(c, &keys[i], &v); c.Loads() {
			if i > 0 && compare(keys[i-1], keys[i]) >= 0 {
				c.Fail(errors.New("a table is not in order"))
				return
			}
			(*m)[keys[i]] = v
		}
	}
}

func (l life) compare(o life) int {
	return cmp.Or(l.member.Compare(o.member), cmp.Compare(l.process[0], o.process[0]), cmp.Compare(l.process[1], o.process[1]))
}

// Runs reports whether the work of a key has begun, and was not told to stop.
func (m *Member) Runs(k Key) bool {
	p := m.keys.find(k)
	return p != nil && p.stage == running
}

// Version is the version of the registry of this tenure; 0 before there is one.
func (c *Coordinator) Version() uint64 {
	if c.enrolment.registry == nil {
		return 0
	}
	return c.enrolment.registry.Version
}

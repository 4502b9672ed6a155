package placement

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Planner is the placement of this package. It is told changes and keeps what it knows. See the package for its rules.
type Planner struct {
	set Settings

	slots map[string]int32 // of members, by id
	list  []member         // by slot; one that is not in use has no id
	order []int32          // the slots in use, by id

	index map[string]int32 // of keys, by name
	keys  []key            // by index; one that is not in use has no name
	spare []int32          // the indices that are not in use

	classes []class // what keys have in common
	named   map[string]int32
	unused  []int32 // classes that no key has
	recent  int32   // the class of the latest key: that of many that are told at once

	under int // held keys on their way

	dirty   bool      // what is planned may not be right any more
	arrived bool      // a key has arrived since the last computation, and can move on
	stirred bool      // a member has come or gone since the last Plan
	since   time.Time // when one last came or went
	calm    bool      // it was quiet at the last Plan
	plan    []step    // what remains to be begun
	quotas  bool      // some member has one
	budget  float64   // of Settings.Rate
	spent   time.Time // when it was last reckoned
}

// none is no member.
const none = -1

type member struct {
	Member
	hash    uint64
	inverse int64
	late    bool // it is not back in time
}

// away reports whether keys are kept for the member.
func (m *member) away() bool { return !m.Back.IsZero() && !m.late }

// takes reports whether the member can be given keys.
func (m *member) takes() bool { return m.ID != "" && m.Back.IsZero() && !m.Draining }

type key struct {
	name               string
	hash               uint64
	load               int64 // in thousandths
	class              int32
	holder, next, last int32 // slots, or none
	replace            bool
}

// owner is who has the key, or will when what has begun is done.
func (k *key) owner() int32 {
	if k.next != none {
		return k.next
	}
	return k.holder
}

// class is what keys have in common: who may hold them, and who better than others.
type class struct {
	name   string // as in Planner.named
	keys   int    // that have it
	wants  []Want // by member; nil: every member
	prefer string
	zone   string

	fresh bool        // what follows is right
	from  []candidate // by slot
	flat  bool        // no candidate is better than another
}

// candidate is a member that may hold a key. A greater tier comes first: the priority, and below it the preferences.
type candidate struct {
	slot int32
	tier int32
}

// Tiers. A priority is a tier above all preferences.
const (
	inZone    = 1
	preferred = 2
	priority  = 4
)

// New returns a planner that knows nobody.
func New(s Settings) (*Planner, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	return &Planner{
		set: s, slots: make(map[string]int32), index: make(map[string]int32), named: make(map[string]int32),
		budget: float64(s.Rate),
	}, nil
}

// SetMember adds a member, or replaces what is known of it.
func (p *Planner) SetMember(m Member) error {
	if err := m.check(); err != nil {
		return err
	}
	slot, ok := p.slots[m.ID]
	if ok && p.list[slot].Member == m {
		return nil
	}
	if !ok {
		slot = int32(slices.IndexFunc(p.list, func(m member) bool { return m.ID == "" }))
		if slot == none {
			slot = int32(len(p.list))
			p.list = append(p.list, member{})
		}
		p.slots[m.ID] = slot
		at, _ := slices.BinarySearchFunc(p.order, m.ID, func(slot int32, id string) int { return cmp.Compare(p.list[slot].ID, id) })
		p.order = slices.Insert(p.order, at, slot)
	}
	if old := &p.list[slot]; !ok || old.Back.IsZero() != m.Back.IsZero() || old.Draining != m.Draining {
		p.stirred = true
	}
	p.list[slot] = member{Member: m, hash: hash(m.ID), inverse: inverse(m.Weight)}
	if !p.list[slot].takes() {
		p.letGo(slot, false)
	}
	p.changed()
	return nil
}

// RemoveMember removes a member. What it held is free.
func (p *Planner) RemoveMember(id string) error {
	slot, ok := p.slots[id]
	if !ok {
		return fmt.Errorf("there is no member %q to remove; want one that was added", id)
	}
	p.letGo(slot, true)
	delete(p.slots, id)
	p.list[slot] = member{}
	p.order = slices.DeleteFunc(p.order, func(o int32) bool { return o == slot })
	p.stirred = true
	p.changed()
	return nil
}

// letGo calls off what is on its way to a member, and, if it is gone, forgets that it held anything.
func (p *Planner) letGo(slot int32, gone bool) {
	for i := range p.keys {
		k := &p.keys[i]
		if k.name == "" {
			continue
		}
		was := k.moving()
		if k.next == slot {
			k.next = none
		}
		if gone && k.holder == slot {
			k.holder = none
		}
		if gone && k.last == slot {
			k.last = none
		}
		p.count(was, k)
	}
}

// moving reports whether the key is held, and on its way.
func (k *key) moving() bool { return k.holder != none && k.next != none }

// count keeps the number of held keys on their way.
func (p *Planner) count(was bool, k *key) {
	if is := k.moving(); is && !was {
		p.under++
	} else if was && !is {
		p.under--
	}
}

// changed says that members have changed.
func (p *Planner) changed() {
	p.dirty = true
	for i := range p.classes {
		p.classes[i].fresh = false
	}
}

// Grow makes room for as many keys, before any is known, so that it costs less to tell them.
func (p *Planner) Grow(keys int) {
	if len(p.keys) == 0 {
		p.keys, p.index = make([]key, 0, keys), make(map[string]int32, keys)
	}
}

// SetKey adds a key, or replaces what is known of it. Last is kept if it is "".
func (p *Planner) SetKey(k Key) error {
	if k.Name == "" {
		return fmt.Errorf("a key without a name; want one")
	}
	load, err := thousandths(k.Load)
	if err != nil {
		return fmt.Errorf("key %q: %w", k.Name, err)
	}
	holder, err := p.known(k.Name, "is held by", k.Holder)
	if err != nil {
		return err
	}
	next, err := p.known(k.Name, "is on its way to", k.Next)
	if err != nil {
		return err
	}
	last, err := p.known(k.Name, "was last held by", k.Last)
	if err != nil {
		return err
	}
	i, ok := p.index[k.Name]
	c := p.recent
	if ok {
		c = p.keys[i].class
	}
	if int(c) >= len(p.classes) || !p.classes[c].is(&k) {
		if c, err = p.classOf(&k); err != nil {
			return err
		}
	}
	p.recent = c
	if !ok {
		if n := len(p.spare); n > 0 {
			i, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			i = int32(len(p.keys))
			p.keys = append(p.keys, key{})
		}
		p.index[k.Name] = i
		p.keys[i] = key{name: k.Name, hash: hash(k.Name), class: none, holder: none, next: none, last: none}
	}

	to := &p.keys[i]
	if next == holder {
		next = none
	}
	switch {
	case holder != none:
		last = none
	case last == none && to.holder != none:
		last = to.holder
	case last == none:
		last = to.last
	}
	if c != to.class {
		p.classes[c].keys++
		p.leave(to.class)
	}
	was, owner, begun := to.moving(), to.owner(), to.next != none
	if c != to.class || load != to.load || k.Replace != to.replace {
		p.dirty = true
	}
	to.load, to.class, to.replace, to.holder, to.next, to.last = load, c, k.Replace, holder, next, last
	if to.owner() != owner || owner == none {
		p.dirty = true
	}
	p.arrived = p.arrived || begun && next == none
	p.count(was, to)
	return nil
}

// known returns the slot of a member that a key names.
func (p *Planner) known(key, what, id string) (int32, error) {
	if id == "" {
		return none, nil
	}
	slot, ok := p.slots[id]
	if !ok {
		return none, fmt.Errorf("key %q %s %q, which is no member; want the id of one that was added", key, what, id)
	}
	return slot, nil
}

// RemoveKey removes a key.
func (p *Planner) RemoveKey(name string) error {
	i, ok := p.index[name]
	if !ok {
		return fmt.Errorf("there is no key %q to remove; want one that was added", name)
	}
	k := &p.keys[i]
	if k.moving() {
		p.under--
	}
	p.leave(k.class)
	delete(p.index, name)
	*k = key{holder: none, next: none, last: none}
	p.spare = append(p.spare, i)
	p.dirty = true
	return nil
}

// leave says that a key has its class no more.
func (p *Planner) leave(c int32) {
	if c == none {
		return
	}
	if p.classes[c].keys--; p.classes[c].keys == 0 {
		delete(p.named, p.classes[c].name)
		p.classes[c] = class{}
		p.unused = append(p.unused, c)
	}
}

// is reports whether a key has the class, where that can be seen at a glance.
func (c *class) is(k *Key) bool {
	return c.keys > 0 && c.prefer == k.Prefer && c.zone == k.Zone && len(c.wants) == len(k.Wants) && (c.wants == nil) == (k.Wants == nil) &&
		(len(c.wants) == 0 || &c.wants[0] == &k.Wants[0])
}

// classOf finds the class of a key, or makes it.
func (p *Planner) classOf(k *Key) (int32, error) {
	wants := k.Wants
	byMember := func(a, b Want) int { return strings.Compare(a.Member, b.Member) }
	if !slices.IsSortedFunc(wants, byMember) {
		wants = slices.SortedFunc(slices.Values(wants), byMember)
	}
	var name []byte
	if wants != nil {
		name = append(name, 1)
	}
	for _, s := range []string{k.Prefer, k.Zone} {
		name = append(binary.AppendUvarint(name, uint64(len(s))), s...)
	}
	for i, w := range wants {
		switch {
		case i > 0 && wants[i-1].Member == w.Member:
			return none, fmt.Errorf("key %q is wanted by %q twice; want each member once", k.Name, w.Member)
		case w.Priority < 0 || w.Priority > MaxPriority:
			return none, fmt.Errorf("key %q is wanted by %q with the priority %d; want 1 to %d, or 0 for %d", k.Name, w.Member, w.Priority, MaxPriority, DefaultPriority)
		}
		name = append(binary.AppendUvarint(name, uint64(len(w.Member))), w.Member...)
		name = binary.AppendUvarint(name, uint64(cmp.Or(w.Priority, DefaultPriority)))
	}
	if c, ok := p.named[string(name)]; ok {
		return c, nil // members that it names may have been removed
	}
	for _, w := range wants {
		if _, ok := p.slots[w.Member]; !ok {
			return none, fmt.Errorf("key %q is wanted by %q, which is no member; want the id of one that was added", k.Name, w.Member)
		}
	}
	made := class{name: string(name), wants: wants, prefer: k.Prefer, zone: k.Zone}
	c := int32(len(p.classes))
	if n := len(p.unused); n > 0 {
		c, p.unused = p.unused[n-1], p.unused[:n-1]
		p.classes[c] = made
	} else {
		p.classes = append(p.classes, made)
	}
	p.named[made.name] = c
	return c, nil
}

// candidates brings a class's candidates up to date and returns it.
func (p *Planner) candidates(i int32) *class {
	c := &p.classes[i]
	if c.fresh {
		return c
	}
	c.from, c.fresh, c.flat = c.from[:0], true, true
	add := func(slot int32, priorityOf int) {
		m := &p.list[slot]
		if !m.takes() {
			return
		}
		tier := int32(priorityOf) * priority
		if m.ID == c.prefer {
			tier += preferred
		}
		if c.zone != "" && m.Zone == c.zone {
			tier += inZone
		}
		c.from = append(c.from, candidate{slot, tier})
		c.flat = c.flat && tier == c.from[0].tier
	}
	if c.wants == nil {
		for slot := range p.list {
			add(int32(slot), 0)
		}
		return c
	}
	for _, w := range c.wants {
		if slot, ok := p.slots[w.Member]; ok {
			add(slot, cmp.Or(w.Priority, DefaultPriority))
		}
	}
	slices.SortFunc(c.from, func(a, b candidate) int { return cmp.Compare(a.slot, b.slot) })
	return c
}

// tier is a member's in the class, and false if it is no candidate.
func (c *class) tier(slot int32) (int32, bool) {
	if c.flat && c.wants == nil && int(slot) < len(c.from) && c.from[slot].slot == slot { // every slot takes
		return c.from[slot].tier, true
	}
	at, ok := slices.BinarySearchFunc(c.from, slot, func(c candidate, slot int32) int { return cmp.Compare(c.slot, slot) })
	if !ok {
		return 0, false
	}
	return c.from[at].tier, true
}

// Plan returns the moves that should begin now. They count as begun, until SetKey says otherwise. Without a change it
// needs to be called again at next; zero is never. now does not go back.
func (p *Planner) Plan(now time.Time) (moves []Move, next time.Time) {
	_, next = p.think(now)
	begin, later, wait := p.due(now)
	moves = make([]Move, 0, len(begin))
	words := p.words()
	for _, s := range begin {
		k := &p.keys[s.key]
		moves = append(moves, words.move(k, s))
		was := k.moving()
		k.next = s.to
		p.count(was, k)
		if k.holder != none && p.set.Rate > 0 {
			p.budget--
		}
	}
	p.plan = later
	p.dirty = p.quotas && len(moves) > 0 // they may have made room
	if !wait.IsZero() && (next.IsZero() || wait.Before(next)) {
		next = wait
	}
	return moves, next
}

// think brings the plan up to date. It reports whether it is quiet, and when to look again if not.
func (p *Planner) think(now time.Time) (calm bool, next time.Time) {
	calm, next = p.quiet(now)
	if p.dirty || calm != p.calm || p.arrived && len(p.plan) == 0 { // else what remains to be begun comes first
		p.plan = p.compute(calm)
		p.dirty, p.arrived, p.calm = false, false, calm
	}
	return calm, next
}

// quiet reports whether nobody has come or gone for long enough, and when to look again if not. It ends the absence of
// members that are not back in time.
func (p *Planner) quiet(now time.Time) (bool, time.Time) {
	if p.stirred {
		p.stirred, p.since = false, now
	}
	var next time.Time
	for _, slot := range p.order {
		if back := p.list[slot].Back; back.After(now) && (next.IsZero() || back.Before(next)) {
			next = back
		}
	}
	// Somebody is still away, or it was not quiet for long.
	away := !next.IsZero()
	p.expire(now)
	if end := p.since.Add(p.set.Quiet); end.After(now) {
		if !away || end.Before(next) {
			next = end
		}
		return false, next
	}
	return !away, next
}

// expire frees the keys that were kept for members whose time is over.
func (p *Planner) expire(now time.Time) {
	for _, slot := range p.order {
		if m := &p.list[slot]; !m.Back.IsZero() && !m.Back.After(now) && !m.late {
			m.late = true
			p.dirty = true
		}
	}
}

// due divides what is planned into what may begin now and what has to wait, and says when more may begin.
func (p *Planner) due(now time.Time) (begin, later []step, wait time.Time) {
	if p.set.Rate > 0 {
		p.budget = min(p.budget+now.Sub(p.spent).Seconds()*float64(p.set.Rate), float64(p.set.Rate))
		p.spent = now
	}
	if p.set.Rate == 0 && p.set.AtOnce == 0 {
		return p.plan, nil, wait
	}
	budget, under := p.budget, p.under
	for _, s := range p.plan {
		if p.keys[s.key].holder == none {
			begin = append(begin, s)
			continue
		}
		switch {
		case p.set.AtOnce > 0 && under >= p.set.AtOnce:
			later = append(later, s)
		case p.set.Rate > 0 && budget < 1:
			wait = now.Add(time.Duration((1 - budget) / float64(p.set.Rate) * float64(time.Second)))
			later = append(later, s)
		default:
			begin = append(begin, s)
			under++
			budget--
		}
	}
	return begin, later, wait
}

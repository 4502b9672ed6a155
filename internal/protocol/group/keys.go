package group

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// want is a session's candidacy for a key.
type want struct {
	slot     uint32
	priority int32
}

// candidacies are those for a key, in the order of their sessions; those of sessions that are over are removed late.
// Keys that are wanted alike share one, which is never changed.
type candidacies []want

// rewant is a change of a key's candidacies.
type rewant struct {
	from *candidacies
	want want
	not  bool
}

// rewants are the changes by one message, and what each led to. Most of its keys change as the one before.
type rewants struct {
	last rewant
	to   *candidacies
	made map[rewant]*candidacies
}

// entry is a key that a coordinator knows. Slots are 0 for none. There are many: it has 64 bytes.
type entry struct {
	key      Key
	tenure   uint64       // of the holder's token,
	n        uint64       // and its number
	shared   *candidacies // nil: nobody wants it
	last     uint32       // the greatest number that this tenure has assigned
	holder   uint32       // its slot
	reserved uint32       // the slot of whom a move has it for
	overruns uint32       // how many cover it
	revoked  bool
}

func (e *entry) token() Token { return Token{e.tenure, e.n} }

func (e *entry) wants() candidacies {
	if e.shared == nil {
		return nil
	}
	return *e.shared
}

// placeSet is a set of places.
type placeSet []uint64

func (p *placeSet) add(i uint32) {
	for int(i/64) >= len(*p) {
		*p = append(*p, 0)
	}
	(*p)[i/64] |= 1 << (i % 64)
}

func (p placeSet) has(i uint32) bool { return int(i/64) < len(p) && p[i/64]&(1<<(i%64)) != 0 }

// keys are all that a coordinator knows. The place 0 is not used.
type keys struct {
	index   index
	all     []entry
	spare   []uint32                // places that are not in use
	floor   uint32                  // the greatest number of a key that was forgotten: those of new keys are above it
	states  map[uint32]state        // that holders have left,
	waiting map[protocol.NodeID]int // and how many bytes of whom
}

func (ks *keys) at(place uint32) Key { return ks.all[place].key }

func (ks *keys) find(k Key) (place uint32, ok bool) { return ks.index.find(k, ks) }

// reserve makes room for as many keys in all.
func (ks *keys) reserve(n int) {
	ks.index.reserve(n)
	ks.all = slices.Grow(ks.all, max(0, n+1-len(ks.all)))
}

// place returns the place of a key, and makes it known.
func (ks *keys) place(k Key) uint32 {
	if i, ok := ks.find(k); ok {
		return i
	}
	if len(ks.all) == 0 {
		ks.all = append(ks.all, entry{})
	}
	k = clone(k)
	i := uint32(len(ks.all))
	if n := len(ks.spare); n > 0 {
		i, ks.spare = ks.spare[n-1], ks.spare[:n-1]
	} else {
		ks.all = append(ks.all, entry{})
	}
	ks.index.add(k, i)
	ks.all[i] = entry{key: k, last: ks.floor}
	return i
}

// tidy forgets a key that nobody wants or holds. What it was given as numbers must not be given again, so the keys that
// come later begin above them; where that would cost too many numbers the key is not forgotten.
func (c *Coordinator) tidy(i uint32) bool {
	ks := &c.keys
	e := &ks.all[i]
	if e.key == "" || e.holder != 0 || e.overruns != 0 || e.last > 1<<c.cfg.Bits/4 {
		return false
	}
	for _, w := range e.wants() {
		if c.slots[w.slot] != nil {
			return false
		}
	}
	ks.floor = max(ks.floor, e.last)
	ks.index.remove(e.key, i)
	ks.takeState(i)
	*e = entry{}
	ks.spare = append(ks.spare, i)
	return true
}

// sort puts places into the order of their keys. Most are told apart by their first bytes, which are fetched once: of many
// keys each look at one is a miss of the processor's cache.
func (ks *keys) sort(places []uint32) {
	type item struct {
		first uint64
		place uint32
	}
	all := make([]item, len(places))
	for i, p := range places {
		var b [8]byte
		copy(b[:], ks.all[p].key) // what is shorter ends with zeros, and a longer one that has zeros there is compared below
		all[i] = item{binary.BigEndian.Uint64(b[:]), p}
	}
	slices.SortFunc(all, func(a, b item) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return strings.Compare(string(ks.all[a.place].key), string(ks.all[b.place].key))
	})
	for i := range all {
		places[i] = all[i].place
	}
}

// hold makes a session the holder of a free key.
func (c *Coordinator) hold(i uint32, s *session, t Token, fx *Effects) {
	e := &c.keys.all[i]
	e.holder, e.tenure, e.n, e.revoked = s.slot, t.Tenure, t.N, false
	s.keys++
	fx.Changes = append(fx.Changes, Change{e.key, s.id, t})
}

// free makes a key free, and assigns it to whom it is reserved for.
func (c *Coordinator) free(i uint32, s *session, fx *Effects) {
	e := &c.keys.all[i]
	s.keys--
	e.holder, e.revoked = 0, false
	fx.Changes = append(fx.Changes, Change{Key: e.key})
	c.redeem(i, fx)
}

// redeem assigns a key that has become free to whom it is reserved for, or drops the reservation.
func (c *Coordinator) redeem(i uint32, fx *Effects) {
	e := &c.keys.all[i]
	if e.reserved == 0 {
		c.tidy(i)
	}
	if e.reserved == 0 || e.holder != 0 || e.overruns != 0 {
		return
	}
	to := c.slots[e.reserved]
	e.reserved = 0
	if to == nil || !c.assign(i, to, fx) {
		c.tellChange(i, fx)
	}
}

// unreserve drops the moves to a session that is over, and tells placement of them.
func (c *Coordinator) unreserve(s *session, fx *Effects) {
	var places []uint32
	for i := range c.keys.all {
		if c.keys.all[i].reserved == s.slot {
			places = append(places, uint32(i))
		}
	}
	c.keys.sort(places)
	for _, i := range places {
		c.keys.all[i].reserved = 0
		c.tellChange(i, fx)
	}
}

// tellChange tells who holds a key now.
func (c *Coordinator) tellChange(i uint32, fx *Effects) {
	k := c.keyState(i)
	fx.Changes = append(fx.Changes, Change{k.Key, k.Session, k.Token})
}

// assign is G4. It reports whether the key was assigned.
func (c *Coordinator) assign(i uint32, to *session, fx *Effects) bool {
	e := &c.keys.all[i]
	// It is given nothing before it has shown that it knows of its admission: it would have to refuse.
	admitted := to.shown || c.cfg.Mutant.Has("unadmitted-assigned")
	if !c.covered || c.over || c.resigning || e.holder != 0 || e.overruns != 0 || !admitted || to.conn == 0 || to.traits.Draining || !e.wanted(to.slot) {
		return false
	}
	t := Token{c.tenure, uint64(e.last) + 1}
	switch {
	case c.cfg.Mutant.Has("no-number"):
		t.N = 1
	case c.cfg.Mutant.Has("next-takes-adopted-tenure") && e.tenure != 0 && e.tenure < c.tenure:
		t.Tenure, t.N = e.tenure, e.n+1
	}
	if t.N >= 1<<c.cfg.Bits {
		c.end(fx, UsedUp, 0)
		return false
	}
	e.last++
	c.hold(i, to, t, fx)
	c.touch(to)
	to.assigns = append(to.assigns, Held{Key: e.key, Token: t, State: c.keys.takeState(i)})
	return true
}

// revoke asks a holder to give a key up.
func (c *Coordinator) revoke(s *session, h Held) {
	c.touch(s)
	s.revokes = append(s.revokes, h)
}

// move is what placement wants. It is dropped if it does not fit the state any more.
func (c *Coordinator) move(m *Move, fx *Effects) {
	i, ok := c.keys.find(m.Key)
	if !ok {
		return
	}
	e := &c.keys.all[i]
	holder := c.slots[e.holder]
	var from Session
	if holder != nil {
		from = holder.id
	}
	to := c.session(m.To)
	usable := to != nil && e.wanted(to.slot) || m.To == Session{}
	if !c.covered || c.over || c.resigning || from != m.From || !usable || to == holder && to != nil {
		c.tellChange(i, fx)
		return
	}
	e.reserved = 0
	if to != nil {
		e.reserved = to.slot
	}
	if holder == nil {
		c.redeem(i, fx)
	} else if !e.revoked {
		e.revoked = true
		c.revoke(holder, Held{Key: e.key, Token: e.token()})
	}
}

// session returns the session with that name, or nil.
func (c *Coordinator) session(id Session) *session {
	if p := c.processes[lifeOf(id)]; p != nil && p.session != nil && p.session.id == id {
		return p.session
	}
	return nil
}

// released is G5: it counts for that very token.
func (c *Coordinator) released(s *session, held []Held, fx *Effects) {
	for j := range held {
		h := &held[j]
		i, ok := c.keys.find(h.Key)
		if !ok {
			continue
		}
		e := &c.keys.all[i]
		if e.holder != s.slot || e.token() != h.Token && !c.cfg.Mutant.Has("release-of-any-token") {
			continue
		}
		if len(h.State) > 0 {
			c.keys.leave(i, state{s.id.Member, h.State})
		}
		c.free(i, s, fx)
	}
}

// covers lets an overrun cover its key.
func (s *session) covers(o overrun, ks *keys) {
	if _, ok := s.overruns[o]; ok {
		return
	}
	if s.overruns == nil {
		s.overruns = make(map[overrun]struct{})
	}
	s.overruns[o] = struct{}{}
	ks.all[o.key].overruns++
}

// ended is G12.
func (c *Coordinator) ended(s *session, h *Held, fx *Effects) {
	i, ok := c.keys.find(h.Key)
	if !ok {
		return
	}
	o := overrun{i, h.Token}
	if _, ok := s.overruns[o]; ok {
		delete(s.overruns, o)
		c.uncover(i, fx)
	}
}

func (c *Coordinator) uncover(i uint32, fx *Effects) {
	c.keys.all[i].overruns--
	c.redeem(i, fx)
}

// freeAll frees all keys of a session that is over, and uncovers those of its overruns.
func (c *Coordinator) freeAll(s *session, fx *Effects) {
	c.dropOverruns(s, fx)
	held := make([]uint32, 0, s.keys)
	for i := 0; len(held) < s.keys; i++ {
		if c.keys.all[i].holder == s.slot {
			held = append(held, uint32(i))
		}
	}
	c.keys.sort(held)
	for _, i := range held {
		c.free(i, s, fx)
	}
}

func (c *Coordinator) dropOverruns(s *session, fx *Effects) {
	if len(s.overruns) == 0 {
		return
	}
	places := make([]uint32, 0, len(s.overruns))
	for o := range s.overruns {
		places = append(places, o.key)
	}
	s.overruns = nil
	c.keys.sort(places)
	for _, i := range places {
		c.uncover(i, fx)
	}
}

// list takes the lists of a report: what it holds, what it wants, and, if its session has reported before, which
// overruns there are. What the session held and does not list is free (G5).
func (c *Coordinator) list(s *session, msg *Message, again bool, fx *Effects) {
	ks := &c.keys
	ks.reserve(max(len(msg.Held), len(msg.Wants)))
	if !again { // all that it lists is new of it
		fx.Changes, fx.Wanted = slices.Grow(fx.Changes, len(msg.Held)), slices.Grow(fx.Wanted, len(msg.Wants))
	}
	var held, wanted placeSet
	for j := range msg.Held {
		h := &msg.Held[j]
		if h.Token.Tenure == 0 || h.Key == "" {
			continue
		}
		i := ks.place(h.Key)
		e := &ks.all[i]
		switch {
		case e.holder == 0:
			c.hold(i, s, h.Token, fx)
		case e.holder != s.slot:
			c.revoke(s, Held{Key: e.key, Token: h.Token})
			continue
		case e.token() != h.Token:
			// Cannot be, if both keep the rules. What it runs counts.
			e.tenure, e.n, e.revoked = h.Token.Tenure, h.Token.N, true
		}
		if h.Token.Tenure == c.tenure {
			e.last = max(e.last, uint32(min(h.Token.N, 1<<c.cfg.Bits)))
		}
		held.add(i)
		if e.revoked {
			c.revoke(s, Held{Key: e.key, Token: e.token()})
		}
	}
	var made rewants
	for j := range msg.Wants {
		if i := c.want(s, &msg.Wants[j], &made, fx); i != 0 {
			wanted.add(i)
		}
	}
	if !again {
		return
	}
	var void, unwanted []uint32
	for i := range uint32(len(ks.all)) {
		if ks.all[i].holder == s.slot && !held.has(i) && !c.cfg.Mutant.Has("unlisted-stays") {
			void = append(void, i)
		}
		if !wanted.has(i) && c.unwant(i, s, &made) {
			unwanted = append(unwanted, i)
		}
	}
	ks.sort(unwanted)
	for _, i := range unwanted {
		fx.Wanted = append(fx.Wanted, ks.all[i].key)
		c.tidy(i)
	}
	// From here on keys are assigned, if they are reserved.
	c.listOverruns(s, msg.Overruns, fx)
	ks.sort(void)
	for _, i := range void {
		c.free(i, s, fx)
	}
}

// listOverruns replaces the overruns of a session.
func (c *Coordinator) listOverruns(s *session, overruns []Held, fx *Effects) {
	if c.cfg.Mutant.Has("overruns-not-covered") {
		return
	}
	old := s.overruns
	s.overruns = nil
	for j := range overruns {
		if overruns[j].Key == "" {
			continue
		}
		s.covers(overrun{c.keys.place(overruns[j].Key), overruns[j].Token}, &c.keys)
	}
	c.dropOverruns(&session{overruns: old}, fx)
}

// wanted reports whether a session wants the key, and may get it.
func (e *entry) wanted(slot uint32) bool {
	for _, w := range e.wants() {
		if w.slot == slot {
			return w.priority != protocol.NeverLead
		}
	}
	return false
}

// wantedBy reports whether a session has a candidacy for the key, of any priority.
func (e *entry) wantedBy(s *session) bool {
	return slices.ContainsFunc(e.wants(), func(w want) bool { return w.slot == s.slot })
}

// want adds or replaces a candidacy, and returns the key's place, 0 if it has no name. made has the changes of other keys
// by the same message.
func (c *Coordinator) want(s *session, w *Want, made *rewants, fx *Effects) uint32 {
	if w.Key == "" {
		return 0
	}
	i := c.keys.place(w.Key)
	e := &c.keys.all[i]
	add := want{s.slot, int32(min(max(w.Priority, protocol.NeverLead), protocol.MaxPriority))}
	if !slices.Contains(e.wants(), add) {
		if !e.wantedBy(s) {
			s.wants++
		}
		c.change(e, add, false, made)
		fx.Wanted = append(fx.Wanted, e.key)
	}
	return i
}

// unwant removes a candidacy, and reports whether there was one.
func (c *Coordinator) unwant(i uint32, s *session, made *rewants) bool {
	e := &c.keys.all[i]
	wanted := e.wantedBy(s)
	if wanted {
		s.wants--
		c.change(e, want{slot: s.slot}, true, made)
	}
	return wanted
}

// change adds, replaces or removes a candidacy. The key then shares the list of those that changed alike.
func (c *Coordinator) change(e *entry, w want, not bool, made *rewants) {
	by := rewant{e.shared, w, not}
	if by == made.last {
		e.shared = made.to
		return
	}
	to, ok := made.made[by]
	if !ok {
		var all candidacies
		for _, o := range e.wants() {
			if o.slot != w.slot && c.slots[o.slot] != nil {
				all = append(all, o)
			}
		}
		if !not {
			at, _ := slices.BinarySearchFunc(all, c.slots[w.slot].id, func(o want, id Session) int { return c.slots[o.slot].id.Compare(id) })
			all = slices.Insert(all, at, w)
		}
		if len(all) > 0 {
			all = slices.Clip(all)
			to = &all
		}
		if made.made == nil {
			made.made = make(map[rewant]*candidacies)
		}
		made.made[by] = to
	}
	e.shared, made.last, made.to = to, by, to
}

// sweep removes what refers to sessions that are over, so that their slots can be used again.
func (c *Coordinator) sweep(fx *Effects) {
	renamed := make([]uint32, len(c.slots))
	slots := c.slots[:1]
	for i, s := range c.slots[1:] {
		if s != nil {
			s.slot = uint32(len(slots))
			slots = append(slots, s)
			renamed[i+1] = s.slot
		}
	}
	clear(c.slots[len(slots):])
	c.slots, c.gone = slots, 0
	var forgotten []Key
	made := make(map[*candidacies]*candidacies)
	for i := range c.keys.all {
		e := &c.keys.all[i]
		to, ok := made[e.shared]
		if !ok && e.shared != nil {
			var kept candidacies
			for _, w := range *e.shared {
				if w.slot = renamed[w.slot]; w.slot != 0 {
					kept = append(kept, w)
				}
			}
			if kept != nil {
				to = &kept
			}
			made[e.shared] = to
		}
		e.shared = to
		e.holder, e.reserved = renamed[e.holder], renamed[e.reserved]
		if key := e.key; c.tidy(uint32(i)) {
			forgotten = append(forgotten, key)
		}
	}
	slices.Sort(forgotten)
	fx.Wanted = append(fx.Wanted, forgotten...)
}

// KeyState is what a coordinator knows of a key.
type KeyState struct {
	Key      Key     `json:"key"`
	Session  Session `json:"session,omitzero"` // the holder; zero: free
	Token    Token   `json:"token,omitzero"`
	Revoked  bool    `json:"revoked,omitzero"`  // it was asked to give it up
	Overrun  bool    `json:"overrun,omitzero"`  // work of an older holder may still run
	Reserved Session `json:"reserved,omitzero"` // for whom a Move has it; zero: for none
	Wants    Wants   `json:"-"`
}

// Wants are the sessions that want a key. Those of keys that are wanted alike are mostly equal. The next step of the
// coordinator may change them.
type Wants struct {
	c   *Coordinator
	all *candidacies
}

// All calls yield for each session, with its priority, in the order of Compare, until it returns false.
func (w Wants) All(yield func(Session, int) bool) {
	if w.all == nil {
		return
	}
	for _, o := range *w.all {
		if s := w.c.slots[o.slot]; s != nil && !yield(s.id, int(o.priority)) {
			return
		}
	}
}

func (c *Coordinator) keyState(i uint32) KeyState {
	e := &c.keys.all[i]
	k := KeyState{Key: e.key, Revoked: e.revoked, Overrun: e.overruns != 0, Wants: Wants{c, e.shared}}
	if s := c.slots[e.holder]; s != nil {
		k.Session, k.Token = s.id, e.token()
	}
	if s := c.slots[e.reserved]; s != nil {
		k.Reserved = s.id
	}
	return k
}

// Key returns what is known of a key, and false if it is not known.
func (c *Coordinator) Key(k Key) (KeyState, bool) {
	i, ok := c.keys.find(k)
	if !ok {
		return KeyState{}, false
	}
	return c.keyState(i), true
}

// Known is how many keys are known.
func (c *Coordinator) Known() int { return c.keys.index.used }

// Keys calls yield for each known key, in no order, until it returns false.
func (c *Coordinator) Keys(yield func(*KeyState) bool) { c.KeysFrom(0, yield) }

// KeysFrom is as Keys, and returns where to go on later, 0 if there are no more. What is known all the while is yielded
// once.
func (c *Coordinator) KeysFrom(next uint32, yield func(*KeyState) bool) uint32 {
	for i := int(next); i < len(c.keys.all); i++ {
		if c.keys.all[i].key == "" {
			continue
		}
		k := c.keyState(uint32(i))
		if !yield(&k) {
			return uint32(i + 1)
		}
	}
	return 0
}

// Wanted calls yield for each session that wants a key, with its priority, in the order of Compare. It returns what
// [Coordinator.Key] does.
func (c *Coordinator) Wanted(k Key, yield func(Session, int) bool) (KeyState, bool) {
	ks, ok := c.Key(k)
	ks.Wants.All(yield)
	return ks, ok
}

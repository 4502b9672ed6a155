package placement

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strings"
)

// zones are the zones of the members that take keys.
type zones struct {
	of     []int   // by slot
	load   []int64 // by zone, in keys
	weight []int   // by zone: the sum of its members'
}

// measure counts what the zones have.
func (r *run) measure() {
	r.zones = zones{of: make([]int, len(r.list))}
	seen := make(map[string]int)
	for _, slot := range r.order {
		m := &r.list[slot]
		if !m.takes() {
			continue
		}
		z, ok := seen[m.Zone]
		if !ok {
			z = len(seen)
			seen[m.Zone] = z
			r.zones.load, r.zones.weight = append(r.zones.load, 0), append(r.zones.weight, 0)
		}
		r.of[slot] = z
		r.zones.load[z] += int64(r.count[slot])
		r.zones.weight[z] += m.Weight
	}
}

// compareZones compares the keys of two members' zones, by weight.
func (r *run) compareZones(a, b int32) int {
	x, y := r.of[a], r.of[b]
	return compare(r.zones.load[x], r.zones.weight[x], r.zones.load[y], r.zones.weight[y])
}

// leveling is one pass that evens out the load, by moving some keys or all that can move.
type leveling struct {
	*run
	held    bool      // keys that are held move too
	members []int32   // that take keys
	has     [][]int32 // by slot, the keys that it may give; some of them it has no more
	pairs   map[[2]int32]*pair
	slack   int64
}

// even moves keys from loaded members to idle ones until no move improves anything: loose ones, or all of them. The
// next move is always one from the most loaded member to the least loaded one, if there is one.
func (r *run) even(held bool) {
	e := &leveling{run: r, held: held, pairs: make(map[[2]int32]*pair)}
	if !held && len(r.loose) == 0 {
		return
	}
	var total int64
	for _, slot := range r.order {
		if r.list[slot].takes() {
			e.members = append(e.members, slot)
			total += r.load[slot]
		}
	}
	if len(e.members) < 2 {
		return
	}
	if e.held && r.least != r.most {
		e.slack = share(total/int64(len(e.members)), r.set.Slack, 100)
	}
	for e.next() {
	}
}

// byLoad is the order in which members give.
func (e *leveling) byLoad(a, b int32) int {
	x, y := 2*e.load[a]-e.least, 2*e.load[b]-e.least
	switch {
	case x < 0 || y < 0:
		if c := cmp.Compare(min(y, 0), min(x, 0)); c != 0 {
			return c
		}
		x, y = 0, 0
	}
	return cmp.Or(compare(y, e.list[b].Weight, x, e.list[a].Weight), e.compareZones(b, a), strings.Compare(e.list[a].ID, e.list[b].ID))
}

// byRoom is the order in which members take.
func (e *leveling) byRoom(a, b int32) int {
	return cmp.Or(compare(2*e.load[a]+e.least, e.list[a].Weight, 2*e.load[b]+e.least, e.list[b].Weight), e.compareZones(a, b), strings.Compare(e.list[a].ID, e.list[b].ID))
}

// improves reports whether it lowers the sum of load²/weight when a gives a load to b.
func (e *leveling) improves(a, b int32, load, slack int64) bool {
	gives := 2*e.load[a] - load - slack
	return gives > 0 && compare(2*e.load[b]+load+slack, e.list[b].Weight, gives, e.list[a].Weight) < 0
}

// spreads reports whether it leaves the loads as they are and improves the zones when a gives a key to b. Only keys of
// equal loads are spread.
func (e *leveling) spreads(a, b int32) bool {
	x, y := e.of[a], e.of[b]
	return x != y && e.least == e.most && e.count[a] > 0 && 2*e.load[a] >= e.least &&
		compare(2*e.load[b]+e.least, e.list[b].Weight, 2*e.load[a]-e.least, e.list[a].Weight) == 0 &&
		compare(2*e.zones.load[y]+1, e.zones.weight[y], 2*e.zones.load[x]-1, e.zones.weight[x]) < 0
}

// next makes the next move, or returns false if there is none.
func (e *leveling) next() bool {
	var give, take int32 = none, none
	for _, slot := range e.members {
		if give == none || e.byLoad(slot, give) < 0 {
			give = slot
		}
		if e.room(slot) && (take == none || e.byRoom(slot, take) < 0) {
			take = slot
		}
	}
	if take == none || !e.improves(give, take, e.least, 0) && len(e.zones.load) < 2 {
		return false
	}
	if k := e.pick(give, take); k != none {
		e.move(k, take, loaded)
		return true
	}

	// These two have nothing for each other.
	givers, takers := slices.Clone(e.members), slices.DeleteFunc(slices.Clone(e.members), func(slot int32) bool { return !e.room(slot) })
	slices.SortFunc(givers, e.byLoad)
	slices.SortFunc(takers, e.byRoom)
	for _, b := range takers {
		for _, a := range givers {
			if !e.improves(a, b, e.least, 0) {
				break
			}
			if k := e.pick(a, b); k != none {
				e.move(k, b, loaded)
				return true
			}
		}
	}
	for _, b := range takers {
		for _, a := range givers {
			if e.spreads(a, b) {
				if k := e.pair(a, b).first(e); k != none {
					e.move(k, b, zoned)
					return true
				}
			}
		}
	}
	return false
}

// move moves a key.
func (e *leveling) move(k, to int32, why cause) {
	from := e.owner[k]
	e.zones.load[e.of[from]]--
	e.zones.load[e.of[to]]++
	e.take(k)
	e.give(k, to)
	e.has[to] = append(e.has[to], k)
	if e.why[k] == stays || e.why[k] == loaded || e.why[k] == zoned {
		if e.why[k] == stays {
			e.moved = append(e.moved, k)
		}
		e.why[k] = why
	}
}

// pick returns the key that a gives to b: a loose one if there is one; the greatest of those that close no more than
// the gap, or else the smallest; and of these the one that ranks b highest above a.
func (e *leveling) pick(a, b int32) int32 {
	if !e.improves(a, b, e.least, 0) {
		return none
	}
	p := e.pair(a, b)
	if e.least == e.most {
		return p.first(e)
	}
	wa, wb := e.list[a].Weight, e.list[b].Weight
	ideal := share(e.load[a], wb, wa+wb) - share(e.load[b], wa, wa+wb)
	if k := p.fit(e, p.give[:p.loose], ideal, 0); k != none {
		return k
	}
	return p.fit(e, p.give[p.loose:], ideal, e.slack)
}

// pair is what one member can give to another one, the best first.
type pair struct {
	a, b  int32
	give  []offer
	loose int // how many of them are loose
	begin int // those before are given, if all loads are equal
	known int // how many keys a had when this was made
	limit int // the greatest number of offers, if all loads are equal
	more  bool
}

// offer is a key that can be given.
type offer struct {
	key   int32
	fixed bool  // it is held, and not loose
	load  int64 // in thousandths
	gap   int64 // by how much it ranks the taker above the giver
}

// pair finds the offers of a to b, or brings them up to date.
func (e *leveling) pair(a, b int32) *pair {
	e.sortOut()
	at := [2]int32{a, b}
	p := e.pairs[at]
	if p == nil {
		p = &pair{a: a, b: b, limit: e.likely(a, b)}
		e.pairs[at] = p
		p.find(e)
	} else {
		p.grow(e)
	}
	return p
}

// likely is how many keys a is likely to give to b, and some more, if all loads are equal.
func (e *leveling) likely(a, b int32) int {
	var total, lack int64
	weight := 0
	for _, slot := range e.members {
		total += e.load[slot]
		weight += e.list[slot].Weight
	}
	missing := func(slot int32) int64 { return (share(total, e.list[slot].Weight, weight) - e.load[slot]) / e.least }
	for _, slot := range e.members {
		lack += max(0, missing(slot))
	}
	return 16 + int(float64(max(0, -missing(a)))*float64(max(0, missing(b)))/float64(max(1, lack)))
}

// sortOut finds which keys each member may give.
func (e *leveling) sortOut() {
	if e.has != nil {
		return
	}
	e.has = make([][]int32, len(e.list))
	add := func(k int32) {
		if owner := e.owner[k]; owner != none && e.list[owner].takes() {
			e.has[owner] = append(e.has[owner], k)
		}
	}
	if !e.held {
		for _, k := range e.loose {
			add(k)
		}
		return
	}
	for i := range e.keys {
		if e.keys[i].next == none {
			add(int32(i))
		}
	}
}

// find finds the offers.
func (p *pair) find(e *leveling) {
	p.give, p.begin, p.known, p.more = p.give[:0], 0, len(e.has[p.a]), false
	some := e.least == e.most && 3*p.limit < len(e.has[p.a]) // the best are enough
	for o := range p.offers(e, e.has[p.a]) {
		if p.more && e.compare(o, p.give[p.limit-1]) >= 0 {
			continue
		}
		p.give = append(p.give, o)
		if some && len(p.give) >= 2*p.limit {
			p.cut(e)
		}
	}
	if some && len(p.give) > p.limit {
		p.cut(e)
	} else {
		slices.SortFunc(p.give, e.compare)
	}
	p.split()
}

// grow adds what a was given since. Were all found anew, many keys that pass through a would cost their square.
func (p *pair) grow(e *leveling) {
	late := e.has[p.a][p.known:]
	if len(late) == 0 {
		return
	}
	p.known = len(e.has[p.a])
	p.give, p.begin = p.give[p.begin:], 0 // a has those before no more, or they are among the late
	for o := range p.offers(e, late) {
		at, _ := slices.BinarySearchFunc(p.give, o, e.compare)
		if at < len(p.give) || !p.more { // what is worse than the best is found when these are given
			p.give = slices.Insert(p.give, at, o)
		}
	}
	p.split()
}

// offers are those among some keys of a.
func (p *pair) offers(e *leveling, keys []int32) iter.Seq[offer] {
	return func(yield func(offer) bool) {
		last, can := int32(none), false
		for _, k := range keys {
			if e.owner[k] != p.a {
				continue
			}
			key := &e.keys[k]
			if key.class != last {
				last = key.class
				c := &e.classes[last]
				ta, oka := c.tier(p.a)
				tb, okb := c.tier(p.b)
				can = oka && okb && ta == tb
			}
			if !can {
				continue
			}
			why := e.why[k]
			if !yield(offer{
				key: k, fixed: why == stays || why == loaded || why == zoned, load: key.load,
				gap: cost(key.hash, &e.list[p.a]) - cost(key.hash, &e.list[p.b]),
			}) {
				return
			}
		}
	}
}

// split finds where the loose ones end.
func (p *pair) split() {
	p.loose = sort.Search(len(p.give), func(i int) bool { return p.give[i].fixed })
}

// cut keeps the best offers only.
func (p *pair) cut(e *leveling) {
	slices.SortFunc(p.give, e.compare)
	p.give, p.more = p.give[:p.limit], true
}

// compare is the order of offers.
func (e *leveling) compare(x, y offer) int {
	switch {
	case x.fixed != y.fixed:
		if y.fixed {
			return -1
		}
		return 1
	case x.load != y.load:
		return cmp.Compare(y.load, x.load)
	case x.gap != y.gap:
		return cmp.Compare(y.gap, x.gap)
	}
	return e.byName(x.key, y.key)
}

// first is the best offer, if all loads are equal.
func (p *pair) first(e *leveling) int32 {
	for {
		for ; p.begin < len(p.give); p.begin++ {
			if k := p.give[p.begin].key; e.owner[k] == p.a {
				return k
			}
		}
		if !p.more {
			return none
		}
		p.limit *= 2
		p.find(e)
	}
}

// fit is the best of some offers for a gap.
func (p *pair) fit(e *leveling, offers []offer, ideal, slack int64) int32 {
	enough := sort.Search(len(offers), func(i int) bool { return e.improves(p.a, p.b, offers[i].load, slack) })
	small := max(enough, sort.Search(len(offers), func(i int) bool { return offers[i].load <= ideal }))
	for _, o := range offers[small:] {
		if e.owner[o.key] == p.a {
			return o.key
		}
	}
	best := int32(none)
	for i := small - 1; i >= enough; i-- {
		o := offers[i]
		if e.owner[o.key] != p.a {
			continue
		}
		if best != none && o.load != e.keys[best].load {
			break
		}
		best = o.key
	}
	return best
}

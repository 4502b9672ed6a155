package placement

import (
	"cmp"
	"slices"
	"strings"
)

// cause is why a key moves, or nobody has it. Causes are in the order in which their moves begin.
type cause uint8

const (
	stays     cause = iota // it does not
	free                   // nobody holds it
	drains                 // its holder is draining
	unwanted               // its holder does not want it
	over                   // its holder has more keys than its quota
	outranked              // a member with a greater priority is there
	misplaced              // a member that it prefers is there
	loaded                 // its holder has more load than another member
	zoned                  // its holder's zone has more keys than another zone

	kept    // for a member that will be back
	refused // by all that are there
	full    // are all that may hold it
)

// step is a move that is planned.
type step struct {
	key, to int32
	cause   cause
	evened  bool  // it goes to a member with less load than the one that ranks first
	was, is int64 // the load or the keys of the giver and of the taker before all moves
}

// run is one computation of a plan. It changes nothing of the planner but what it caches.
type run struct {
	*Planner
	load  []int64 // by slot, of what is counted by owner
	count []int   // likewise, in keys
	owner []int32 // by key: who has it in the plan
	why   []cause // by key
	loose []int32 // the keys that have to go somewhere anyway
	moved []int32 // the others that move
	least int64   // the smallest load of a key
	most  int64   // the greatest
	zones
}

// compute returns all moves of a plan, in the order in which they should begin. Unless it is calm, it moves no held key
// that could stay.
func (p *Planner) compute(calm bool) []step {
	r := p.place(calm)
	was, keys := slices.Clone(r.load), slices.Clone(r.zones.load)
	first := make([]int32, len(r.loose))
	for i, k := range r.loose {
		first[i] = r.owner[k]
	}
	r.even(false)
	if calm {
		r.even(true)
	}

	plan := make([]step, 0, len(r.loose)+len(r.moved))
	for i, k := range r.loose {
		if to := r.owner[k]; to != none && to != p.keys[k].holder {
			plan = append(plan, step{key: k, to: to, cause: r.why[k], evened: to != first[i]})
		}
	}
	byCause := func(a, b step) int { return cmp.Compare(a.cause, b.cause) }
	if !slices.IsSortedFunc(plan, byCause) {
		slices.SortStableFunc(plan, byCause)
	}
	for _, k := range r.moved {
		if from, to := p.keys[k].holder, r.owner[k]; to != from && r.why[k] != stays {
			s := step{key: k, to: to, cause: r.why[k], was: was[from], is: was[to]}
			if s.cause == zoned {
				s.was, s.is = keys[r.of[from]], keys[r.of[to]]
			}
			plan = append(plan, s)
			r.why[k] = stays // it may be in moved twice
		}
	}
	return plan
}

// place finds the keys that have to go somewhere anyway, and gives each to the best member that has room.
func (p *Planner) place(calm bool) *run {
	r := &run{
		Planner: p, load: make([]int64, len(p.list)), count: make([]int, len(p.list)),
		owner: make([]int32, len(p.keys)), why: make([]cause, len(p.keys)), least: never,
	}
	p.quotas = slices.ContainsFunc(p.list, func(m member) bool { return m.Quota > 0 })
	flat := !p.quotas
	for i := range p.keys {
		k := &p.keys[i]
		r.owner[i] = none
		if k.name == "" {
			continue
		}
		r.least, r.most = min(r.least, k.load), max(r.most, k.load)
		c := p.candidates(k.class)
		flat = flat && c.flat
		owner := k.owner()
		switch {
		case owner == none && k.last != none && p.list[k.last].away():
			r.why[i] = kept
			continue
		case owner == none:
			r.why[i] = free
		case k.next != none || !p.list[owner].Back.IsZero():
			// A move that has begun is not turned round, and a member that is away gives up its keys by itself.
		default:
			if _, ok := c.tier(owner); !ok {
				r.why[i] = unwanted
				if p.list[owner].Draining {
					r.why[i] = drains
				}
			}
		}
		if r.why[i] != stays {
			r.loose = append(r.loose, int32(i))
			continue
		}
		r.give(int32(i), owner)
	}
	if p.quotas {
		r.sort(r.loose) // who comes first matters
	}
	for _, k := range r.loose {
		if to, _ := r.best(k); to != none {
			r.give(k, to)
		} else if from := p.keys[k].holder; from != none {
			r.give(k, from) // it stays, for want of anywhere to go
		}
	}
	if calm && !flat {
		r.prefer()
	}
	r.measure()
	return r
}

// sort sorts keys by cause and then in an order that depends on their names only.
func (r *run) sort(keys []int32) {
	slices.SortFunc(keys, func(a, b int32) int { return cmp.Or(cmp.Compare(r.why[a], r.why[b]), r.byName(a, b)) })
}

// byName is an order of keys that depends on their names only.
func (p *Planner) byName(a, b int32) int {
	x, y := &p.keys[a], &p.keys[b]
	return cmp.Or(cmp.Compare(x.hash, y.hash), strings.Compare(x.name, y.name))
}

// give gives a key that nobody has to a member.
func (r *run) give(k, to int32) {
	r.owner[k] = to
	r.load[to] += r.keys[k].load
	r.count[to]++
}

// take takes a key from who has it.
func (r *run) take(k int32) {
	from := r.owner[k]
	r.owner[k] = none
	r.load[from] -= r.keys[k].load
	r.count[from]--
}

// room reports whether a member can be given one more key.
func (r *run) room(slot int32) bool {
	q := r.list[slot].Quota
	return q == 0 || r.count[slot] < q
}

// best is the best member with room for a key, with its tier: of those in the highest tier the one that held it last,
// or else the first in the ranking.
func (r *run) best(k int32) (best, tier int32) {
	key := &r.keys[k]
	best = none
	var least int64
	for _, c := range r.classes[key.class].from {
		if best != none && c.tier < tier || !r.room(c.slot) {
			continue
		}
		x := cost(key.hash, &r.list[c.slot])
		if c.slot == key.last {
			x = -1
		}
		if best == none || c.tier > tier || x < least || x == least && r.list[c.slot].ID < r.list[best].ID {
			best, tier, least = c.slot, c.tier, x
		}
	}
	return best, tier
}

// prefer finds the held keys that another member should have, whatever the load: quotas, priorities, preferences.
func (r *run) prefer() {
	var found []int32
	if r.quotas {
		found = r.overQuota()
	}
	at := len(found)
	for i := range r.keys {
		k := &r.keys[i]
		if k.name == "" || k.holder == none || k.next != none || r.why[i] != stays {
			continue
		}
		if c := &r.classes[k.class]; !c.flat {
			if tier, ok := c.tier(k.holder); ok && slices.ContainsFunc(c.from, func(c candidate) bool { return c.tier > tier }) {
				found = append(found, int32(i))
			}
		}
	}
	slices.SortFunc(found[at:], r.byName)
	for _, i := range found {
		k := &r.keys[i]
		to, better := r.best(i)
		if r.why[i] == over {
			if to == none {
				r.why[i] = stays
				continue
			}
		} else {
			tier, _ := r.classes[k.class].tier(k.holder)
			if !k.replace && to != none && better/priority > tier/priority {
				to, better = r.bestOf(i, tier/priority)
			}
			if to == none || better <= tier {
				continue
			}
			r.why[i] = misplaced
			if better/priority > tier/priority {
				r.why[i] = outranked
			}
		}
		r.take(i)
		r.give(i, to)
		r.loose = append(r.loose, i)
	}
}

// bestOf is best among the members with one priority.
func (r *run) bestOf(k, of int32) (best, tier int32) {
	c := &r.classes[r.keys[k].class]
	all := c.from
	defer func() { c.from = all }()
	c.from = slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.tier/priority != of })
	return r.best(k)
}

// overQuota returns the keys that members have above their quotas: those that they rank lowest.
func (r *run) overQuota() (found []int32) {
	for _, slot := range r.order {
		m := &r.list[slot]
		if m.Quota == 0 || r.count[slot] <= m.Quota || !m.takes() {
			continue
		}
		var has []int32
		for i := range r.keys {
			if k := &r.keys[i]; r.owner[i] == slot && k.holder == slot && k.next == none && r.why[i] == stays {
				has = append(has, int32(i))
			}
		}
		slices.SortFunc(has, func(a, b int32) int {
			return cmp.Or(cmp.Compare(cost(r.keys[b].hash, m), cost(r.keys[a].hash, m)), r.byName(a, b))
		})
		for _, k := range has[:min(len(has), r.count[slot]-m.Quota)] {
			r.why[k] = over
			found = append(found, k)
		}
	}
	return found
}

package placement

import (
	"cmp"
	"math/big"
	"slices"
	"time"
)

// twin computes a plan from the rules, as slowly as they read, for small worlds.
type twin struct {
	members map[string]Member
	keys    map[string]Key
	owner   map[string]string
	loose   map[string]bool
	slack   int
}

// plan returns who should be given each key that moves.
func (w *twin) plan(now time.Time, calm bool) map[string]string {
	w.owner, w.loose = make(map[string]string), make(map[string]bool)
	var loose [3][]string // free, drained, unwanted
	for name, k := range w.keys {
		owner := cmp.Or(k.Next, k.Holder)
		_, wanted := w.tier(name, owner)
		away := owner != "" && !w.members[owner].Back.IsZero()
		switch {
		case owner == "" && k.Last != "" && w.members[k.Last].Back.After(now):
		case owner == "":
			loose[0] = append(loose[0], name)
		case k.Next != "" || away || wanted:
			w.owner[name] = owner
		case w.members[owner].Draining:
			loose[1] = append(loose[1], name)
		default:
			loose[2] = append(loose[2], name)
		}
	}
	for _, names := range loose {
		w.sort(names)
		for _, name := range names {
			w.loose[name] = true
			if to := cmp.Or(w.best(name, -1), w.keys[name].Holder); to != "" {
				w.owner[name] = to
			}
		}
	}
	if calm {
		w.prefer()
	}
	w.even(false)
	if calm {
		w.even(true)
	}
	moves := make(map[string]string)
	for name, to := range w.owner {
		if k := w.keys[name]; k.Next == "" && to != k.Holder {
			moves[name] = to
		}
	}
	return moves
}

func (w *twin) sort(names []string) {
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(hash(a), hash(b)), cmp.Compare(a, b)) })
}

func (w *twin) ids() []string {
	var ids []string
	for id := range w.members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *twin) takes(id string) bool {
	m, ok := w.members[id]
	return ok && m.Back.IsZero() && !m.Draining
}

// tier is the priority that a member has for a key, with the preferences below the point.
func (w *twin) tier(key, id string) (int, bool) {
	k := w.keys[key]
	if !w.takes(id) {
		return 0, false
	}
	t := 0
	if k.Wants != nil {
		at := slices.IndexFunc(k.Wants, func(x Want) bool { return x.Member == id })
		if at < 0 {
			return 0, false
		}
		t = cmp.Or(k.Wants[at].Priority, 100) * 4
	}
	if k.Prefer == id {
		t += 2
	}
	if k.Zone != "" && w.members[id].Zone == k.Zone {
		t++
	}
	return t, true
}

func (w *twin) count(id string) (n int) {
	for _, owner := range w.owner {
		if owner == id {
			n++
		}
	}
	return n
}

func (w *twin) room(id string) bool {
	q := w.members[id].Quota
	return q == 0 || w.count(id) < q
}

func (w *twin) cost(key, id string) int64 {
	m := w.members[id]
	weight := cmp.Or(m.Weight, 100)
	return cost(hash(key), &member{hash: hash(id), inverse: inverse(weight)})
}

// best is where a key should go, among the members with one priority if it is not negative.
func (w *twin) best(key string, priority int) string {
	best, top := "", -1
	for _, id := range w.ids() {
		t, ok := w.tier(key, id)
		if !ok || !w.room(id) || priority >= 0 && t/4 != priority {
			continue
		}
		last := w.keys[key].Last
		if t > top || t == top && best != last && (id == last || w.cost(key, id) < w.cost(key, best)) {
			best, top = id, t
		}
	}
	return best
}

func (w *twin) held(id string) (names []string) {
	for name, k := range w.keys {
		if k.Holder == id && k.Next == "" && w.owner[name] == id && !w.loose[name] {
			names = append(names, name)
		}
	}
	w.sort(names)
	return names
}

func (w *twin) prefer() {
	var above, others []string
	for _, id := range w.ids() {
		if m := w.members[id]; w.takes(id) && m.Quota > 0 && w.count(id) > m.Quota {
			names := w.held(id)
			slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(w.cost(b, id), w.cost(a, id)) })
			above = append(above, names[:min(len(names), w.count(id)-m.Quota)]...)
		}
	}
	for _, id := range w.ids() {
		for _, name := range w.held(id) {
			if !slices.Contains(above, name) {
				others = append(others, name)
			}
		}
	}
	w.sort(others)
	for _, name := range above {
		if to := w.best(name, -1); to != "" {
			w.owner[name], w.loose[name] = to, true
		}
	}
	for _, name := range others {
		k := w.keys[name]
		has, ok := w.tier(name, k.Holder)
		if !ok {
			continue // it is away
		}
		to := w.best(name, -1)
		if got, _ := w.tier(name, to); to != "" && !k.Replace && got/4 > has/4 {
			to = w.best(name, has/4)
		}
		if got, _ := w.tier(name, to); to != "" && got > has {
			w.owner[name], w.loose[name] = to, true
		}
	}
}

func (w *twin) load(key string) int64 {
	n, _ := thousandths(w.keys[key].Load)
	return n
}

func (w *twin) loadOf(id string) (sum int64) {
	for name, owner := range w.owner {
		if owner == id {
			sum += w.load(name)
		}
	}
	return sum
}

// per is x for each unit of weight.
func per(x int64, weight int) *big.Rat { return big.NewRat(x, int64(weight)) }

func (w *twin) zone(id string, more int64) *big.Rat {
	weight := 0
	for _, other := range w.ids() {
		if m := w.members[other]; w.takes(other) && m.Zone == w.members[id].Zone {
			more += int64(w.count(other)) * 2
			weight += cmp.Or(m.Weight, 100)
		}
	}
	return per(more, weight)
}

// even makes the best move until there is none.
func (w *twin) even(held bool) {
	if !held && len(w.loose) == 0 {
		return
	}
	for w.move(held) {
	}
}

func (w *twin) move(held bool) bool {
	least, most := int64(never), int64(0)
	for name := range w.keys {
		least, most = min(least, w.load(name)), max(most, w.load(name))
	}
	var givers []string
	total := int64(0)
	for _, id := range w.ids() {
		if w.takes(id) {
			givers = append(givers, id)
			total += w.loadOf(id)
		}
	}
	if len(givers) < 2 {
		return false
	}
	var slack int64
	if held && least != most {
		slack = share(total/int64(len(givers)), w.slack, 100)
	}
	weight := func(id string) int { return cmp.Or(w.members[id].Weight, 100) }
	takers := slices.DeleteFunc(slices.Clone(givers), func(id string) bool { return !w.room(id) })
	slices.SortFunc(givers, func(a, b string) int {
		return cmp.Or(per(2*w.loadOf(b)-least, weight(b)).Cmp(per(2*w.loadOf(a)-least, weight(a))), w.zone(b, 0).Cmp(w.zone(a, 0)), cmp.Compare(a, b))
	})
	slices.SortFunc(takers, func(a, b string) int {
		return cmp.Or(per(2*w.loadOf(a)+least, weight(a)).Cmp(per(2*w.loadOf(b)+least, weight(b))), w.zone(a, 0).Cmp(w.zone(b, 0)), cmp.Compare(a, b))
	})
	gain := func(a, b string, load, slack int64) int {
		return per(2*w.loadOf(a)-load-slack, weight(a)).Cmp(per(2*w.loadOf(b)+load+slack, weight(b)))
	}
	for _, zones := range []bool{false, true} {
		for _, b := range takers {
			for _, a := range givers {
				best := ""
				ideal := share(w.loadOf(a), weight(b), weight(a)+weight(b)) - share(w.loadOf(b), weight(a), weight(a)+weight(b))
				for name, k := range w.keys {
					fixed := !w.loose[name]
					if w.owner[name] != a || k.Next != "" || fixed && !held {
						continue
					}
					ta, oka := w.tier(name, a)
					tb, okb := w.tier(name, b)
					if !oka || !okb || ta != tb {
						continue
					}
					s := slack
					if !fixed {
						s = 0
					}
					if zones {
						if least != most || w.members[a].Zone == w.members[b].Zone || gain(a, b, least, 0) != 0 || w.zone(b, 1).Cmp(w.zone(a, -1)) >= 0 {
							continue
						}
					} else if gain(a, b, w.load(name), s) <= 0 {
						continue
					}
					if best == "" || w.better(name, best, a, b, ideal) {
						best = name
					}
				}
				if best != "" {
					w.owner[best] = b
					return true
				}
			}
		}
	}
	return false
}

// better reports whether it is better to move x from a to b than y.
func (w *twin) better(x, y, a, b string, ideal int64) bool {
	if w.loose[x] != w.loose[y] {
		return w.loose[x]
	}
	if lx, ly := w.load(x), w.load(y); lx != ly {
		if (lx <= ideal) != (ly <= ideal) {
			return lx <= ideal
		}
		return (lx > ly) == (lx <= ideal)
	}
	gx, gy := w.cost(x, a)-w.cost(x, b), w.cost(y, a)-w.cost(y, b)
	if gx != gy {
		return gx > gy
	}
	return cmp.Or(cmp.Compare(hash(x), hash(y)), cmp.Compare(x, y)) < 0
}

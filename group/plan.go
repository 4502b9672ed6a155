package group

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// retry is when a move is thought of again that the machine did not carry out: its taker was not attached, for example.
const retry = 200 * time.Millisecond

// many is for how many keys planning keeps memory.
const many = 4096

// piece is how many orders are handed over at once, so that the Placer is told the first of many meanwhile.
const piece = 1024

// planning tells placement what changes, and hands its moves in. The plan itself is made in a goroutine of its own: the
// coordinator's loop has renewals to answer. What is below the mutex is shared with that; the rest belongs to the loop.
type planning struct {
	c *coordinator

	members  bool // they may have changed
	rescan   bool // all keys are to be told anew
	keys     []machine.Key
	kept     int           // how many of them are different, when many wait for the Placer
	alike    machine.Wants // of the key before, in one feed
	standing []machine.Standing
	told     map[string]placement.Member
	ever     map[string]bool // all that were told
	absent   []machine.Absence
	inFlux   map[machine.Key]struct{}
	wants    []placement.Want // the latest list, which most keys share

	wake chan struct{} // has room for one
	done chan struct{}
	busy *pulse // with the Placer

	mu     sync.Mutex
	orders [][]order
	waits  int  // how many these are
	more   bool // of one feed follow, and there is no plan before them
	asks   []func(*Plan, error)
}

// order is one call of a Placer: of SetMember if member is set, of RemoveMember if gone is, of Grow if grow is, else of
// SetKey or RemoveKey.
type order struct {
	member *placement.Member
	gone   string
	grow   int
	key    placement.Key
	remove bool
}

func (p *planning) init(c *coordinator, busy *pulse) error {
	p.c, p.told, p.ever, p.inFlux = c, map[string]placement.Member{}, map[string]bool{}, map[machine.Key]struct{}{}
	p.wake, p.done, p.busy, p.rescan = make(chan struct{}, 1), make(chan struct{}), busy, true
	placer, err := c.g.placer()
	if err != nil {
		return err
	}
	c.g.own.Go(func() {
		p.run(placer) // until stop
		c.g.stuck.Add(-1)
	})
	return nil
}

// stop has no more plans made. It does not wait for the Placer, which may hang.
func (p *planning) stop() {
	p.c.g.stuck.Add(1)
	close(p.done)
}

// run makes the plans.
func (p *planning) run(placer placement.Placer) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-p.wake:
		case <-timer.C:
		}
		p.busy.begin()
		p.mu.Lock()
		pieces, more, waits := p.orders, p.more, p.waits
		p.orders, p.waits = nil, 0
		var asks []func(*Plan, error)
		if !more {
			asks, p.asks = p.asks, nil
		}
		p.mu.Unlock()
		if waits > many {
			p.c.ring() // feed has waited for that
		}
		told := 0
		for _, orders := range pieces {
			for i := range orders {
				if told++; told%batch == 0 { // one alone does not take long: a batch is what may hang
					p.busy.next()
				}
				select {
				case <-p.done:
					return
				default:
				}
				if err := orders[i].tell(placer); err != nil {
					p.c.g.log.Warn("placement refuses what it is told", "error", err)
				}
			}
		}
		if more {
			p.busy.end()
			continue
		}
		if len(asks) > 0 {
			plan, err := outlook(placer)
			for _, ask := range asks {
				ask(plan, err)
			}
		}
		began := time.Now()
		moves, next := placer.Plan(began)
		took := time.Since(began)
		p.busy.end()
		p.pass(moves)
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), time.Millisecond))
		}
		if took > time.Millisecond { // a plan of many keys waits for more to come together
			select {
			case <-time.After(min(2*took, retry)):
			case <-p.done:
				return
			}
		}
	}
}

// batch is how many moves are handed in at once, so that the first keys of many are led while the last are assigned.
const batch = 2048

// pass leaves moves for the loop.
func (p *planning) pass(moves []placement.Move) {
	somebody := func(id string) bool { return id != "" }
	if err := placement.Check(moves, somebody); err != nil {
		p.c.g.log.Error("not all moves of placement are carried out", "error", err)
		seen := map[string]bool{}
		moves = slices.DeleteFunc(slices.Clone(moves), func(m placement.Move) bool {
			bad := seen[m.Key] || placement.Check([]placement.Move{m}, somebody) != nil
			seen[m.Key] = true
			return bad
		})
	}
	for some := range slices.Chunk(moves, batch) {
		p.c.put(arrival{do: func() { p.handIn(some) }})
	}
}

func (o *order) tell(to placement.Placer) error {
	switch {
	case o.member != nil:
		return to.SetMember(*o.member)
	case o.gone != "":
		return to.RemoveMember(o.gone)
	case o.grow > 0:
		if g, ok := to.(interface{ Grow(keys int) }); ok { // as placement.Planner has it
			g.Grow(o.grow)
		}
		return nil
	case o.remove:
		_ = to.RemoveKey(o.key.Name) // which may not know it
		return nil
	}
	return to.SetKey(o.key)
}

// explained is how many entries a list of a [Plan] has at most: together they fit into one message.
const explained = 10_000

// explain calls answer with what would be done next, in the goroutine that makes the plans.
func (p *planning) explain(answer func(*Plan, error)) {
	p.mu.Lock()
	p.asks = append(p.asks, answer)
	p.mu.Unlock()
	ring(p.wake)
}

func outlook(placer placement.Placer) (*Plan, error) {
	e, ok := placer.(interface {
		Explain(now time.Time) placement.Outlook
	})
	if !ok {
		return nil, fmt.Errorf("the placement of this group, %T, does not explain what it would do; want one with the method Explain of placement.Planner", placer)
	}
	plan := &Plan{Outlook: e.Explain(time.Now())}
	plan.Omitted = max(len(plan.Now)-explained, 0) + max(len(plan.Later)-explained, 0) + max(len(plan.Idle)-explained, 0)
	plan.Now, plan.Later, plan.Idle = first(plan.Now), first(plan.Later), first(plan.Idle)
	return plan, nil
}

// first is never nil, so that it is a list in JSON.
func first[E any](all []E) []E { return append([]E{}, all[:min(len(all), explained)]...) }

// dirty notes that something about a key has changed. Until the first rescan placement knows no key.
func (p *planning) dirty(k machine.Key) {
	if _, loaded := p.c.loads[k]; loaded || !p.rescan {
		p.keys = append(p.keys, k)
	}
}

// sessions are those of now.
func (p *planning) sessions() []machine.Standing {
	p.standing = p.c.machine.Sessions(p.standing[:0])
	return p.standing
}

// feed tells placement what has changed in a turn.
func (p *planning) feed() {
	if !p.c.covered || !p.members && len(p.keys) == 0 {
		return
	}
	p.mu.Lock()
	waits := p.waits
	p.mu.Unlock()
	if waits > many { // the Placer has not taken them: what changes meanwhile is told once
		if len(p.keys) > 2*max(p.kept, many) {
			slices.Sort(p.keys)
			p.keys = slices.Compact(p.keys)
			p.kept = len(p.keys)
		}
		return
	}
	p.kept = 0
	var orders []order
	if p.members {
		p.members = false
		orders = p.meet(orders)
	}
	next := func(left int) *order {
		if len(orders) >= piece {
			p.hand(orders, true)
			orders = nil
		}
		orders = append(slices.Grow(orders, min(left, piece-len(orders))), order{})
		return &orders[len(orders)-1]
	}
	p.alike = machine.Wants{}
	if p.rescan && len(p.told) > 0 {
		p.rescan = false
		left := p.c.machine.Known()
		if left > 0 { // an order to grow by 0 would be one about a key without a name
			next(1).grow = left
		}
		p.c.machine.Keys(func(ks *machine.KeyState) bool {
			p.order(ks, next(left))
			left--
			return true
		})
		p.keys = slices.DeleteFunc(p.keys, func(k machine.Key) bool { // but those that are gone
			_, ok := p.c.machine.Key(k)
			return ok
		})
	}
	if len(p.keys) > 1 {
		slices.Sort(p.keys)
		p.keys = slices.Compact(p.keys)
	}
	for i, k := range p.keys {
		o := next(len(p.keys) - i)
		if ks, ok := p.c.machine.Key(k); ok {
			p.order(&ks, o)
			continue
		}
		o.key.Name, o.remove = string(k), true
		delete(p.c.loads, k)
		delete(p.inFlux, k)
	}
	if p.keys = p.keys[:0]; cap(p.keys) > many {
		p.keys = nil
	}
	if len(orders) > 0 {
		p.hand(orders, false)
	}
}

// hand leaves orders for who makes the plans. more is that others of the same feed follow.
func (p *planning) hand(orders []order, more bool) {
	p.mu.Lock()
	p.orders, p.waits, p.more = append(p.orders, orders), p.waits+len(orders), more
	p.mu.Unlock()
	ring(p.wake)
}

// meet tells which members are there. A member that is not admitted gets no keys, and is not told.
func (p *planning) meet(orders []order) []order {
	all := map[string]placement.Member{}
	for _, s := range p.sessions() {
		if s.Admitted {
			id := string(s.Session.Member)
			m := placement.Member{ID: id, Weight: min(s.Traits.Weight, placement.MaxWeight), Zone: s.Traits.Zone, Draining: s.Traits.Draining}
			if s.Traits.Back > 0 { // it is leaving: what it gives up is kept for it
				if m.Draining, m.Back = false, p.told[id].Back; m.Back.IsZero() {
					m.Back = time.Now().Add(s.Traits.Back)
				}
			}
			all[id] = m
		}
	}
	now := p.c.g.env.now().Boot
	p.absent = p.c.machine.Away(p.absent[:0])
	for _, a := range p.absent {
		if m, ok := p.told[string(a.Member)]; ok {
			if m.Back.IsZero() {
				m.Back = time.Now().Add(a.Until.Sub(now))
			}
			all[m.ID] = m
		}
	}
	for id, m := range all {
		before, ok := p.told[id]
		if ok && before == m {
			continue
		}
		p.rescan, p.ever[id] = p.rescan || !ok, true
		orders = append(orders, order{member: &m})
	}
	for id := range p.told {
		if _, ok := all[id]; !ok {
			orders = append(orders, order{gone: id})
		}
	}
	if p.told = all; len(orders) > 0 {
		p.wants = nil // it may name somebody who is gone
	}
	return orders
}

// order makes o what is to be told of a key.
func (p *planning) order(ks *machine.KeyState, o *order) {
	if ks.Revoked || ks.Reserved != (machine.Session{}) {
		p.inFlux[ks.Key] = struct{}{}
	} else {
		delete(p.inFlux, ks.Key)
	}
	key := &o.key
	key.Name, key.Load, key.Prefer = string(ks.Key), p.c.loads[ks.Key], string(p.c.pins[ks.Key])
	key.Wants = p.wanted(ks)
	if held := ks.Session != (machine.Session{}); held {
		key.Holder = string(ks.Session.Member)
		if _, ok := p.told[key.Holder]; !ok {
			o.remove = true // until its holder is admitted nothing is to be done about it
		}
	} else if len(key.Wants) == 0 {
		o.remove = true
	}
	if next := string(ks.Reserved.Member); next != "" && next != key.Holder {
		if _, ok := p.told[next]; ok {
			key.Next = next
		}
	}
}

// wanted returns who may be given a key.
func (p *planning) wanted(ks *machine.KeyState) []placement.Want {
	if ks.Wants == p.alike && len(p.absent) == 0 {
		return p.wants
	}
	p.alike = ks.Wants
	same, n := true, 0
	var fresh []placement.Want
	add := func(s machine.Session, priority int) bool {
		w := placement.Want{Member: string(s.Member), Priority: priority}
		if same && n < len(p.wants) && p.wants[n] == w { // then it was told, and may have the key
			n++
			return true
		}
		if _, ok := p.told[w.Member]; !ok || priority == protocol.NeverLead {
			return true
		}
		if same {
			fresh, same = append(make([]placement.Want, 0, n+1), p.wants[:n]...), false
		}
		if !slices.ContainsFunc(fresh, func(o placement.Want) bool { return o.Member == w.Member }) {
			fresh = append(fresh, w)
		}
		return true
	}
	ks.Wants.All(add)
	if len(p.absent) > 0 && p.c.g.isShard(ks.Key) { // it will want them when it is back
		for _, a := range p.absent {
			add(machine.Session{Member: a.Member}, 0)
		}
	}
	if same && n < len(p.wants) {
		fresh, same = append(make([]placement.Want, 0, n), p.wants[:n]...), false
	}
	if !same {
		p.wants = fresh
	}
	if p.wants == nil {
		p.wants = []placement.Want{} // nil would be every member
	}
	return p.wants
}

// handIn gives moves to the machine, which drops what does not fit any more.
func (p *planning) handIn(moves []placement.Move) {
	takers, ready := map[string]machine.Session{}, map[machine.Session]bool{}
	for _, s := range p.sessions() {
		if s.Admitted && s.Conn != 0 {
			takers[string(s.Session.Member)], ready[s.Session] = s.Session, true
		}
	}
	all := make([]machine.Move, 0, len(moves))
	for i := range moves {
		m := &moves[i]
		ks, ok := p.c.machine.Key(machine.Key(m.Key))
		to, is := takers[m.To]
		if !is && !p.ever[m.To] {
			p.ever[m.To] = true // it is said once
			p.c.g.log.Error("a move of placement is not carried out: it names nobody; want the id of a member", "key", m.Key, "to", m.To)
		}
		if len(takers) < len(ready) { // two processes have one id: the key is for the one that wants it
			p.c.machine.Wanted(machine.Key(m.Key), func(s machine.Session, priority int) bool {
				wants := ready[s] && string(s.Member) == m.To && priority != protocol.NeverLead
				if wants {
					to = s
				}
				return !wants
			})
		}
		if ok && is && string(ks.Session.Member) == m.From {
			all = append(all, machine.Move{Key: ks.Key, From: ks.Session, To: to})
		} else {
			p.keys = append(p.keys, machine.Key(m.Key))
		}
	}
	p.c.in = machine.Input{Kind: machine.Moves, Moves: all}
	p.c.step()
	stuck := map[machine.Key]bool{}
	for i := range moves {
		ks, _ := p.c.machine.Key(machine.Key(moves[i].Key))
		switch moves[i].To {
		case string(ks.Session.Member): // which is a change
		case string(ks.Reserved.Member):
			p.keys = append(p.keys, ks.Key)
		default:
			stuck[machine.Key(moves[i].Key)] = true
			continue
		}
		p.c.g.counted.move(moves[i].Cause)
	}
	if len(stuck) > 0 { // told at once they would be planned at once, and stuck again
		p.keys = slices.DeleteFunc(p.keys, func(k machine.Key) bool { return stuck[k] })
		time.AfterFunc(retry, func() { p.c.put(arrival{do: func() { p.keys = slices.AppendSeq(p.keys, maps.Keys(stuck)) }}) })
	}
}

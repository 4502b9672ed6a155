package group

import (
	"maps"
	"slices"
	"time"

	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// planner is the placement of package group/placement for one tenure, told what changes as a coordinator's runtime tells
// it. Its moves are handed in a little later, when they may not fit any more.
type planner struct {
	*placement.Planner
	told   map[string]placement.Member
	dirty  map[machine.Key]bool // keys to be told of
	late   bool                 // moves are on their way
	wake   sim.Time             // a look at it is planned for then
	begins int                  // moves of the latest plan
}

func newPlanner(w *World) *planner {
	p, err := placement.New(placement.Settings{Quiet: []time.Duration{-1, 300 * time.Millisecond}[w.chance.Below(2)]})
	if err != nil {
		panic(err)
	}
	return &planner{Planner: p, told: map[string]placement.Member{}, dirty: map[machine.Key]bool{}, wake: forever}
}

// wall is the time of a process's clock as placement has it.
func (p *process) wall() time.Time { return time.Unix(0, int64(p.reading().Mono)) }

// plan tells the planner how things are, and lets it plan.
func (p *process) plan(c *coordinator) {
	w, pl := p.w, c.planner
	if pl.late || !c.Covered() {
		return
	}
	refused := func(err error) {
		if err != nil {
			w.fail(Placed, p.node, "placement refuses what it is told: %v", err)
		}
	}
	if pl.meet(p, c, refused) {
		c.Keys(func(k *machine.KeyState) bool { pl.dirty[k.Key] = true; return true })
	}
	for _, k := range slices.Sorted(maps.Keys(pl.dirty)) {
		if key, ok := pl.key(c, k); ok {
			refused(pl.SetKey(key))
		} else {
			_ = pl.RemoveKey(string(k)) // which it may not know
		}
	}
	clear(pl.dirty)
	moves, next := pl.Plan(p.wall())
	if err := placement.Check(moves, func(id string) bool { _, ok := pl.told[id]; return ok }); err != nil {
		w.fail(Placed, p.node, "%v", err)
	}
	if pl.begins = len(moves); len(moves) > 0 {
		pl.late = true
		w.in(w.chance.Exp(2*time.Millisecond), func() { p.deliver(func() { p.handIn(c, moves) }) })
	}
	if !next.IsZero() {
		at := w.now + sim.Time(max(next.Sub(p.wall()), time.Millisecond))
		if at < pl.wake || pl.wake <= w.now {
			pl.wake = at
			w.at(at, func() { p.deliver(func() { p.place(c) }) })
		}
	}
}

// changed notes of which keys placement is to be told.
func (pl *planner) changed(fx *machine.Effects) {
	for i := range fx.Changes {
		pl.dirty[fx.Changes[i].Key] = true
	}
	for _, k := range fx.Wanted {
		pl.dirty[k] = true
	}
}

// meet tells which members are there, and who is away. It reports whether one has come.
func (pl *planner) meet(p *process, c *coordinator, refused func(error)) (came bool) {
	all := map[string]placement.Member{}
	for _, s := range c.Sessions(nil) {
		if !s.Admitted {
			continue
		}
		m := placement.Member{ID: string(s.Session.Member), Weight: s.Traits.Weight, Zone: s.Traits.Zone, Draining: s.Traits.Draining}
		if s.Traits.Back > 0 {
			if m.Draining, m.Back = false, pl.told[m.ID].Back; m.Back.IsZero() {
				m.Back = p.wall().Add(s.Traits.Back)
			}
		}
		all[m.ID] = m
	}
	now := p.reading().Boot
	for _, a := range c.Away(nil) {
		if m, ok := pl.told[string(a.Member)]; ok {
			if m.Back.IsZero() {
				m.Back = p.wall().Add(a.Until.Sub(now))
			}
			all[m.ID] = m
		}
	}
	for _, n := range p.w.nodes { // in their order
		id := string(n.ID)
		m, is := all[id]
		before, was := pl.told[id]
		switch {
		case is && (!was || before != m):
			came = came || !was
			refused(pl.SetMember(m))
		case was && !is:
			refused(pl.RemoveMember(id))
		}
	}
	pl.told = all
	return came
}

// key is what the planner is told of a key; false if it has nothing to do with it.
func (pl *planner) key(c *coordinator, name machine.Key) (placement.Key, bool) {
	k, known := c.Key(name)
	key := placement.Key{Name: string(name), Holder: string(k.Session.Member), Wants: []placement.Want{}}
	if !known {
		return key, false
	}
	add := func(s machine.Session, priority int) bool {
		w := placement.Want{Member: string(s.Member), Priority: priority}
		same := func(o placement.Want) bool { return o.Member == w.Member }
		if _, ok := pl.told[w.Member]; ok && priority != protocol.NeverLead && !slices.ContainsFunc(key.Wants, same) {
			key.Wants = append(key.Wants, w)
		}
		return true
	}
	c.Wanted(name, add)
	for _, a := range c.Away(nil) { // it will want its keys when it is back
		add(machine.Session{Member: a.Member}, 0)
	}
	if _, ok := pl.told[key.Holder]; !ok && key.Holder != "" || key.Holder == "" && len(key.Wants) == 0 {
		return key, false
	}
	if next := string(k.Reserved.Member); next != key.Holder {
		if _, ok := pl.told[next]; ok {
			key.Next = next
		}
	}
	return key, true
}

// handIn gives moves to the machine, which drops what does not fit any more. What was not carried out is thought of again
// a little later.
func (p *process) handIn(c *coordinator, moves []placement.Move) {
	if p.c != c {
		return
	}
	pl := c.planner
	pl.late = false
	sessions := c.Sessions(nil)
	all := make([]machine.Move, 0, len(moves))
	for _, m := range moves {
		k, ok := c.Key(machine.Key(m.Key))
		i := slices.IndexFunc(sessions, func(s machine.Standing) bool { // of two processes with one id the one that wants it
			wants := false
			c.Wanted(machine.Key(m.Key), func(o machine.Session, priority int) bool {
				wants = wants || o == s.Session && priority != protocol.NeverLead
				return !wants
			})
			return string(s.Session.Member) == m.To && s.Admitted && s.Conn != 0 && wants
		})
		if ok && i >= 0 && string(k.Session.Member) == m.From {
			all = append(all, machine.Move{Key: k.Key, From: k.Session, To: sessions[i].Session})
		}
	}
	p.coordinate(c, machine.Input{Kind: machine.Moves, Moves: all})
	if p.c != c {
		return
	}
	stuck := map[machine.Key]bool{}
	for _, m := range moves {
		name := machine.Key(m.Key)
		switch k, _ := c.Key(name); m.To {
		case string(k.Session.Member), string(k.Reserved.Member):
			pl.dirty[name] = true
		default:
			delete(pl.dirty, name)
			if p.w.s.Mutant != CarelessMoves {
				stuck[name] = true
			}
		}
	}
	p.w.in(20*time.Millisecond, func() {
		p.deliver(func() {
			maps.Copy(pl.dirty, stuck)
			p.place(c)
		})
	})
}

// restless says what placement still wants to change, "" if nothing.
func (pl *planner) restless() string {
	if pl.late || pl.begins > 0 {
		return "placement still moves keys"
	}
	return ""
}

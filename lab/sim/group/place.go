package group

import (
	"slices"
	"strings"

	machine "github.com/electd/elect/internal/protocol/group"
)

// place gives free keys to members that want them, by chance. It keeps what is held, except what a drain has to move.
func (p *process) place(c *coordinator) {
	if p.c != c || c == nil {
		return
	}
	if c.planner != nil {
		p.plan(c)
		return
	}
	w := p.w
	sessions := c.Sessions(nil)
	states := statesOf(c)
	var moves []machine.Move
	for i := range states {
		k := &states[i]
		if k.Overrun {
			w.saw(sawOverrunCovers)
			continue
		}
		if k.Revoked || k.Reserved != (machine.Session{}) {
			continue
		}
		held := k.Session != (machine.Session{})
		if held && !sessionDrains(sessions, k.Session) {
			continue
		}
		if to := w.wanting(c, sessions, k.Key, held); to != (machine.Session{}) && to != k.Session {
			moves = append(moves, machine.Move{Key: k.Key, From: k.Session, To: to})
		}
	}
	if len(moves) > 0 {
		p.coordinate(c, machine.Input{Kind: machine.Moves, Moves: moves})
	}
}

// statesOf lists the known keys by name.
func statesOf(c *coordinator) []machine.KeyState {
	var all []machine.KeyState
	c.Keys(func(k *machine.KeyState) bool {
		all = append(all, *k)
		return true
	})
	slices.SortFunc(all, func(a, b machine.KeyState) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return all
}

func sessionDrains(all []machine.Standing, s machine.Session) bool {
	i := slices.IndexFunc(all, func(x machine.Standing) bool { return x.Session == s })
	return i >= 0 && all[i].Traits.Draining
}

// wanting picks a session that may be given a key, one that is not to be emptied if there is one.
func (w *World) wanting(c *coordinator, sessions []machine.Standing, k machine.Key, strict bool) machine.Session {
	var good, poor []machine.Session
	c.Wanted(k, func(s machine.Session, _ int) bool {
		i, ok := slices.BinarySearchFunc(sessions, s, func(x machine.Standing, s machine.Session) int { return x.Session.Compare(s) })
		if !ok {
			return true
		}
		if (!sessions[i].Admitted || sessions[i].Conn == 0) && !w.chance.Chance(0.15) {
			return true // placement is wrong now and then: the machine drops the move
		}
		if sessions[i].Traits.Draining {
			poor = append(poor, s)
		} else {
			good = append(good, s)
		}
		return true
	})
	if len(good) == 0 && !strict {
		good = poor
	}
	if len(good) == 0 {
		return machine.Session{}
	}
	return good[w.chance.Below(len(good))]
}

// shuffle moves keys by chance; wild moves need not fit the state: placement may be wrong, and late.
func (p *process) shuffle(c *coordinator, wild bool) {
	if p.c != c || c == nil {
		return
	}
	w := p.w
	sessions := c.Sessions(nil)
	states := statesOf(c)
	if len(sessions) == 0 || len(states) == 0 {
		return
	}
	var moves []machine.Move
	for range 1 + w.chance.Below(3) {
		k := states[w.chance.Below(len(states))]
		m := machine.Move{Key: k.Key, From: k.Session, To: sessions[w.chance.Below(len(sessions))].Session}
		if wild && w.chance.Chance(0.3) {
			m.From = sessions[w.chance.Below(len(sessions))].Session
		}
		if wild && w.chance.Chance(0.2) {
			m.To.Epoch++
		}
		if wild && w.chance.Chance(0.1) {
			m.Key = w.keys[w.chance.Below(len(w.keys))].name
		}
		moves = append(moves, m)
	}
	if !wild {
		p.coordinate(c, machine.Input{Kind: machine.Moves, Moves: moves})
		return
	}
	w.in(w.chance.Exp(p.settings.Promise/10), func() {
		p.deliver(func() { p.coordinate(p.c, machine.Input{Kind: machine.Moves, Moves: moves}) })
	})
}

package groupbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/stamp"
)

// round brings something about once, and measures it. Afterwards all nodes are there again.
func (s *setup) round(ctx context.Context, kind Kind) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	switch kind {
	case Move:
		return s.moves(ctx)
	case Joins:
		return s.joins(ctx)
	}
	victim, err := s.victim(ctx, kind)
	if err != nil {
		return err
	}
	m := s.nodes[victim]
	before := s.mine(victim)
	var events []ofNode
	at := stamp.Now()
	switch kind {
	case Leave:
		events, err = s.leave(ctx, m)
	case Power:
		err = cluster.Kill(m.keeper) // which would tell of it
		for _, pid := range []int{m.pid, m.cand.PID} {
			if one := cluster.Kill(pid); !errors.Is(one, os.ErrProcessDone) { // each of the three ends without the others
				err = errors.Join(err, one)
			}
		}
	default:
		err = cluster.Kill(m.pid)
	}
	if err != nil {
		return err
	}
	more, err := s.without(ctx, m)
	if err != nil {
		return err
	}
	events = append(events, more...)
	s.result.took(kind, at, before, events)
	if kind != Leave {
		s.killed(victim)
	}
	s.judge(events)
	if err := m.gone(); err != nil {
		return err
	}
	if err := s.start(ctx, victim); err != nil {
		return err
	}
	return s.admitted(ctx)
}

// leave has a node leave, and returns what has happened there.
func (s *setup) leave(ctx context.Context, m *member) ([]ofNode, error) {
	a, err := m.ask(ctx, order{Do: doLeave})
	if err != nil {
		return nil, err
	}
	return addLog(nil, m.index, a.Log)
}

// without waits until the other nodes lead all keys, and returns what has happened there.
func (s *setup) without(ctx context.Context, m *member) ([]ofNode, error) {
	s.nodes[m.index] = nil
	_ = m.in.Close()
	if err := s.led(ctx); err != nil {
		return nil, err
	}
	return s.logs(ctx)
}

// gone waits until nothing of a node lives.
func (m *member) gone() error {
	select {
	case <-m.cand.Done(): // its keeper, too
		return nil
	case <-time.After(patience):
		return fmt.Errorf("something of %s still lives", m.id)
	}
}

// joins has one more node join, which leaves again when it has its share of the keys.
func (s *setup) joins(ctx context.Context) error {
	if err := s.start(ctx, Nodes); err != nil {
		return err
	}
	if err := s.admitted(ctx); err != nil {
		return err
	}
	m := s.nodes[Nodes]
	at := stamp.Now()
	if _, err := m.ask(ctx, order{Do: doStand}); err != nil {
		return err
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	events, err := s.logs(ctx)
	if err != nil {
		return err
	}
	s.judge(events)
	s.result.balanced(at, s.mine(Nodes), events)
	if events, err = s.leave(ctx, m); err != nil {
		return err
	}
	more, err := s.without(ctx, m)
	if err != nil {
		return err
	}
	s.judge(append(events, more...))
	return errors.Join(m.gone(), s.admitted(ctx))
}

// victim chooses a node: the coordinator, or another one.
func (s *setup) victim(ctx context.Context, kind Kind) (int, error) {
	if !s.system.Group {
		return rand.IntN(Nodes), nil
	}
	all, err := s.each(ctx, order{Do: doCount})
	if err != nil {
		return 0, err
	}
	coordinator := slices.IndexFunc(all, func(a answer) bool { return a.Coordinates })
	if coordinator < 0 {
		return 0, errors.New("the group has no coordinator")
	}
	if kind == Coordinator {
		return coordinator, nil
	}
	return (coordinator + 1 + rand.IntN(Nodes-1)) % Nodes, nil
}

// moves moves keys, one after the other.
func (s *setup) moves(ctx context.Context) error {
	var moved []int
	for range s.cfg.Moves {
		key := rand.IntN(s.keys)
		if slices.Contains(moved, key) {
			continue
		}
		moved = append(moved, key)
		begun, err := s.begun(ctx)
		if err != nil {
			return err
		}
		// The coordinator chooses the taker: placement, which evens the load out, may have moved the key since it was joined.
		give := order{Do: doMove, Key: key}
		if !s.system.Group {
			give.Do = doGive
		}
		if _, err = s.nodes[s.state[key].node].ask(ctx, give); err != nil {
			return err
		}
		if err := s.until(ctx, "the key is led again", func(held, now int) bool { return held == s.keys && now > begun }); err != nil {
			return err
		}
	}
	if err := s.settled(ctx); err != nil { // logs of nodes that change meanwhile are not of one instant
		return err
	}
	events, err := s.logs(ctx)
	if err != nil {
		return err
	}
	s.judge(events)
	s.result.moved(moved, events)
	return nil
}

func (s *setup) begun(ctx context.Context) (sum int, err error) {
	all, err := s.each(ctx, order{Do: doCount})
	for _, a := range all {
		sum += a.Begun
	}
	return sum, err
}

//go:build linux

package storm

import (
	"context"
	"strings"
	"time"

	"github.com/electd/elect/test/chaos/judge"
)

// asked is how long an operator waits for an answer.
const asked = 10 * time.Second

func operatorFaults() []fault {
	soon := func(d *dice, p *Planned) { p.For = 0 }
	return []fault{
		{
			name: "transfer", text: "the leader is asked to hand over to a named node (elect transfer --to)", family: "operator", peersOnly: true, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) { p.For, p.First = 0, follower },
			do: func(a *act) error {
				a.begin(a.Order[0], "")
				a.ask(a.ctx, "transfer", "--to", a.x.cast.ID(a.Order[0]), "--wait", "2s")
				return nil
			},
		},
		{
			name: "transfer-best", text: "the leader is asked to hand over to whom it finds best (elect transfer)", family: "operator", peersOnly: true, weight: 2, least: 2,
			draw: soon,
			do: func(a *act) error {
				a.begin(judge.Nobody, "")
				a.ask(a.ctx, "transfer", "--wait", "2s")
				return nil
			},
		},
		{
			name: "resign", text: "the leader is asked to resign (elect resign)", family: "operator", weight: 2,
			draw: soon,
			do: func(a *act) error {
				a.begin(judge.Nobody, "")
				a.ask(a.ctx, "resign")
				return nil
			},
		},
		{
			name: "pause", text: "a node is told not to lead for a while (elect pause, elect resume)", family: "operator", peersOnly: true, weight: 2, least: 2, alone: "pause",
			draw: func(d *dice, p *Planned) {
				p.For = d.promises(50, 1000)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				id := a.x.cast.ID(a.Order[0])
				a.begin(a.Order[0], "for %v", a.For)
				a.ask(a.ctx, "pause", "--node", id)
				a.hold()
				return a.until("elect resume --node "+id, func(ctx context.Context) error {
					_, err := a.x.cast.Operator(ctx, "resume", "--node", id)
					return err
				})
			},
		},
		{
			name: "add-member", text: "a node more is started and made a voter, and later removed again (elect member add, remove)", family: "operator",
			peersOnly: true, weight: 1, least: 3, alone: "membership",
			draw: func(d *dice, p *Planned) { p.For = d.promises(100, 1000) },
			do:   addMember,
		},
		{
			name: "remove-member", text: "a voter is removed, and later added again (elect member remove, add)", family: "operator",
			peersOnly: true, weight: 1, least: 3, alone: "membership",
			draw: func(d *dice, p *Planned) { p.For = d.promises(20, 500) },
			do:   removeMember,
		},
	}
}

// ask has the operator ask for something, once. That it is refused, or nobody
// answers, is no failure.
func (a *act) ask(ctx context.Context, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	out, err := a.x.cast.Operator(ctx, args...)
	if err != nil {
		a.note("elect %s: %v", strings.Join(args, " "), err)
		return
	}
	a.note("elect %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
}

// addMember starts the node that is no founder, and makes it a voter for a while.
func addMember(a *act) error {
	i := a.x.plan.Voters
	if !a.claim(i) {
		return skip("%s is still there", a.x.cast.ID(i))
	}
	a.begin(i, "for %v", a.For)
	// While it is not known which of two memberships holds, a majority of the larger
	// one is one of both.
	a.x.members(func(voters []bool) { voters[i] = true })
	a.x.cast.Join(i, true)
	if err := a.x.cast.Start(i); err != nil {
		return err
	}
	if err := a.until("elect member add "+a.x.cast.ID(i), func(ctx context.Context) error { return a.x.cast.Add(ctx, i) }); err != nil {
		return err
	}
	a.hold()
	if err := a.remove(i); err != nil {
		return err
	}
	a.x.members(func(voters []bool) { voters[i] = false })
	if err := a.x.cast.Down(i); err != nil { // it waits to be added again
		return err
	}
	if i < len(a.x.disks) && a.x.disks[i] != nil {
		// The next one is new, as if somebody else had got its name.
		a.x.note(judge.Event{Kind: judge.Wiped, Node: i, Fault: a.Fault, ID: a.Number})
		if err := a.x.keep(i, true); err != nil {
			return err
		}
		return a.x.disks[i].Wipe()
	}
	return nil
}

// remove takes a voter out. One that leads hands over first.
func (a *act) remove(i int) error {
	id := a.x.cast.ID(i)
	return a.until("elect member remove "+id, func(ctx context.Context) error {
		_, err := a.x.cast.Operator(ctx, "member", "remove", id)
		if err != nil && strings.Contains(err.Error(), "cannot remove itself") {
			a.ask(ctx, "transfer", "--wait", "2s")
		}
		return err
	})
}

// removeMember takes a founder out for a while. It keeps its disk, and waits to be
// added again.
func removeMember(a *act) error {
	return a.each(func(i int) error {
		a.begin(i, "for %v", a.For)
		a.sicken(i)
		a.x.cast.Join(i, true)
		if err := a.x.restart(i); err != nil { // with join=true it waits when it is removed, and does not end
			return err
		}
		if err := a.remove(i); err != nil {
			return err
		}
		a.hold()
		return a.until("elect member add "+a.x.cast.ID(i), func(ctx context.Context) error { return a.x.cast.Add(ctx, i) })
	})
}

//go:build linux

package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/test/chaos/judge"
)

const (
	asked    = 25 * time.Second // an operator waits for an answer, with what the command itself waits for
	handover = 10 * time.Second // until the work of a named one begins, after it was said to lead
)

// addMemberFault is the fault that adds a node which other faults may affect.
const addMemberFault = "add-member"

// checkPaused is violated when a paused node leads.
const checkPaused = "paused"

func operatorFaults() []fault {
	soon := func(d *dice, p *Planned) { p.For = 0 }
	return []fault{
		{
			name: "transfer", text: "the leader is asked to hand over to a named node (elect transfer --to)", family: "operator", peersOnly: true, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) { p.For, p.First = 0, follower },
			do: func(a *act) error {
				return a.transfer(a.Order[0])
			},
		},
		{
			name: "transfer-best", text: "the leader is asked to hand over to the best candidate (elect transfer)", family: "operator", peersOnly: true, weight: 2, least: 2,
			draw: soon,
			do: func(a *act) error {
				a.begin(judge.NoNode, "")
				a.ask(a.ctx, "transfer", "--wait", "2s")
				return nil
			},
		},
		{
			name: "resign", text: "the leader is asked to resign (elect resign)", family: "operator", weight: 2,
			draw: soon,
			do: func(a *act) error {
				a.begin(judge.NoNode, "")
				a.ask(a.ctx, "resign")
				return nil
			},
		},
		{
			name: "pause", text: "a node is told not to lead for a while (elect pause, elect resume)", family: "operator", peersOnly: true, weight: 2, least: 2, alone: "pause",
			draw: func(d *dice, p *Planned) {
				p.For = d.promises(200, 1000)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				return a.pause(a.founder())
			},
		},
		{
			name: addMemberFault, text: "a node more is started and made a voter, and later removed again (elect member add, remove)", family: "operator",
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

// ask runs an operator's command once, and reports whether it succeeded. A refusal, or no answer,
// is no failure.
func (a *act) ask(ctx context.Context, args ...string) (out []byte, done bool) {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	out, err := a.x.processes.Operator(ctx, args...)
	if err != nil {
		a.note("elect %s: %v", strings.Join(args, " "), err)
		return out, false
	}
	a.note("elect %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
	return out, true
}

// founder is the first founder of the order. The added node loses its disk when it is removed, and
// with it that it was paused.
func (a *act) founder() int {
	return a.Order[slices.IndexFunc(a.Order, func(i int) bool { return i < a.x.plan.Voters })]
}

// transfer asks the leader to hand over to a node. When the command has reported that the node
// leads, its work must begin, unless another fault came between.
func (a *act) transfer(to int) error {
	a.begin(to, "")
	since := a.x.now()
	alone, faults := a.x.quiet(a.Number)
	out, done := a.ask(a.ctx, "transfer", "--to", a.x.processes.ID(to), "--wait", "10s", "-o", "json")
	if !done {
		return nil // its output is in the history
	}
	var answer struct {
		To struct {
			Token int64 `json:",string"`
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return err
	}
	for late := time.Now().Add(handover); ; {
		for _, g := range a.x.tenures(since) {
			if g.node == to && g.token == answer.To.Token || g.token > answer.To.Token {
				return nil // it works, or another one does already
			}
		}
		if !a.wait(10 * time.Millisecond) {
			return nil
		}
		if time.Now().Before(late) {
			continue
		}
		still, begun := a.x.quiet(a.Number)
		if alone && still && begun == faults {
			a.x.complain(checkLive, "elect transfer said that %s leads with token %d; its work has not begun %v later, and no other fault went on", a.x.processes.ID(to), answer.To.Token, handover)
		} else {
			a.note("%s was said to lead, and its work has not begun %v later; there went on: %s", a.x.processes.ID(to), handover, strings.Join(a.x.going(), ", "))
		}
		return nil
	}
}

// pause tells a node not to lead for a while. From a promise after it has agreed, in which it may
// have to give up a term just won, no tenure of it begins, whatever else happens to it, until it is
// resumed; unless its disk has forgotten.
func (a *act) pause(i int) error {
	id := a.x.processes.ID(i)
	a.begin(i, "for %v", a.For)
	knew := a.x.forgotten(i)
	_, done := a.ask(a.ctx, "pause", "--node", id)
	since := a.x.now() + int64(a.x.plan.Promise)
	a.hold()
	if done && a.x.forgotten(i) == knew {
		for _, g := range a.x.tenures(since) {
			if g.node == i && g.lasted > judge.DefaultThaw { // one that was frozen at its beginning acts for an instant
				a.x.complain(checkPaused, "%s was paused, and has begun to lead with token %d before it was resumed", id, g.token)
				break
			}
		}
	}
	return a.until("elect resume --node "+id, func(ctx context.Context) error {
		_, err := a.x.processes.Operator(ctx, "resume", "--node", id)
		return err
	})
}

// addMember starts the node that is no founder, and makes it a voter for a while.
func addMember(a *act) error {
	i := a.x.plan.Voters
	if !a.claim(i) {
		return skip("%s is still there", a.x.processes.ID(i))
	}
	a.begin(i, "for %v", a.For)
	// While it is not known which of two memberships holds, a majority of the larger one is a
	// majority of both.
	a.x.members(func(voters []bool) { voters[i] = true })
	a.x.processes.Join(i, true)
	if err := a.x.processes.Start(i); err != nil {
		return err
	}
	if err := a.until("elect member add "+a.x.processes.ID(i), func(ctx context.Context) error { return a.x.processes.Add(ctx, i) }); err != nil {
		return err
	}
	a.lend(i)
	a.hold()
	if err := a.takeBack(i); err != nil {
		return err
	}
	if err := a.remove(i); err != nil {
		return err
	}
	a.x.members(func(voters []bool) { voters[i] = false })
	if err := a.x.processes.Down(i); err != nil { // it waits to be added again
		return err
	}
	if i < len(a.x.disks) && a.x.disks[i] != nil {
		// The next one is new, as if another node had got its name.
		a.x.note(judge.Event{Kind: judge.Wiped, Node: i, Fault: a.Fault, ID: a.Number})
		if err := a.x.keep(i, true); err != nil {
			return err
		}
		return a.x.disks[i].Wipe()
	}
	return nil
}

// lend allows other faults to affect the added node.
func (a *act) lend(i int) {
	a.x.mu.Lock()
	defer a.x.mu.Unlock()
	a.x.lent, a.x.claimed[i] = true, 0
}

// takeBack ends that, and waits until those in progress have ended.
func (a *act) takeBack(i int) error {
	a.x.mu.Lock()
	a.x.lent = false
	a.x.mu.Unlock()
	for late := time.Now().Add(mostStopped*a.x.plan.Promise + repairTime); !a.claim(i); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("fault %d has %s, and does not end", a.x.claimed[i], a.x.processes.ID(i))
		}
	}
	return nil
}

// remove removes a voter. A leader hands over first.
func (a *act) remove(i int) error {
	id := a.x.processes.ID(i)
	return a.until("elect member remove "+id, func(ctx context.Context) error {
		_, err := a.x.processes.Operator(ctx, "member", "remove", id)
		if err != nil && strings.Contains(err.Error(), "cannot remove itself") {
			a.ask(ctx, "transfer", "--wait", "2s")
		}
		return err
	})
}

// removeMember removes a founder for a while. It keeps its disk, and waits to be added again.
func removeMember(a *act) error {
	return a.each(func(i int) error {
		a.begin(i, "for %v", a.For)
		a.sicken(i)
		a.x.processes.Join(i, true)
		if err := a.x.restart(i); err != nil { // with join=true it waits when it is removed, and does not end
			return err
		}
		if err := a.remove(i); err != nil {
			return err
		}
		a.hold()
		return a.until("elect member add "+a.x.processes.ID(i), func(ctx context.Context) error { return a.x.processes.Add(ctx, i) })
	})
}

//go:build linux

package storm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
)

// mostStopped is the longest stop in promises: a minute of profile lan.
const mostStopped = 60

func processFaults() []fault {
	down := func(d *dice, p *Planned) { // half of those that are killed come back at once
		p.For = 0
		if d.oneIn(2) {
			p.For = d.tail(20)
		}
		if d.oneIn(2) {
			p.First = leader
		}
	}
	led := func(d *dice, p *Planned) { down(d, p); p.First = leader }
	frozen := func(d *dice, p *Planned) {
		p.For = d.tail(mostStopped)
		if d.oneIn(2) {
			p.First = leader
		}
	}
	return []fault{
		kill("kill-node", "elect run, a program that embeds the library, or the front of a guarded one is killed", 4, cluster.Node, down),
		kill("kill-voter", "the process that takes part in the election is killed", 2, cluster.Voter, down),
		kill("kill-keeper", "the keeper is killed", 2, cluster.Keeper, led),
		kill("kill-child", "the command, or the guarded program, is killed", 2, cluster.Child, func(d *dice, p *Planned) { led(d, p); p.For = 0 }),
		kill("kill-family", "all processes of a node are killed", 2, cluster.Family, down),
		{
			name: "kill-all", text: "all processes of all nodes are killed, and come back one after the other", family: "process", weight: 1,
			draw: func(d *dice, p *Planned) { p.Period, p.For = d.promises(0, 50), 0 },
			do:   func(a *act) error { return a.killAll(nil) },
		},
		{
			name: "crash-loop", text: "a node is killed again and again", family: "process", weight: 1,
			draw: func(d *dice, p *Planned) { p.Times, p.Period, p.For = d.between(3, 8), d.promises(5, 60), 0 },
			do: func(a *act) error {
				i, err := a.one()
				if err != nil {
					return err
				}
				a.begin(i, "%d times, every %v", a.Times, a.Period)
				for range a.Times {
					if err := a.x.processes.Kill(i, cluster.Family); err != nil && !errors.Is(err, cluster.ErrNone) {
						return err
					}
					if !a.wait(a.Period) {
						break
					}
				}
				return nil
			},
		},
		{
			name: "terminate", text: "a node is told to end (SIGTERM), and stays away for a while", family: "process", weight: 2,
			draw: func(d *dice, p *Planned) {
				p.For = d.tail(20)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				i, err := a.one()
				if err != nil {
					return err
				}
				a.begin(i, "")
				a.undo("start", func(context.Context) error { return a.x.processes.Start(i) })
				if err := a.x.processes.Down(i); err != nil {
					return err
				}
				a.hold()
				return nil
			},
		},
		{
			name: "rolling-restart", text: "all nodes are told to end and started again, one after the other, the leader last", family: "process", weight: 1, alone: "roll",
			draw: func(d *dice, p *Planned) { p.Period, p.For, p.First = d.promises(20, 200), 0, follower },
			do: func(a *act) error {
				a.begin(judge.NoNode, "every %v", a.Period)
				return a.roll(func(int) error { return nil })
			},
		},
		{
			name: "rolling-upgrade", text: "all nodes are restarted with another version, run with it for a while, and are restarted with the old one", family: "process",
			peersOnly: true, needs: []Ability{Next}, weight: 1, alone: "roll",
			draw: func(d *dice, p *Planned) {
				p.Period, p.For, p.First = d.promises(20, 200), d.promises(100, 1000), follower
			},
			do: upgrade,
		},
		stop("stop-node", "elect run, or the program, is frozen (SIGSTOP)", 3, frozen, cluster.Node),
		stop("stop-voter", "the process that takes part in the election is frozen", 2, frozen, cluster.Voter),
		// It has no effect: its parent, which is not frozen, continues it at once. So no node is
		// ill, and the leader has to lead on.
		stop("stop-keeper", "the keeper is sent SIGSTOP; its parent continues it at once, so that the election is not disturbed", 1, func(d *dice, p *Planned) { p.First, p.For = leader, d.promises(5, 300) }, cluster.Keeper),
		stop("stop-child", "the command, or the guarded program, is frozen", 1, func(d *dice, p *Planned) { p.First, p.For = leader, d.tail(10) }, cluster.Child),
		stop("stop-family", "all processes of a node are frozen", 3, frozen, cluster.Family),
		{
			name: "stop-all", text: "all processes of all nodes are frozen, and go on one after the other", family: "process", weight: 1,
			draw: func(d *dice, p *Planned) { p.For, p.Period = d.tail(10), d.promises(0, 30) },
			do:   stopAll,
		},
		{
			name: "stop-node-kill-child", text: "elect run is frozen, then its command killed, then elect run goes on", family: "process", weight: 1,
			draw: func(d *dice, p *Planned) { p.First, p.For = leader, d.promises(20, 300) },
			do: func(a *act) error {
				return a.freeze([]cluster.Part{cluster.Node}, func(i int) error { return a.x.processes.Kill(i, cluster.Child) })
			},
		},
		{
			name: "starve", text: "the processes of a node get a small part of one processor", family: "processor", needs: []Ability{Quota}, weight: 2,
			draw: func(d *dice, p *Planned) {
				p.Percent, p.For = d.between(2, 30), d.promises(50, 500)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				i, err := a.one() // a keeper that is starved beside one that is stopped is beyond what is promised
				if err != nil {
					return err
				}
				a.begin(i, "%d per cent", a.Percent)
				a.sicken(i)
				a.undo("feed", func(context.Context) error { return a.x.processes.Feed(i) })
				if err := a.x.processes.Starve(i, a.Percent); err != nil {
					return err
				}
				a.hold()
				return nil
			},
		},
		{
			name: "burn", text: "processes spin on all processors", family: "processor", weight: 1,
			draw: func(d *dice, p *Planned) { p.Times, p.For = d.between(1, 3), d.promises(50, 500) },
			do: func(a *act) error {
				a.begin(judge.NoNode, "%d on each", a.Times)
				a.sickenAll()
				end, err := a.x.burn(a.Times)
				if err != nil {
					return err
				}
				a.undo("burners", func(context.Context) error { return end() })
				a.hold()
				return nil
			},
		},
		{
			name: "twin-same-directory", text: "a second process with the id and the data directory of a node is started; it is refused", family: "process",
			peersOnly: true, weight: 1, alone: "twin",
			draw: func(d *dice, p *Planned) { p.For = dirWait + d.promises(100, 300) },
			do:   func(a *act) error { return a.twin(false) },
		},
		{
			name: "twin-other-directory", text: "a second process with the id of a node and an empty directory is started; the others refuse it", family: "process",
			peersOnly: true, weight: 1, alone: "twin",
			draw: func(d *dice, p *Planned) { p.For = d.promises(100, 500) },
			do:   func(a *act) error { return a.twin(true) },
		},
	}
}

// kill is a fault that kills a part of a node, which stays down as long as the fault lasts.
func kill(name, text string, weight int, part cluster.Part, draw func(*dice, *Planned)) fault {
	return fault{name: name, text: text, family: "process", weight: weight, draw: draw, do: func(a *act) error {
		return a.each(func(i int) error {
			at := a.x.now()
			if a.For > 0 {
				a.x.processes.Hold(i)
				a.undo("release", func(context.Context) error { return a.x.processes.Release(i) })
			}
			if err := a.x.processes.Kill(i, part); err != nil {
				return err
			}
			a.beginAt(at, i, "")
			if part == cluster.Keeper {
				a.wait(a.x.plan.Promise) // to kill elect at the same instant is beyond what is promised
			}
			a.hold()
			return nil
		})
	}}
}

// each acts on the first free node of the order that has the part: a function that returns
// [cluster.ErrNone] has done nothing. Then the claim ends, and everything else of the fault stays.
func (a *act) each(do func(i int) error) error {
	before := len(a.undos)
	for _, i := range a.Order {
		if !a.x.processes.Up(i) || !a.claim(i) {
			continue
		}
		if err := do(i); !errors.Is(err, cluster.ErrNone) {
			return err
		}
		if err := a.undoTo(before); err != nil {
			return err
		}
	}
	return skip("no node has such a part, or other faults have them")
}

// stop is a fault that freezes a part of a node as long as it lasts.
func stop(name, text string, weight int, draw func(*dice, *Planned), part cluster.Part) fault {
	return fault{name: name, text: text, family: "process", weight: weight, draw: draw, do: func(a *act) error {
		return a.freeze([]cluster.Part{part}, nil)
	}}
}

// freeze stops parts of one node, calls meanwhile, and resumes them when the fault is over.
func (a *act) freeze(parts []cluster.Part, meanwhile func(i int) error) error {
	return a.each(func(i int) error {
		at := a.x.now()
		if err := a.still(i, parts...); err != nil {
			return err
		}
		a.beginAt(at, i, "for %v", a.For)
		if meanwhile != nil {
			a.wait(a.For / 2)
			if err := meanwhile(i); err != nil && !errors.Is(err, cluster.ErrNone) {
				return err
			}
			a.wait(a.For / 2)
			return nil
		}
		a.hold()
		return nil
	})
}

// still stops parts of a node until the fault is over. A node that is well goes on leading while
// its work is frozen, because the work is not checked; and a file election has no lease that would
// end. So then no takeover is expected.
func (a *act) still(i int, parts ...cluster.Part) error {
	switch {
	case slices.Equal(parts, []cluster.Part{cluster.Keeper}): // see stop-keeper
	case a.x.set.File || slices.Contains(parts, cluster.Child):
		a.sickenAll()
	default:
		a.sicken(i)
	}
	for _, part := range parts {
		if err := a.x.processes.Stop(i, part); errors.Is(err, cluster.ErrNone) {
			return err
		} else if err != nil { // a part of it may be stopped
			return errors.Join(err, a.x.processes.Cont(i, part))
		}
		a.undo("continue", func(context.Context) error {
			if err := a.x.processes.Cont(i, part); !errors.Is(err, cluster.ErrNone) {
				return err
			}
			return nil // it was killed meanwhile, as a child is when its lease ends
		})
	}
	return nil
}

func stopAll(a *act) error {
	a.begin(judge.NoNode, "for %v", a.For)
	a.sickenAll()
	var stopped int
	for _, i := range slices.Backward(a.Order) { // the first goes on last
		if !a.x.processes.Up(i) || !a.claim(i) {
			continue
		}
		if stopped > 0 {
			a.undo("", func(context.Context) error { a.wait(a.Period); return nil })
		}
		if err := a.still(i, cluster.Family); err != nil && !errors.Is(err, cluster.ErrNone) {
			return err
		}
		stopped++
	}
	a.hold()
	return nil
}

// killAll kills all processes of all free nodes, calls meanwhile for each while it is down, and
// restarts them one after the other.
func (a *act) killAll(meanwhile func(i int) error) error {
	a.begin(judge.NoNode, "every %v", a.Period)
	var killed []int
	for _, i := range a.Order {
		if !a.claim(i) {
			continue
		}
		a.x.processes.Hold(i)
		a.undo("release", func(context.Context) error { return a.x.processes.Release(i) })
		if err := a.x.processes.Kill(i, cluster.Family); err != nil && !errors.Is(err, cluster.ErrNone) {
			return err
		}
		killed = append(killed, i)
	}
	for n, i := range killed {
		if meanwhile != nil {
			if err := a.gone(i); err != nil {
				return err
			}
			if err := meanwhile(i); err != nil {
				return err
			}
		}
		if n > 0 {
			a.wait(a.Period)
		}
		if err := a.x.processes.Release(i); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until a held node has no process any more.
func (a *act) gone(i int) error {
	late := time.Now().Add(undoTime)
	for a.x.processes.Up(i) {
		if time.Now().After(late) {
			return errors.New("node " + a.x.processes.ID(i) + " is not down, long after it was killed")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// claimWithin claims a node as soon as other faults have released it.
func (a *act) claimWithin(i int, d time.Duration) bool {
	for late := time.Now().Add(d); !a.claim(i); {
		if time.Now().After(late) || !a.wait(10*time.Millisecond) {
			return false
		}
	}
	return true
}

// roll restarts all nodes in the order of the fault, after a call of before for each.
func (a *act) roll(before func(i int) error) error {
	for n, i := range a.Order {
		if n > 0 && !a.wait(a.Period) {
			return nil
		}
		if !a.claimWithin(i, 10*a.x.plan.Promise) {
			a.note("%s is left as it is: another fault has it", a.x.processes.ID(i))
			continue
		}
		if err := before(i); err != nil {
			return err
		}
		if err := a.x.restart(i); err != nil {
			return err
		}
		a.x.unclaim(i, a.Number)
	}
	return nil
}

// restart ends and restarts a node.
func (x *executor) restart(i int) error {
	err := x.processes.Down(i)
	return errors.Join(err, x.processes.Start(i)) // in any case
}

func upgrade(a *act) error {
	a.begin(judge.NoNode, "every %v", a.Period)
	a.undo("downgrade", func(context.Context) error {
		var errs []error
		for _, i := range a.Order { // a node that is not restarted below is restarted later
			errs = append(errs, a.x.processes.Upgrade(i, false))
		}
		return errors.Join(errs...)
	})
	if err := a.roll(func(i int) error { return a.x.processes.Upgrade(i, true) }); err != nil {
		return err
	}
	a.note("all are upgraded")
	a.hold()
	return a.roll(func(i int) error { return a.x.processes.Upgrade(i, false) })
}

const (
	// dirWait is how long a process waits for a data directory that another one holds.
	dirWait = 5 * time.Second

	// refusalTime is within which time it must have been refused, on any computer.
	refusalTime = time.Minute
)

// checkRefused is violated when a second process of a node was not refused.
const checkRefused = "refused"

// twin starts a second process of a node. In the directory of the first one, the fault lasts until
// it is refused; without a refusal a promise is broken. Elsewhere others refuse it: which of them,
// and when, depends on which nodes answer. The judge would see it lead beside the first.
func (a *act) twin(elsewhere bool) error {
	i, err := a.one() // or the first may die, and the second be the only one
	if err != nil {
		return err
	}
	a.begin(i, "")
	first := a.x.processes.Pid(i)
	t, err := a.x.processes.Twin(i, elsewhere)
	if err != nil {
		return err
	}
	a.undo("twin", func(context.Context) error { return t.End() })
	most := a.For
	if !elsewhere {
		most = refusalTime
	}
	ctx, cancel := context.WithTimeout(a.ctx, most)
	defer cancel()
	words, err := t.Refused(ctx)
	switch {
	case err == nil:
	case elsewhere || a.ctx.Err() != nil:
		a.note("the second process was not refused: %v", err)
		return nil
	case first == 0 || a.x.processes.Pid(i) != first: // a disk that fails may end it, and then the directory is free
		a.note("the second process was not refused, and the first one of %s has ended: %v", a.x.processes.ID(i), err)
		return nil
	default:
		a.x.complain(checkRefused, "a second process in the directory of %s was not refused within %v, and the first one is there: %v", a.x.processes.ID(i), most, err)
		return nil
	}
	a.note("refused: %s", words)
	return nil
}

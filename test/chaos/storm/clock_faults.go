//go:build linux

package storm

import (
	"context"
	"slices"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
)

// Two faults that exclude each other.
const (
	clockRates = "clock-rates"
	clockStep  = "clock-step"
)

func clockFaults() []fault {
	return []fault{
		{
			name: clockRates, text: "the clocks of all nodes run at other rates, up to 5 % off the truth", family: "clock", peersOnly: true, needs: []Ability{Clocks}, weight: 2,
			draw: func(d *dice, p *Planned) {
				p.For = d.promises(100, 1000)
				for range d.voters {
					rate := d.between(-fastest, fastest)
					if d.oneIn(3) {
						rate = []int{-fastest, fastest}[d.IntN(2)]
					}
					p.Rates = append(p.Rates, rate)
				}
			},
			do: func(a *act) error {
				if !a.x.rated() {
					return skip("the clocks of this storm are stepped")
				}
				// No node is ill: such rates are within the assumption.
				a.begin(judge.NoNode, "millionths: %v", a.Rates)
				for i, rate := range a.Rates {
					a.undo("rate", func(context.Context) error { a.x.rate(i, a.x.plan.Nodes[i].Rate); return nil })
					a.x.rate(i, rate)
				}
				a.hold()
				return nil
			},
		},
		{
			name: clockStep, text: "both clocks of a node leap by up to 4 % of a promise, ahead or back; nothing undoes it", family: "clock", peersOnly: true, needs: []Ability{Clocks}, weight: 2,
			draw: func(d *dice, p *Planned) {
				p.For, p.Delay = 0, d.promises(1, 4)
				if d.oneIn(2) {
					p.Delay = -p.Delay
				}
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				if a.x.rated() {
					return skip("the clocks of this storm have rates")
				}
				if !a.x.mayStep() {
					return skip("a clock was stepped not long ago")
				}
				i := a.Order[0]
				a.begin(i, "by %v", a.Delay)
				a.sicken(i)
				a.x.clocks[i].StepBoth(a.Delay)
				a.x.told(i, 1)
				return nil
			},
		},
		{
			name: "suspend", text: "a node is frozen as in a machine that sleeps: afterwards CLOCK_MONOTONIC has stood still and CLOCK_BOOTTIME has not", family: "clock", peersOnly: true, needs: []Ability{Clocks}, weight: 2,
			draw: func(d *dice, p *Planned) {
				p.For = max(d.tail(mostStopped), 20*time.Millisecond)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				return a.each(func(i int) error {
					at := a.x.now()
					if err := a.still(i, cluster.Family); err != nil {
						return err
					}
					a.beginAt(at, i, "for %v", a.For)
					began := time.Now()
					a.hold()
					// Twice the rate by which the clock may be slow: it must not show more than the
					// time of the freeze.
					a.x.clocks[i].Suspend(time.Since(began) * 9 / 10)
					return nil
				})
			},
		},
	}
}

// rated reports whether the clocks of this storm have rates. A step in addition would break the
// assumption.
func (x *executor) rated() bool {
	return slices.ContainsFunc(x.plan.Nodes, func(n Node) bool { return n.Rate != 0 })
}

// rate sets the rate of a node's clock, in millionths beside the true rate.
func (x *executor) rate(i, millionths int) {
	x.clocks[i].Rate(1 + float64(millionths)/1e6)
	x.told(i, 1+float64(millionths)/1e6)
}

// told tells the judge how the clock of a node runs from now on, so that it can place the node's
// readings.
func (x *executor) told(i int, rate float64) {
	at := x.now()
	ahead, _ := x.clocks[i].Ahead()
	x.note(judge.Event{At: at, Kind: judge.Clock, Node: i, Ahead: x.plan.Nodes[i].Boot + ahead, Rate: rate})
}

// mayStep reports whether a clock may be stepped, and records the step. Steps add up as long as a
// promise made before them counts.
func (x *executor) mayStep() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.stepped) < 3*x.plan.Promise {
		return false
	}
	x.stepped = time.Now()
	return true
}

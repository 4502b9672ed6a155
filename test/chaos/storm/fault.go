//go:build linux

package storm

import (
	"fmt"
	"slices"
	"strings"
)

// Roles of the first node of a fault.
const (
	leader   = "leader"
	follower = "follower"
)

// fault is a kind of fault: one row of the table of faults.
type fault struct {
	name   string
	text   string // what it does, in one line
	family string // network, process, disk, clock, processor, operator

	peersOnly bool
	needs     []Ability
	least     int // the least number of voters

	// weight is how often it is drawn in relation to the others. 0: only by request.
	weight int

	// alone, if not empty, is a class of which only one is in progress at a time.
	alone string

	draw func(d *dice, p *Planned) // draws its own arguments; For, Order and First are drawn before
	do   func(a *act) error        // does it, waits, and registers what undoes it
}

// Fault is a row of the table of faults, for documents.
type Fault struct {
	Name   string
	Family string
	Text   string
	Needs  []Ability
	Peers  bool // only among peers
	Asked  bool // only by request
}

// Faults is the table of faults.
func Faults() []Fault {
	var all []Fault
	for _, f := range table() {
		all = append(all, Fault{Name: f.name, Family: f.family, Text: f.text, Needs: slices.Clone(f.needs), Peers: f.peersOnly, Asked: f.weight == 0})
	}
	return all
}

// table is all faults.
func table() []fault {
	return slices.Concat(networkFaults(), processFaults(), diskFaults(), clockFaults(), operatorFaults())
}

func faultNamed(name string) (fault, bool) {
	all := table()
	i := slices.IndexFunc(all, func(f fault) bool { return f.name == name })
	if i < 0 {
		return fault{}, false
	}
	return all[i], true
}

// missing is what a fault needs and is not available; "" if nothing.
func (f *fault) missing(has func(Ability) bool, set Setup) string {
	if f.peersOnly && set.File {
		return "an election among peers"
	}
	var lacks []string
	for _, n := range f.needs {
		if !has(n) {
			lacks = append(lacks, string(n))
		}
	}
	return strings.Join(lacks, ", ")
}

// choose returns the available faults: the requested ones, or all with a weight.
func choose(asked []string, has func(Ability) bool, set Setup, voters int) ([]fault, error) {
	var chosen []fault
	for _, name := range asked {
		f, ok := faultNamed(name)
		if !ok {
			return nil, fmt.Errorf("storm: there is no fault %q; see docs/chaos.md", name)
		}
		if lack := f.missing(has, set); lack != "" {
			return nil, fmt.Errorf("storm: the fault %s needs %s", name, lack)
		}
		if voters < f.least {
			return nil, fmt.Errorf("storm: the fault %s needs %d voters", name, f.least)
		}
		f.weight = max(f.weight, 1)
		chosen = append(chosen, f)
	}
	if len(asked) > 0 {
		return chosen, nil
	}
	for _, f := range table() {
		if f.weight > 0 && f.missing(has, set) == "" && voters >= f.least {
			chosen = append(chosen, f)
		}
	}
	return chosen, nil
}

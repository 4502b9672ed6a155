package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// Scenario is a situation, and what each protocol must do in it.
type Scenario struct {
	Name   string
	Says   string // what happens, in one sentence
	Source string // the paper or report; empty if it is our own
	// Steps are what happens, a sentence each; nil where Says is enough.
	Steps []string

	build func(*stage) // draws up the schedule; a part may have its own
	seeds int          // how many, where the outcome rests on chance; 0 is one
	parts []part
}

// part is the expectation for some of the protocols.
type part struct {
	on       []string
	expected string
	build    func(*stage)
	seeds    int
	judge    func(*verdict)
}

// Report is the result of a scenario.
type Report struct {
	Scenario string `json:"scenario"`
	Protocol string `json:"protocol"`
	Expected string `json:"expected"`
	Outcome  string `json:"outcome"`
	Held     bool   `json:"held"`
	// Wrong lists the expectations that failed; empty if Held.
	Wrong []string `json:"wrong,omitempty"`
	// Runs is their number. Result and Tenures are of the first.
	Runs    int         `json:"runs"`
	Result  *sim.Result `json:"result"`
	Tenures []Tenure    `json:"tenures"`
}

// All returns the scenarios in the order in which the documents list them, each
// time anew.
func All() []*Scenario {
	return slices.Concat(crashes(), cuts(), oneWays(), votes(), clocks(), members(), slowness(), stores(), classics(), naives())
}

// ByName returns the scenario of that name.
func ByName(name string) (*Scenario, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// Protocols lists the protocols to which it applies, in the order of [protocols.All], and after them those of
// [protocols.Naive].
func (s *Scenario) Protocols() []string {
	var names []string
	for _, p := range slices.Concat(protocols.All(), protocols.Naive()) {
		if s.part(p.Name) != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

func (s *Scenario) part(protocol string) *part {
	for i := range s.parts {
		if slices.Contains(s.parts[i].on, protocol) {
			return &s.parts[i]
		}
	}
	return nil
}

// Expected says what that protocol must do in it; empty if it does not apply.
func (s *Scenario) Expected(protocol string) string {
	if p := s.part(protocol); p != nil {
		return p.expected
	}
	return ""
}

// Schedule is the first of the schedules that it runs. The error says to which
// protocols it applies.
func (s *Scenario) Schedule(protocol string) (*sim.Schedule, error) {
	_, all, err := s.stage(protocol)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// stage sets it up for a protocol, and returns the schedules.
func (s *Scenario) stage(name string) (*stage, []*sim.Schedule, error) {
	p, ok := protocols.ByName(name)
	if !ok || s.part(name) == nil {
		return nil, nil, fmt.Errorf("scenario %s does not apply to protocol %q; it does to: %s", s.Name, name, strings.Join(s.Protocols(), ", "))
	}
	st, all := s.stageOf(p)
	return st, all, nil
}

// stageOf is stage for a protocol to which it applies.
func (s *Scenario) stageOf(p *sim.Protocol) (*stage, []*sim.Schedule) {
	part := s.part(p.Name)
	build, seeds := part.build, part.seeds
	if build == nil {
		build = s.build
	}
	if seeds == 0 {
		seeds = max(s.seeds, 1)
	}
	st := newStage(p)
	build(st)
	return st, st.schedules(seeds)
}

// Run runs it and judges. The error is that of ctx, or says to which protocols it applies.
func (s *Scenario) Run(ctx context.Context, protocol string) (*Report, error) {
	st, all, err := s.stage(protocol)
	if err != nil {
		return nil, err
	}
	runs, err := st.perform(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("scenario %s, protocol %s: %w", s.Name, protocol, err)
	}
	return s.judge(st, runs, protocol), nil
}

// judge judges runs by a protocol's expectation.
func (s *Scenario) judge(st *stage, runs []*run, protocol string) *Report {
	c := &verdict{stage: st, runs: runs}
	c.first = runs[0]
	p := s.part(protocol)
	p.judge(c)
	return &Report{
		Scenario: s.Name, Protocol: st.name, Expected: p.expected, Outcome: c.outcome(), Held: len(c.wrong) == 0, Wrong: c.wrong,
		Runs: len(runs), Result: runs[0].result, Tenures: runs[0].tenures,
	}
}

// perform runs the schedules one after the other.
func (st *stage) perform(ctx context.Context, all []*sim.Schedule) ([]*run, error) {
	runs := make([]*run, 0, len(all))
	for _, s := range all {
		r, err := st.play(ctx, s)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// shown is a time in words: with three significant places or so.
func shown(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + shown(-d)
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// Calm is a schedule without any fault, with the links, disks and work that the scenarios have.
func Calm(protocol string, nodes int) (*sim.Schedule, error) {
	p, ok := protocols.ByName(protocol)
	if !ok {
		return nil, fmt.Errorf("protocol %q is not one of package protocols", protocol)
	}
	st := newStage(p)
	st.cast(nodes)
	return st.schedule, nil
}

package play

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/compare"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// Catalogue lists what a world can be made of, and the stories and challenges.
type Catalogue struct {
	Build      string         `json:"build,omitempty"`
	Protocols  []ProtocolInfo `json:"protocols"`
	Compared   []string       `json:"compared"` // names of protocols, by default
	Scenarios  []ScenarioInfo `json:"scenarios"`
	Stories    []StoryInfo    `json:"stories"`
	Challenges []*Challenge   `json:"challenges"`
	Profiles   []sim.Profile  `json:"profiles"`
	Faults     []sim.Fault    `json:"faults"`
	Invariants []sim.Promise  `json:"invariants"`
}

// ProtocolInfo describes a protocol.
type ProtocolInfo struct {
	Name    string `json:"name"`
	Leases  bool   `json:"leases"` // its leaders prove a lease
	Store   string `json:"store,omitempty"`
	Nodes   int    `json:"nodes"`             // how many a world has at most
	Votes   bool   `json:"votes,omitempty"`   // its candidates are elected by votes, which State has
	Members bool   `json:"members,omitempty"` // its membership can be changed, and its leader asked to hand over
	Naive   bool   `json:"naive,omitempty"`   // it is a lock in common use that is not safe
}

// ScenarioInfo describes a scenario.
type ScenarioInfo struct {
	Name     string            `json:"name"`
	Says     string            `json:"says"`
	Source   string            `json:"source,omitempty"`
	Steps    []string          `json:"steps,omitempty"` // what happens, a sentence each
	Expected map[string]string `json:"expected"`        // outcome by protocol, of those to which it applies
}

// StoryInfo describes a story.
type StoryInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Says    string `json:"says"`
	Asks    string `json:"asks,omitempty"`
	Answers string `json:"answers,omitempty"`
	Steps   int    `json:"steps"`
}

func (p *Player) catalogue(*struct{}) (any, error) {
	c := &Catalogue{Profiles: sim.Profiles(), Faults: sim.Faults(), Invariants: sim.Promises(), Compared: compare.Default(), Challenges: challenges()}
	if info, ok := debug.ReadBuildInfo(); ok {
		c.Build = info.Main.Version
	}
	for _, p := range known() {
		c.Protocols = append(c.Protocols, ProtocolInfo{
			Name: p.Name, Leases: !p.Leaseless, Store: string(p.Store), Nodes: mostNodes(p), Votes: p.Grants != nil, Members: p.Members != nil, Naive: slices.ContainsFunc(protocols.Naive(), func(n *sim.Protocol) bool { return n.Name == p.Name }),
		})
	}
	for _, s := range scenario.All() {
		i := ScenarioInfo{Name: s.Name, Says: s.Says, Steps: s.Steps, Source: s.Source, Expected: map[string]string{}}
		for _, name := range s.Protocols() {
			i.Expected[name] = s.Expected(name)
		}
		c.Scenarios = append(c.Scenarios, i)
	}
	for _, s := range stories() {
		c.Stories = append(c.Stories, StoryInfo{Name: s.Name, Title: s.Title, Says: s.Says, Asks: s.Asks, Answers: s.Answers, Steps: len(s.Steps)})
	}
	return c, nil
}

type judgeParams struct {
	Scenario string `json:"scenario"`
	Protocol string `json:"protocol"`
}

// judge runs a scenario with all its seeds, and returns its outcome.
func (p *Player) judge(a *judgeParams) (any, error) {
	s, ok := scenario.ByName(a.Scenario)
	if !ok {
		return nil, errScenario(a.Scenario)
	}
	r, err := s.Run(context.Background(), a.Protocol)
	if err != nil {
		return nil, err
	}
	return map[string]any{"outcome": r.Outcome, "held": r.Held, "expected": r.Expected, "wrong": r.Wrong, "runs": r.Runs}, nil
}

type compareParams struct {
	Protocols []string `json:"protocols"`
	Seeds     uint64   `json:"seeds"`
	First     uint64   `json:"first"`
	Nodes     int      `json:"nodes"`
	Profile   string   `json:"profile"`
	Seconds   float64  `json:"seconds"`
	// Schedule replaces the schedules that are drawn.
	Schedule *sim.Schedule `json:"schedule"`
}

// compare runs the same faults through several protocols. It calls Progress.
func (p *Player) compare(a *compareParams) (any, error) {
	if a.Seconds < 0 || a.Seconds > MaxSeconds {
		return nil, fmt.Errorf("seconds %g; want 0 to %d", a.Seconds, MaxSeconds)
	}
	several := len(a.Protocols)
	if several == 0 {
		several = len(compare.Default())
	}
	if most := uint64(MaxRuns / several); a.Seeds > most {
		return nil, fmt.Errorf("%d seeds through %d protocols; want %d at most: %d runs", a.Seeds, several, most, MaxRuns)
	}
	return compare.Run(context.Background(), compare.Options{
		Protocols: a.Protocols, Seeds: a.Seeds, First: a.First, Nodes: a.Nodes, Profile: a.Profile, For: seconds(a.Seconds),
		Schedule: a.Schedule, Progress: p.Progress,
	})
}

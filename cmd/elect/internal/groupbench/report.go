package groupbench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/conditions"
)

// Report is the result of Run, with its conditions. Its JSON is stable: fields are added, and never renamed or removed.
type Report struct {
	Members int     `json:"members"`
	Rounds  int     `json:"rounds"`
	Clock   string  `json:"clock"`
	Promise float64 `json:"promise_ms,omitempty"` // of the groups, if it is not their default
	conditions.Conditions
	Systems []*Result `json:"systems"`
}

// Result is what was measured of one system with one number of keys.
type Result struct {
	Use        Use      `json:"use"`
	At         string   `json:"at"`
	Keys       int      `json:"keys"`
	Join       *Times   `json:"join,omitempty"` // from the order to stand
	Idle       *Idle    `json:"idle,omitempty"`
	Memory     *Memory  `json:"memory,omitempty"`
	Kinds      []*Taken `json:"kinds"`
	Violations []string `json:"violations"`

	joins []spread
}

// Times are those of several rounds, in milliseconds. In each of them half of the keys were led within Half, and all
// within All; these are the medians of the rounds, and Worst is the greatest All.
type Times struct {
	Rounds int     `json:"rounds"`
	Half   float64 `json:"half_ms"`
	All    float64 `json:"all_ms"`
	Worst  float64 `json:"worst_ms"`
}

// Taken is what came of one kind.
type Taken struct {
	Kind Kind `json:"kind"`
	Keys int  `json:"keys"` // that it befell, in all rounds
	Times
	Interrupted int `json:"interrupted"` // terms of other keys that ended meanwhile, in all rounds

	rounds []spread
}

// Idle is what all processes together cost while nothing happens.
type Idle struct {
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_percent"` // of one core
	Resident uint64  `json:"resident_bytes"`
	Share    uint64  `json:"share_bytes"` // with shared pages divided among the processes that share them; 0 if not known
}

// Memory is what is reachable of the heaps, in bytes for each key, beside what a node has that leads nothing.
type Memory struct {
	Coordinator float64 `json:"coordinator_bytes_per_key"` // beside what it has as a member; 0: there is none
	Member      float64 `json:"member_bytes_per_key"`      // the mean of the others
}

// spread is the times of one round.
type spread struct{ half, all time.Duration }

func newReport(cfg *Config) *Report {
	return &Report{Members: Nodes, Rounds: cfg.Rounds, Clock: stamp.Clock, Promise: millis(cfg.Promise), Conditions: conditions.Now(), Systems: []*Result{}}
}

func (r *Report) add(s *System, keys int) *Result {
	x := &Result{Use: s.Use, At: s.Shown, Keys: keys, Kinds: []*Taken{}, Violations: []string{}}
	r.Systems = append(r.Systems, x)
	return x
}

// heap computes what a key costs.
func (r *Result) heap(s *setup, answers []answer) {
	r.Memory = &Memory{}
	var coordinator float64
	others := 0
	for i, m := range s.living() {
		more := (float64(answers[i].Heap) - float64(s.empty[m])) / float64(s.keys)
		if answers[i].Coordinates {
			coordinator = more
			continue
		}
		others++
		r.Memory.Member += more
	}
	r.Memory.Member = round(r.Memory.Member / float64(max(others, 1)))
	if others < len(answers) {
		r.Memory.Coordinator = round(coordinator - r.Memory.Member)
	}
}

// joined takes the events since the nodes were told to stand.
func (r *Result) joined(at time.Duration, events []ofNode) {
	all := map[int32]bool{}
	for key := range r.Keys {
		all[int32(key)] = true
	}
	r.joins = append(r.joins, spreadOf(gaps(begun(events), all, at)))
	r.Join = times(r.joins)
}

// balanced takes the events since one more member joined, which has got some keys.
func (r *Result) balanced(at time.Duration, keys map[int32]bool, events []ofNode) {
	r.kind(Joins).add(gaps(begun(events), keys, at), interrupted(events, keys))
}

func begun(events []ofNode) []ofNode {
	return slices.DeleteFunc(slices.Clone(events), func(e ofNode) bool { return e.Ended })
}

// took takes the events since something befell a node.
func (r *Result) took(kind Kind, at time.Duration, keys map[int32]bool, events []ofNode) {
	r.kind(kind).add(gaps(events, keys, at), interrupted(events, keys))
}

// moved takes the events since the first of some keys was moved.
func (r *Result) moved(keys []int, events []ofNode) {
	all := map[int32]bool{}
	for _, key := range keys {
		all[int32(key)] = true
	}
	r.kind(Move).add(gaps(events, all, 0), interrupted(events, all))
}

func (r *Result) kind(kind Kind) *Taken {
	i := slices.IndexFunc(r.Kinds, func(t *Taken) bool { return t.Kind == kind })
	if i < 0 {
		i = len(r.Kinds)
		r.Kinds = append(r.Kinds, &Taken{Kind: kind})
	}
	return r.Kinds[i]
}

func (t *Taken) add(took []time.Duration, interrupted int) {
	t.Keys += len(took)
	t.Interrupted += interrupted
	t.rounds = append(t.rounds, spreadOf(took))
	t.Times = *times(t.rounds)
}

// spreadOf summarizes sorted times.
func spreadOf(took []time.Duration) spread {
	if len(took) == 0 {
		return spread{}
	}
	return spread{took[(len(took)-1)/2], took[len(took)-1]}
}

func times(rounds []spread) *Times {
	median := func(of func(spread) time.Duration) float64 {
		all := slices.SortedFunc(slices.Values(rounds), func(a, b spread) int { return cmp.Compare(of(a), of(b)) })
		return millis(of(all[(len(all)-1)/2]))
	}
	all := func(s spread) time.Duration { return s.all }
	worst := slices.MaxFunc(rounds, func(a, b spread) int { return cmp.Compare(a.all, b.all) })
	return &Times{len(rounds), median(func(s spread) time.Duration { return s.half }), median(all), millis(worst.all)}
}

func millis(d time.Duration) float64 { return math.Round(d.Seconds()*1e5) / 1e2 }

func round(v float64) float64 { return math.Round(v*10) / 10 }

// Err is an error if a promise was broken.
func (r *Report) Err() error {
	var all []string
	for _, s := range r.Systems {
		all = append(all, s.Violations...)
	}
	if len(all) > 0 {
		return errors.New("SAFETY: " + strings.Join(all, "; "))
	}
	return nil
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%d members, %d rounds. Times in ms: until half of the keys are led, all of them (medians of the rounds), all in the\n"+
		"worst round. CPU in %% of a core, of all processes together. Interrupted: terms of keys that it did not befall.\n\n", r.Members, r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "WHAT\tKEYS\tn\tHALF\tALL\tWORST\tINTERRUPTED\t USE")
	for _, s := range r.Systems {
		use := fmt.Sprintf(" %s of %d at %s", s.Use, s.Keys, s.At)
		if s.Join != nil {
			fmt.Fprintf(t, "join\t%d\t%d\t%.1f\t%.1f\t%.1f\t\t%s\n", s.Keys*s.Join.Rounds, s.Join.Rounds, s.Join.Half, s.Join.All, s.Join.Worst, use)
		}
		for _, k := range s.Kinds {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t%s\n", k.Kind, k.Keys, k.Rounds, k.Half, k.All, k.Worst, k.Interrupted, use)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "IDLE %\tSECONDS\tRESIDENT MiB\tSHARE MiB\tB/KEY COORDINATOR\tB/KEY MEMBER\t USE")
	for _, s := range r.Systems {
		if s.Idle == nil {
			continue
		}
		fmt.Fprintf(t, "%.3f\t%.0f\t%.1f\t%.1f\t%.0f\t%.0f\t %s of %d at %s\n", s.Idle.CPU, s.Idle.Seconds, mebi(s.Idle.Resident), mebi(s.Idle.Share),
			s.Memory.Coordinator, s.Memory.Member, s.Use, s.Keys, s.At)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.Systems {
		for _, v := range s.Violations {
			fmt.Fprintf(t, "VIOLATION\t%s\n", v)
		}
	}
	fmt.Fprintf(t, "clock\t%s\n", r.Clock)
	r.Rows(t)
	return t.Flush()
}

func mebi(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

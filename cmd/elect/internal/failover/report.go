package failover

import (
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

// Report is the result of Run, with its conditions. Its JSON is stable: fields are added, and never renamed or
// removed.
type Report struct {
	Election   string `json:"election"`
	Name       string `json:"name"`
	Candidates int    `json:"candidates"`
	Command    string `json:"command"`      // the command of the candidates
	Memory     uint64 `json:"memory_bytes"` // touched by the command
	Clock      string `json:"clock"`
	conditions.Conditions
	Idle      *Idle      `json:"idle,omitempty"`
	Takeovers []Takeover `json:"takeovers"`
	Lease     float64    `json:"lease_ms"` // how long a proof lasts; 0: there is no lease
	Worst     float64    `json:"worst_takeover_ms"`
}

// Reports are those of several elections.
type Reports []*Report

// Idle is the CPU time while nothing happens, in per cent of one core.
type Idle struct {
	Candidates int     `json:"candidates"`
	Seconds    float64 `json:"seconds"`
	Mean       float64 `json:"mean_percent"` // of a candidate that stands by
	Max        float64 `json:"max_percent"`
	Leader     float64 `json:"leader_percent"` // of the elect run that leads
}

// Takeover is the time from just before the kill to the next command's first instruction, in milliseconds.
type Takeover struct {
	Kill   Kill `json:"kill"`
	Rounds int  `json:"rounds"`
	Times
}

// Times summarizes times in milliseconds. Percentiles are by nearest rank: each is one of the times.
type Times struct {
	Min    float64 `json:"min_ms"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

func newReport(cfg *Config) *Report {
	r := &Report{
		Election: cfg.Shown, Name: cfg.Name, Candidates: cfg.Candidates, Memory: cfg.Memory, Clock: stamp.Clock,
		Command:    "elect itself: the start of Go's runtime is in the figures",
		Conditions: conditions.Now(), Takeovers: []Takeover{},
	}
	if e := cfg.Election; e != nil {
		l := e.Limits()
		r.Lease, r.Worst = millis(l.Lease), millis(l.Takeover)
	}
	if stamp.Native {
		r.Command = "a static program that reads the clock first"
	}
	return r
}

func (r *Report) add(kill Kill, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	r.Takeovers = append(r.Takeovers, Takeover{Kill: kill, Rounds: len(took), Times: timesOf(took)})
}

// timesOf summarizes one or more times, and sorts them.
func timesOf(took []time.Duration) Times {
	slices.Sort(took)
	at := func(q float64) float64 {
		return millis(took[max(int(math.Ceil(q*float64(len(took))))-1, 0)])
	}
	return Times{Min: at(0), Median: at(.5), P90: at(.9), P99: at(.99), Max: at(1)}
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "From just before the kill to the next command's first instruction, in ms:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "KILLED\tn\tMIN\tMEDIAN\tP90\tP99\tMAX\t")
	for _, k := range r.Takeovers {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", k.Kill, k.Rounds, k.Min, k.Median, k.P90, k.P99, k.Max)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if i := r.Idle; i != nil {
		fmt.Fprintf(w, "\nIdle: %d candidates over %.0f s took %.4f %% of a core each, at most %.4f %%, and the leader %.4f %%.\n", i.Candidates, i.Seconds, i.Mean, i.Max, i.Leader)
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nelection\t%s, %d candidates\n", r.Election, r.Candidates)
	fmt.Fprintf(t, "command\t%s\n", r.Command)
	if r.Memory > 0 {
		fmt.Fprintf(t, "memory\t%d MiB, all of it touched before the kill\n", r.Memory>>20)
	}
	fmt.Fprintf(t, "clock\t%s\n", r.Clock)
	r.Rows(t)
	return t.Flush()
}

// Write writes the medians side by side.
func (all Reports) Write(w io.Writer) error {
	fmt.Fprintf(w, "From just before the kill to the next command's first instruction, medians in ms; CPU in %% of a core:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	kills := Kills(true)
	fmt.Fprint(t, "n\t")
	for _, k := range kills {
		fmt.Fprintf(t, "%s\t", strings.ToUpper(string(k)))
	}
	fmt.Fprint(t, "LEASE\tAT MOST\tLEADER\tCANDIDATE\t ELECTION\n")
	for _, r := range all {
		rounds := 0
		var cells []string
		for _, k := range kills {
			cell := "–"
			if i := slices.IndexFunc(r.Takeovers, func(t Takeover) bool { return t.Kill == k }); i >= 0 {
				rounds, cell = r.Takeovers[i].Rounds, fmt.Sprintf("%.1f", r.Takeovers[i].Median)
			}
			cells = append(cells, cell)
		}
		if r.Lease > 0 {
			cells = append(cells, fmt.Sprintf("%.0f", r.Lease), fmt.Sprintf("%.0f", r.Worst))
		} else {
			cells = append(cells, "–", "–")
		}
		if i := r.Idle; i != nil {
			cells = append(cells, fmt.Sprintf("%.3f", i.Leader), fmt.Sprintf("%.3f", i.Mean))
		} else {
			cells = append(cells, "–", "–")
		}
		fmt.Fprintf(t, "%d\t%s\t %s\n", rounds, strings.Join(cells, "\t"), r.Election)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	last := all[len(all)-1]
	fmt.Fprintf(t, "\ncandidates\t%d\n", last.Candidates)
	fmt.Fprintf(t, "command\t%s\n", last.Command)
	c := last.Conditions
	c.LoadBefore = all[0].LoadBefore
	c.Rows(t)
	return t.Flush()
}

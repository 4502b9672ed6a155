package compare

import (
	"encoding/json"
	"time"

	"github.com/electd/elect/lab/sim"
)

// Report is the result of a comparison, as it is written in JSON: fields are added, and never
// renamed or removed. It depends on the options and the build alone, unless it was interrupted.
type Report struct {
	Profile string  `json:"profile"` // of the drawn faults; of a schedule, what it says
	Nodes   int     `json:"nodes"`
	Seconds float64 `json:"seconds"` // of virtual time, each run
	Seed    uint64  `json:"seed"`    // the first
	Seeds   uint64  `json:"seeds"`
	// Drawn says that the faults were drawn from seeds, and are not one schedule's.
	Drawn bool `json:"drawn"`
	// Detection is the requested time, 0 if each protocol has its own.
	Detection float64 `json:"detection_ms"`
	// Interrupted says that some runs are missing. Which ones is arbitrary.
	Interrupted bool   `json:"interrupted"`
	Lines       []Line `json:"protocols"`
}

// Line is the result of one protocol, over all its runs.
type Line struct {
	Protocol string          `json:"protocol"`
	Config   json.RawMessage `json:"config"` // what differs from its defaults
	// Silence is the longest time after which a silent leader is lost, by the configuration; null
	// where it is not known.
	Silence *float64 `json:"silence_ms"`
	// Leases says that leaders prove a lease, and count while it is proven. Elsewhere they count
	// while they are elected.
	Leases bool `json:"leases"`

	Runs    uint64  `json:"runs"`
	Seconds float64 `json:"virtual_seconds"` // in all

	Availability float64 `json:"availability"` // the part of the time with a leader that was alive and not frozen
	Unavailable  float64 `json:"unavailable_ms"`
	// Darkest is the seed of the run with the longest time without a leader.
	Darkest *Worst `json:"darkest"`

	// Failovers are how often another leader, or the same one in another term, replaced one that
	// had died, was frozen or had stopped; and for how long there was no leader then, to within a
	// thousandth. A time without a leader that lasts until the end is not counted.
	Failovers uint64     `json:"failovers"`
	P50       *float64   `json:"failover_p50_ms"`
	P99       *float64   `json:"failover_p99_ms"`
	Longest   *float64   `json:"failover_longest_ms"`
	Quantiles []Quantile `json:"failover_quantiles"`

	Elections   uint64   `json:"elections"`
	PerElection *float64 `json:"messages_per_election"`
	Messages    uint64   `json:"messages"` // among participants
	Requests    uint64   `json:"requests"` // to the store
	PerSecond   float64  `json:"messages_per_second"`
	Changes     uint64   `json:"leader_changes"`

	TwoLed     float64 `json:"two_leaders_ms"`
	TwoLedRuns uint64  `json:"two_leaders_runs"`
	MostTwoLed *Worst  `json:"two_leaders_most"` // null if there never were two

	Writes        uint64 `json:"writes"`
	StaleOffered  uint64 `json:"stale_offered"`
	StaleAccepted uint64 `json:"stale_accepted"`
	StaleRefused  uint64 `json:"stale_refused"`

	// Violated is the number of runs in which something was violated that must hold, and Violation
	// the first, by seed. Such a run ends there.
	Violated  uint64     `json:"violated_runs"`
	Violation *Violation `json:"violation"`
}

// Worst is a run that stands out.
type Worst struct {
	Seed uint64  `json:"seed"`
	Time float64 `json:"ms"`
}

// Quantile says that a part of the failovers took no longer than a time.
type Quantile struct {
	Part float64 `json:"part"` // 0 to 1
	Time float64 `json:"ms"`
}

// Violation is what was violated.
type Violation struct {
	Seed      uint64        `json:"seed"`
	Invariant sim.Invariant `json:"invariant"`
	Says      string        `json:"says"`
}

// perMilles are the quantiles of a Line.
var perMilles = [...]uint64{10, 50, 100, 200, 250, 300, 400, 500, 600, 700, 750, 800, 850, 900, 925, 950, 960, 970, 980, 990, 995, 999, 1000}

func (c *comparison) report(sum []tally) (*Report, error) {
	o := &c.options
	r := &Report{
		Profile: o.Profile, Nodes: o.Nodes, Seconds: o.For.Seconds(), Seed: o.First, Seeds: o.Seeds,
		Drawn: o.Schedule == nil, Detection: millis(o.Detection), Interrupted: c.done.Load() < o.Seeds*uint64(len(c.contenders)),
	}
	for i := range sum {
		line, err := c.contenders[i].line(&sum[i])
		if err != nil {
			return nil, err
		}
		r.Lines = append(r.Lines, *line)
	}
	return r, nil
}

func (one *contender) line(t *tally) (*Line, error) {
	s := &t.stats
	l := &Line{
		Protocol: one.protocol.Name, Config: one.config, Leases: !one.protocol.Leaseless,
		Runs: t.runs, Seconds: s.Time.Seconds(), Availability: s.Availability(), Unavailable: millis(s.Time - s.Led),
		Failovers: t.failovers.total, Quantiles: []Quantile{},
		Elections: s.Elections, Messages: s.Messages, Requests: s.Asks, Changes: s.Changes,
		TwoLed: millis(s.TwoLed), TwoLedRuns: t.two,
		Writes: s.Writes, StaleOffered: s.StaleOffered, StaleAccepted: s.StaleAccepted, StaleRefused: s.StaleRefused,
		Violated: t.violated,
	}
	if one.protocol.Silence != nil {
		d, err := one.protocol.Silence(one.config)
		if err != nil {
			return nil, err
		}
		l.Silence = new(millis(d))
	}
	if t.dark.time > 0 {
		l.Darkest = &Worst{t.dark.seed, millis(t.dark.time)}
	}
	if t.two > 0 {
		l.MostTwoLed = &Worst{t.overlap.seed, millis(t.overlap.time)}
	}
	for _, q := range perMilles {
		if d, ok := t.failovers.quantile(q); ok {
			l.Quantiles = append(l.Quantiles, Quantile{float64(q) / 1000, millis(d)})
		}
	}
	l.P50, l.P99, l.Longest = t.quantile(500), t.quantile(990), t.quantile(1000)
	if s.Elections > 0 {
		l.PerElection = new(float64(s.Electing) / float64(s.Elections))
	}
	if s.Time > 0 {
		l.PerSecond = float64(s.Messages+s.Asks) / s.Time.Seconds()
	}
	if v := t.first; v != nil {
		l.Violation = &Violation{v.Schedule.Seed, v.Violation.Invariant, v.Violation.String()}
	}
	return l, nil
}

func (t *tally) quantile(perMille uint64) *float64 {
	d, ok := t.failovers.quantile(perMille)
	if !ok {
		return nil
	}
	return new(millis(d))
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// Violations are what was violated that must hold: the first of each protocol, by
// the protocols' order.
func (r *Report) Violations() []*Line {
	var all []*Line
	for i := range r.Lines {
		if r.Lines[i].Violation != nil {
			all = append(all, &r.Lines[i])
		}
	}
	return all
}

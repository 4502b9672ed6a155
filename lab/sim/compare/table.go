package compare

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect/internal/protocol/queue"
)

// column is a column of the table: its heading, what it means, and a line's value.
type column struct {
	name, says string
	value      func(*Line) string
}

// columns are the table's, in order.
func columns() []column {
	return []column{
		{"protocol", "",
			func(l *Line) string { return l.Protocol }},
		{"silence", "the longest time after which a silent leader is lost, as the protocol is configured",
			func(l *Line) string { return timeOf(l.Silence) }},
		{"led", "the part of the time with a leader that was alive and not frozen: by a lease that was proven, or, where there are none (elected), by its election",
			func(l *Line) string { return percent(l.Availability) }},
		{"by", "what a leader counts by: a proven lease, or that it was elected",
			func(l *Line) string {
				if l.Leases {
					return "lease"
				}
				return "elected"
			}},
		{"failover p50", "half of the failovers took no longer: from when the last leader had died, was frozen, had stopped or lapsed until the next one led",
			func(l *Line) string { return timeOf(l.P50) }},
		{"p99", "99 of 100 failovers took no longer",
			func(l *Line) string { return timeOf(l.P99) }},
		{"changes", "how often the leader changed from one participant to another",
			func(l *Line) string { return grouped(l.Changes) }},
		{"msgs/election", "messages, and requests to the store, that were part of elections, for each election that was won: no heartbeats, no renewals",
			func(l *Line) string { return number(l.PerElection) }},
		{"msgs/s", "all messages among participants and all requests to the store, a second of virtual time",
			func(l *Line) string { return number(&l.PerSecond) }},
		{"two leaders", "how long two led at once, in all runs together",
			func(l *Line) string { return inMillis(l.TwoLed) }},
		{"stale offered", "writes that reached the guarded resource after one of a later term had been accepted; where there are no leases a later term is one with a greater token, or with an equal one and a later election",
			func(l *Line) string { return grouped(l.StaleOffered) }},
		{"accepted", "stale writes that the resource accepted: it refuses a token that is less than the greatest that it has accepted, and accepts an equal one",
			func(l *Line) string { return grouped(l.StaleAccepted) }},
		{"refused", "stale writes that the resource refused, because their token was less",
			func(l *Line) string { return grouped(l.StaleRefused) }},
	}
}

// Table writes the report as text.
func (r *Report) Table(out io.Writer) error {
	if _, err := fmt.Fprintf(out, "%s\n\n", r.Heading()); err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	all := columns()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	fmt.Fprintln(t, strings.Join(names, "\t"))
	for i := range r.Lines {
		cells := make([]string, len(all))
		for k := range all {
			cells[k] = all[k].value(&r.Lines[i])
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for _, line := range r.remarks() {
		fmt.Fprintf(&b, "\n%s", line)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Heading says in a sentence or two what was run.
func (r *Report) Heading() string {
	var b strings.Builder
	if r.Drawn {
		if r.Seeds == 1 {
			fmt.Fprintf(&b, "seed %d", r.Seed)
		} else {
			fmt.Fprintf(&b, "seeds %d to %d", r.Seed, r.Seed+r.Seeds-1)
		}
		fmt.Fprintf(&b, ", profile %s", r.Profile)
	} else {
		fmt.Fprintf(&b, "one schedule, seed %d", r.Seed)
	}
	fmt.Fprintf(&b, ", %d nodes, %v of faults each", r.Nodes, nanos(1000*r.Seconds))
	if r.Detection > 0 {
		fmt.Fprintf(&b, ", a silent leader noticed after about %s", inMillis(r.Detection))
	} else {
		b.WriteString(", each protocol with its own defaults")
	}
	return b.String()
}

// remarks are what the table does not say.
func (r *Report) remarks() (all []string) {
	for i := range r.Lines {
		if l := &r.Lines[i]; r.Detection > 0 && l.Silence != nil && *l.Silence != r.Detection {
			all = append(all, fmt.Sprintf("%s: silence is not the %s that were asked for: %s", l.Protocol, inMillis(r.Detection), otherwise(l)))
		}
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.MostTwoLed != nil {
			all = append(all, fmt.Sprintf("%s: two led at once in %s, longest with seed %d: %s", l.Protocol, of(l.TwoLedRuns, l.Runs), l.MostTwoLed.Seed, inMillis(l.MostTwoLed.Time)))
		}
	}
	for _, l := range r.Violations() {
		all = append(all, fmt.Sprintf("%s VIOLATED what it must hold in %s, first with seed %d: %s", l.Protocol, of(l.Violated, l.Runs), l.Violation.Seed, l.Violation.Says))
	}
	if r.Interrupted {
		var runs uint64
		for i := range r.Lines {
			runs += r.Lines[i].Runs
		}
		all = append(all, fmt.Sprintf("interrupted after %s", of(runs, r.Seeds*uint64(len(r.Lines)))))
	}
	return all
}

// otherwise says why a protocol cannot have the requested detection time.
func otherwise(l *Line) string {
	switch {
	case strings.HasPrefix(l.Protocol, "raft"):
		return fmt.Sprintf("timeouts are drawn at random, from %s to %s", inMillis(*l.Silence/2), inMillis(*l.Silence))
	case l.Protocol == queue.Name:
		return "a session of etcd lasts whole seconds, and 2,000 ms at least"
	}
	return "it is the nearest that the protocol can have"
}

func of(n, all uint64) string { return fmt.Sprintf("%s of %s runs", grouped(n), grouped(all)) }

// percent is a part of one, to a thousandth of a percent.
func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 3, 64) + " %" }

// timeOf is a time that may not be known, in milliseconds.
func timeOf(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return inMillis(*ms)
}

// inMillis is a time of so many milliseconds, with four digits, or all there are
// before the point.
func inMillis(ms float64) string {
	if ms == 0 {
		return "0 ms"
	}
	return digits(ms) + " ms"
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return digits(*v)
}

func digits(v float64) string {
	after := 3
	for limit := 1.0; after > 0 && v >= 10*limit; limit *= 10 {
		after--
	}
	text := strconv.FormatFloat(v, 'f', after, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	if n, err := strconv.ParseUint(whole, 10, 64); err == nil {
		whole = grouped(n)
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		return whole + "." + fraction
	}
	return cmp.Or(whole, "0")
}

// grouped writes a number with a comma after every three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// nanos is a time of so many milliseconds.
func nanos(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

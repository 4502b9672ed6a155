//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// shownTimes is how many of the longest times are shown in text.
const shownTimes = 3

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, r.String())
	return err
}

// String is the report as text, in several lines.
func (r *Report) String() string {
	var b strings.Builder
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	switch n := r.All(); n {
	case 0:
		say("violations", "none")
	default:
		say("violations", "%d: %s", n, counts(r.counts()))
		for _, v := range r.Violations {
			when := ""
			if v.At != 0 {
				when = r.since(v.At) + ": "
			}
			fmt.Fprintf(&b, "  %s: %s%s\n", v.Check, when, v.Text)
		}
		if n > len(r.Violations) {
			fmt.Fprintf(&b, "  and %d more\n", n-len(r.Violations))
		}
	}
	say("run", "%v; the first leader after %v", short(time.Duration(r.To-r.From)), short(r.First))
	say("elections", "%d, and %d changes of the leader", r.Elections, r.LeaderChanges)
	say("availability", "%s of the time; %s of the %v in which a majority was connected and well", percent(r.Availability), percent(r.AvailabilityHealthy), short(r.Healthy))
	for i, l := range r.Leaderless[:min(len(r.Leaderless), shownTimes)] {
		name := "leaderless"
		if i > 0 {
			name = ""
		}
		say(name, "%s: %v", r.since(l.From), l)
	}
	if len(r.Recoveries) > 0 {
		c := r.Recoveries[0]
		never := ""
		if c.Never {
			never = ", without a leader again"
		}
		say("recovery", "from the end of a fault until there was a leader: median %v, at most %v (%s, at %s%s)", short(r.RecoveryMedian), short(c.Took), c.Fault, r.since(c.At), never)
	}
	n := 0
	for _, c := range r.Faults {
		n += c
	}
	say("faults", "%d: %s", n, counts(r.Faults))
	if r.Zombies > 0 {
		say("zombies", "%d families that were frozen whole acted for an instant before they were killed, %d of them because the machine stood still; for %v at most", r.Zombies, r.Stood, short(r.Grace))
	}
	if r.Stalls > 0 {
		say("stalls", "%d times the harness, and so the machine, stood still; for %v together", r.Stalls, short(r.Stalled))
	}
	say("register", "%d operations, %d of them without an outcome; %d stale writes offered, %d refused, %d accepted; %d accepted before the next leader had written",
		r.Ops, r.Unknown, r.StaleOffered, r.StaleRefused, r.StaleAccepted, r.Late)
	growth := "growth not judged, as no process was there for long enough"
	if r.Processes > 0 {
		growth = fmt.Sprintf("%d processes for growth", r.Processes)
	}
	say("judged", "%d pieces by porcupine, the longest of %d operations; %d watchers saw %d states; %d steps replayed in %d flight records, with %d leases of %d terms; %d terms told; %s; in %v",
		r.Pieces, r.LongestPiece, r.Watchers, r.Observations, r.Steps, r.Segments, r.Leases, r.Leased, r.Told, growth, short(r.Took))
	return b.String()
}

// since is a time, counted from the beginning of the run.
func (r *Report) since(at int64) string {
	return time.Duration(at - r.From).Round(100 * time.Microsecond).String()
}

// short is a duration with few digits.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func percent(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }

// counts are numbers by name, the greatest first.
func counts(n map[string]int) string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	if len(names) == 0 {
		return "none"
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, n[name])
	}
	return strings.Join(names, ", ")
}

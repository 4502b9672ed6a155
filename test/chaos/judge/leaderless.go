//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Leaderless is a time without a leader in which one set of voters, a majority of them, was well
// and connected throughout: each process running, booted, neither stopped nor starved, its disk and
// clocks sound, and all links among them perfect both ways. The other voters do not matter.
type Leaderless struct {
	From   int64         `json:"from"`
	Length time.Duration `json:"length"`          // without Stalls
	Stalls time.Duration `json:"stalls,omitzero"` // in which the harness itself did not run
	Set    []int         `json:"set"`             // the voters, by number
	// During are the faults in progress when it began. If there were none, After is the one that
	// had ended last, Since ago.
	During []string      `json:"during,omitempty"`
	After  string        `json:"after,omitempty"`
	Since  time.Duration `json:"since,omitempty"`
}

func (l Leaderless) String() string {
	if len(l.Set) == 0 {
		return "none"
	}
	names := make([]string, len(l.Set))
	for i, node := range l.Set {
		names[i] = nodeName(node)
	}
	when := ""
	switch {
	case len(l.During) > 0:
		when = fmt.Sprintf("; it began during %s", strings.Join(l.During, ", "))
	case l.After != "":
		when = fmt.Sprintf("; it began %v after %s", l.Since.Round(time.Millisecond), l.After)
	}
	stood := ""
	if l.Stalls > 0 {
		stood = fmt.Sprintf(" (and %v in which the machine stood still)", l.Stalls.Round(time.Millisecond))
	}
	return fmt.Sprintf("%v%s, while %s were connected and well%s", l.Length.Round(100*time.Microsecond), stood, strings.Join(names, " "), when)
}

// Recovery is the time from the end of a fault, with no other in progress, until there was a
// leader.
type Recovery struct {
	At    int64         `json:"at"`
	Fault string        `json:"fault"`
	Took  time.Duration `json:"took"`
	Never bool          `json:"never,omitempty"` // Took is until the end of the run
}

// led is when there was a leader, from the first tenure to the end of the run.
func (r *run) led() (led []span, within span) {
	if len(r.tenures) == 0 {
		return nil, span{r.from, r.to}
	}
	for _, g := range r.tenures {
		led = append(led, span{g.start, g.last})
	}
	led = union(led)
	if len(led) == 0 {
		return nil, span{r.from, r.to}
	}
	return led, span{max(led[0].from, r.from), r.to}
}

// lateElection is the number of promises without a leader after which an election counts as
// missing, not as late.
const lateElection = 30

// keptTimes is how many of the longest recoveries a report lists.
const keptTimes = 10

// availability fills in the figures about times with a leader.
func (r *run) availability(report *Report) {
	led, within := r.led()
	if within.length() <= 0 {
		return
	}
	if len(r.tenures) > 0 {
		report.First = time.Duration(within.from - r.from)
	}
	led = common(led, []span{within})
	report.Availability = float64(total(led)) / float64(within.length())

	able := r.majorities()
	var any []span
	for _, spans := range able {
		any = append(any, spans...)
	}
	any = common(union(any), []span{within})
	if sum := total(any); sum > 0 {
		report.AvailabilityHealthy = float64(total(common(led, any))) / float64(sum)
	}
	report.Healthy = time.Duration(total(any))

	sets := slices.Sorted(maps.Keys(able))
	var all []Leaderless
	for _, gap := range without(within, led) {
		var best Leaderless
		var set nodes
		for _, s := range sets {
			spans := able[s]
			i, _ := slices.BinarySearchFunc(spans, gap.from, func(s span, at int64) int { return cmp.Compare(s.to, at) })
			for ; i < len(spans) && spans[i].from < gap.to; i++ {
				b := spans[i].both(gap)
				stood := overlap(r.stalls, b)
				if length := time.Duration(b.length() - stood); length > best.Length {
					best, set = Leaderless{From: b.from, Length: length, Stalls: time.Duration(stood)}, s
				}
			}
		}
		if best.Length > 0 {
			best.Set = set.list()
			all = append(all, best)
		}
	}
	slices.SortStableFunc(all, func(a, b Leaderless) int { return cmp.Compare(b.Length, a.Length) })
	report.Leaderless = all
	for i := range report.Leaderless {
		l := &report.Leaderless[i]
		l.During, l.After, l.Since = r.before(l.From)
	}
	if len(all) > 0 {
		report.Longest, report.LongestAt = all[0].Length, all[0].From
	}
	report.Recoveries, report.RecoveryMedian = r.recoveries()
}

// sweepLive checks that there was a leader in the end wherever a majority was connected and well.
func (r *run) sweepLive(found *findings, report *Report) {
	most := lateElection * r.options.Promise
	for _, l := range report.Leaderless {
		if most > 0 && l.Length > most {
			found.add(Violation{Check: CheckLive, At: l.From, Node: NoNode, Text: fmt.Sprintf("there was no leader for more than %d promises, %v: %v", lateElection, most, l)})
		}
	}
}

// broken reports the promises that the harness itself saw broken.
func (r *run) broken(found *findings) {
	for _, e := range r.events {
		if e.Kind == Broken {
			found.add(Violation{Check: cmp.Or(e.Check, CheckLive), At: e.At, Node: e.Node, Text: e.Text})
		}
	}
}

// before returns the faults in progress at a time, or the one that had ended last.
func (r *run) before(at int64) (during []string, after string, since time.Duration) {
	var last *fault
	for i := range r.faults {
		f := &r.faults[i]
		if f.from > at {
			break
		}
		if f.to > at {
			during = append(during, f.name)
		} else if last == nil || f.to >= last.to {
			last = f
		}
	}
	if len(during) == 0 && last != nil {
		after, since = last.name, time.Duration(at-last.to)
	}
	return during, after, since
}

// recoveries are the longest of the times from heals to leaders, and the median of all. A heal
// counts if no fault is in progress after it, and none begins before there is a leader.
func (r *run) recoveries() (longest []Recovery, median time.Duration) {
	starts := make([]int64, 0, len(r.faults)) // sorted
	ends := make([]int64, 0, len(r.faults))
	for _, f := range r.faults {
		starts = append(starts, f.from)
		ends = append(ends, f.to)
	}
	slices.Sort(ends)
	led, _ := r.led()
	count := func(sorted []int64, at int64) int { // how many are at most at
		i, _ := slices.BinarySearch(sorted, at+1)
		return i
	}
	var all []Recovery
	for _, f := range r.faults {
		if !f.healed || f.to > r.to || count(starts, f.to) > count(ends, f.to) {
			continue
		}
		i, _ := slices.BinarySearchFunc(led, f.to+1, func(s span, at int64) int { return cmp.Compare(s.to, at) })
		c := Recovery{At: f.to, Fault: f.name, Never: i == len(led)}
		next := r.to
		if !c.Never {
			next = max(led[i].from, f.to)
		}
		c.Took = time.Duration(next - f.to)
		if count(starts, next) > count(starts, f.to) {
			continue // another began before
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Recovery) int { return cmp.Compare(b.Took, a.Took) })
	if n := len(all); n > 0 {
		median = all[n/2].Took
	}
	return all[:min(len(all), keptTimes)], median
}

package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// verdict judges the runs of a scenario.
type verdict struct {
	*stage
	runs  []*run
	first *run
	says  []string
	wrong []string
}

// say adds what has happened to the outcome.
func (c *verdict) say(format string, args ...any) {
	c.says = append(c.says, fmt.Sprintf(format, args...))
}

// claim says what was expected, if all expectations hold.
func (c *verdict) claim(format string, args ...any) {
	if len(c.wrong) == 0 {
		c.say(format, args...)
	}
}

// want records an expectation that failed.
func (c *verdict) want(ok bool, format string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// outcome describes what has happened, in a sentence.
func (c *verdict) outcome() string {
	says := strings.Join(c.says, "; ")
	if says == "" && len(c.wrong) > 0 {
		says = c.wrong[0]
	}
	if says == "" {
		return ""
	}
	return says + "."
}

// counts is the span in which a tenure counts: while its lease is proven, or where there are no
// leases while it is elected. ok is false if it never does.
func (r *run) counts(g *Tenure) (s Span, ok bool) {
	if !r.leases {
		return g.Span, true
	}
	if len(g.Proven) == 0 {
		return Span{}, false
	}
	return between(g.Proven[0].From, g.Proven[len(g.Proven)-1].Until), true
}

// leader is the tenure that counts at t, the latest if there are more; nil if there is none.
func (r *run) leader(t sim.Time) *Tenure {
	for i := len(r.tenures) - 1; i >= 0; i-- {
		g := &r.tenures[i]
		if r.leases && slices.ContainsFunc(g.Proven, func(s Span) bool { return s.Has(t) }) || !r.leases && g.Has(t) {
			return g
		}
	}
	return nil
}

// who is the leader's id at t.
func (r *run) who(t sim.Time) protocol.NodeID {
	if g := r.leader(t); g != nil {
		return g.Who
	}
	return ""
}

// leaders are all that count at t, in the order of their elections.
func (r *run) leaders(t sim.Time) (all []string) {
	for i := range r.tenures {
		g := &r.tenures[i]
		leads := g.Has(t)
		if r.leases {
			leads = slices.ContainsFunc(g.Proven, func(s Span) bool { return s.Has(t) })
		}
		if leads {
			all = append(all, string(g.Who))
		}
	}
	return all
}

// next is the first tenure that is won after t, by one of those in who (any, if it is empty); nil
// if there is none.
func (r *run) next(t sim.Time, who ...protocol.NodeID) *Tenure {
	for i := range r.tenures {
		if g := &r.tenures[i]; g.From > t && (len(who) == 0 || slices.Contains(who, g.Who)) {
			return g
		}
	}
	return nil
}

// won are the tenures that were won in a span.
func (r *run) won(s Span) []*Tenure {
	var all []*Tenure
	for i := range r.tenures {
		if g := &r.tenures[i]; s.Has(g.From) {
			all = append(all, g)
		}
	}
	return all
}

// changes is how often, of the tenures that counted from a time in s on, one came after another
// participant's.
func (r *run) changes(s Span) int {
	type start struct {
		at  sim.Time
		who protocol.NodeID
	}
	var all []start
	for i := range r.tenures {
		if c, ok := r.counts(&r.tenures[i]); ok {
			all = append(all, start{c.From, r.tenures[i].Who})
		}
	}
	slices.SortStableFunc(all, func(a, b start) int { return int(a.at - b.at) })
	n := 0
	for i := 1; i < len(all); i++ {
		if s.Has(all[i].at) && all[i].who != all[i-1].who {
			n++
		}
	}
	return n
}

// both is for how long two participants led at one true instant, within s.
func (r *run) both(s Span) (sum time.Duration) {
	spans := func(g *Tenure) []Span {
		if r.leases {
			return g.Proven
		}
		return []Span{g.Span}
	}
	for i := range r.tenures {
		for j := range i {
			a, b := &r.tenures[i], &r.tenures[j]
			if a.Place == b.Place {
				continue
			}
			for _, x := range spans(a) {
				for _, y := range spans(b) {
					sum += max(0, x.Within(y).Within(s).Length())
				}
			}
		}
	}
	return sum
}

// led is for how long there was a leader, within s; two at one time count twice.
func (r *run) led(s Span) (sum time.Duration) {
	for i := range r.tenures {
		g := &r.tenures[i]
		if !r.leases {
			sum += max(0, g.Within(s).Length())
			continue
		}
		for _, x := range g.Proven {
			sum += max(0, x.Within(s).Length())
		}
	}
	return sum
}

// longest is the longest uninterrupted time with one leader, within s.
func (r *run) longest(s Span) (most time.Duration) {
	for i := range r.tenures {
		if c, ok := r.counts(&r.tenures[i]); ok {
			most = max(most, c.Within(s).Length())
		}
	}
	return most
}

// term is the greatest term of all at t.
func (r *run) term(t sim.Time) (term uint64) {
	for _, m := range r.terms {
		if m.at <= t {
			term = m.value
		}
	}
	return term
}

// undisturbed says why the tenure that counts at from does not go on until to: it ends, there is a
// gap in its proof, or another is elected. It is empty if it goes on.
func (r *run) undisturbed(from, to sim.Time) string {
	g := r.leader(from)
	if g == nil {
		return fmt.Sprintf("no node leads at %s", from)
	}
	all := between(from, to)
	if g.Until < to {
		return fmt.Sprintf("the term of %s with token %d, which led at %s, ends at %s", g.Who, g.Token, from, g.Until)
	}
	if r.leases && !slices.ContainsFunc(g.Proven, func(s Span) bool { return s.From <= from && s.Until >= to }) {
		return fmt.Sprintf("there is a gap in the proof of %s, token %d, after %s", g.Who, g.Token, from)
	}
	if w := r.won(all); len(w) > 0 {
		return fmt.Sprintf("%s is elected at %s with token %d", w[0].Who, w[0].From, w[0].Token)
	}
	return ""
}

// since is the time from the beginning of the faults.
func (c *verdict) since(t sim.Time) time.Duration { return time.Duration(t - c.fault) }

// undisturbed requires in all runs that the first of the cast leads from before the faults until
// the end, and no other is elected.
func (c *verdict) undisturbed() {
	for _, r := range c.runs {
		c.want(r.who(c.fault) == c.ids[0], "seed %d: %s leads when the faults begin; want %s", r.schedule.Seed, r.who(c.fault), c.ids[0])
		why := r.undisturbed(c.fault, r.end)
		c.want(why == "", "seed %d: %s", r.schedule.Seed, why)
		c.safe(r)
	}
	g := c.first.leader(c.fault)
	if g == nil {
		return
	}
	c.claim("%s leads throughout, with token %d", g.Who, g.Token)
}

// last describes the leader in the end.
func (c *verdict) last() string {
	var all []string
	runs := make(map[string]int)
	for _, r := range c.runs {
		text := "no node leads"
		switch who := r.leaders(r.end - 1); len(who) {
		case 0:
		case 1:
			text = who[0] + " leads alone"
		default:
			text = strings.Join(who, " and ") + " lead"
		}
		if runs[text]++; runs[text] == 1 {
			all = append(all, text)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	for i, text := range all {
		all[i] = fmt.Sprintf("%s in %d of %d runs", text, runs[text], len(c.runs))
	}
	return strings.Join(all, ", ")
}

// twoLead says for how long two lead at one time, at most.
func twoLead(most time.Duration) string {
	if most == 0 {
		return "no two lead at once"
	}
	return fmt.Sprintf("two lead at once for %s at most", shown(most))
}

// safe requires that nothing was violated.
func (c *verdict) safe(r *run) {
	c.want(r.result.Violation == nil, "seed %d: it violates %v", r.schedule.Seed, r.result.Violation)
	for _, v := range r.result.Found {
		c.want(false, "seed %d: it is found failing: %v", r.schedule.Seed, &v)
	}
	c.want(r.both(between(0, r.end)) == 0, "seed %d: two lead for %s", r.schedule.Seed, shown(r.both(between(0, r.end))))
}

// sound requires that nothing was violated that must hold.
func (c *verdict) sound(r *run) {
	c.want(r.result.Violation == nil, "seed %d: it violates %v", r.schedule.Seed, r.result.Violation)
}

// takeover is how long after t, in each run, the next one was elected, and led. It requires one in
// each of them.
func (c *verdict) takeovers(t sim.Time) (elected, leads []time.Duration) {
	for _, r := range c.runs {
		g := r.next(t)
		if g == nil {
			c.want(false, "seed %d: no node is elected after %s", r.schedule.Seed, t)
			continue
		}
		elected = append(elected, time.Duration(g.From-t))
		s, ok := r.counts(g)
		for ; !ok && g != nil; g = r.next(g.From) {
			s, ok = r.counts(g)
		}
		if !ok {
			c.want(false, "seed %d: no node leads after %s", r.schedule.Seed, t)
			continue
		}
		leads = append(leads, time.Duration(s.From-t))
	}
	return elected, leads
}

// quantile is the p-th of figures, by the nearest rank; 0 if there are none.
func quantile[T int | time.Duration](all []T, p float64) T {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[min(max(int(p*float64(len(s))+0.999999)-1, 0), len(s)-1)]
}

// spread is the median of times, with the least and the most if they look different.
func spread(all []time.Duration) string {
	median, least, most := shown(quantile(all, .5)), shown(quantile(all, 0)), shown(quantile(all, 1))
	if least == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// fromTo is a range of numbers.
func fromTo(all []int) string {
	least, most := quantile(all, 0), quantile(all, 1)
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// plural is a number of things.
func plural[T int | uint64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/electd/elect"
)

// Alert is a condition that has held for long enough. Fields are added, and never renamed or removed.
type Alert struct {
	Alert    string    `json:"alert"` // the name of the rule in deploy/prometheus
	Severity string    `json:"severity"`
	Election string    `json:"election"`
	Name     string    `json:"name"`
	Text     string    `json:"text"`
	Since    time.Time `json:"since"` // when the condition began
}

// rule is a rule of deploy/prometheus, judged by what top sees. A test compares names, severities and times.
type rule[T any] struct {
	name, severity string
	wait           time.Duration
	holds          func(of T, now time.Time) []finding
}

// finding is a case in which a condition holds.
type finding struct{ of, text string }

const (
	critical = "critical"
	warning  = "warning"

	changeWindow, manyChanges = 15 * time.Minute, 4
	slackWindow, slackTop     = 10 * time.Minute, time.Hour
	lateLease, lateSession    = 0.5, 0.6 // of the greatest slack
)

// rules are all that can be judged from here. TestRules lists the others.
var rules = [...]rule[*Election]{
	{"ElectTwoLeadersInOneTerm", critical, 0, twoInOneTerm},
	{"ElectTwoLeaders", critical, 2 * time.Minute, twoLeaders},
	{"ElectNoLeader", critical, time.Minute, noLeader},
	{"ElectNoParticipant", critical, time.Minute, noParticipant},
	{"ElectManyLeaderChanges", warning, 0, manyLeaderChanges},
	{"ElectLeaseSlackLow", warning, 5 * time.Minute, slackLow},
	{"ElectCandidateIll", warning, 5 * time.Minute, ill},
}

func twoInOneTerm(e *Election, _ time.Time) (all []finding) {
	terms := map[elect.Token]int{}
	for _, n := range e.Nodes {
		if n.Leads && n.Token != 0 {
			terms[n.Token]++
		}
	}
	for _, token := range slices.Sorted(maps.Keys(terms)) {
		if terms[token] > 1 {
			all = append(all, finding{token.String(), fmt.Sprintf("%d participants prove leadership of term %v", terms[token], token)})
		}
	}
	return all
}

func twoLeaders(e *Election, _ time.Time) []finding {
	leaders := 0
	for _, n := range e.Nodes {
		if n.Leads {
			leaders++
		}
	}
	if leaders < 2 {
		return nil
	}
	return []finding{{"", fmt.Sprintf("%d participants claim leadership", leaders)}}
}

func noLeader(e *Election, _ time.Time) []finding {
	if !e.heard || e.Leader != nil && !e.Stale {
		return nil
	}
	return []finding{{"", "nobody is seen to lead"}}
}

func noParticipant(e *Election, _ time.Time) []finding {
	if e.heard || e.Cause == "" {
		return nil
	}
	return []finding{{"", "no source answers"}}
}

func manyLeaderChanges(e *Election, now time.Time) []finding {
	n := 0
	for _, t := range e.changed {
		if now.Sub(t) <= changeWindow {
			n++
		}
	}
	if n < manyChanges {
		return nil
	}
	return []finding{{"", fmt.Sprintf("%d leader changes in 15 minutes", n)}}
}

func ill(e *Election, _ time.Time) (all []finding) {
	for _, n := range e.Nodes {
		if n.Ill && n.Error == "" {
			all = append(all, finding{n.Source + " " + n.ID, n.ID + " is ill"})
		}
	}
	return all
}

func slackLow(e *Election, now time.Time) []finding { return late(e.leases, now, lateLease, "lease") }

// late finds those of whom in a quarter of the cases a small share of the greatest slack is left.
func late(of map[string]*slack, now time.Time, share float64, what string) (all []finding) {
	for _, who := range slices.Sorted(maps.Keys(of)) {
		s := of[who]
		s.forget(now)
		if quarter, top := s.quarter(), s.top(); len(s.recent) > 0 && float64(quarter) < share*float64(top) {
			all = append(all, finding{who, fmt.Sprintf("%s renews its %s late: %v is left in a quarter of the cases, and at most %v", s.id, what, quarter, top)})
		}
	}
	return all
}

// slack has what was left of a leader's lease at each reading.
type slack struct {
	id     string
	recent []lease // of slackWindow
	tops   []lease // the greatest of each minute of slackTop
}

type lease struct {
	at   time.Time
	left time.Duration
}

// sample keeps a reading of a leader's lease.
func (e *Election) sample(n *Node) {
	if !n.Leads || n.Lease == nil {
		return
	}
	of := n.Source + " " + n.ID
	s := e.leases[of]
	if s == nil {
		s = &slack{id: n.ID}
		e.leases[of] = s
	}
	s.add(lease{n.At, time.Duration(*n.Lease) * time.Millisecond})
}

func (s *slack) add(l lease) {
	if i := len(s.recent); i > 0 && !l.at.After(s.recent[i-1].at) {
		return // this reading is kept already
	}
	s.recent = append(s.recent, l)
	if i := len(s.tops) - 1; i >= 0 && l.at.Sub(s.tops[i].at) < time.Minute {
		s.tops[i].left = max(s.tops[i].left, l.left)
	} else {
		s.tops = append(s.tops, l)
	}
}

func (s *slack) forget(now time.Time) {
	older := func(than time.Duration) func(lease) bool {
		return func(l lease) bool { return now.Sub(l.at) > than }
	}
	s.recent = slices.DeleteFunc(s.recent, older(slackWindow))
	s.tops = slices.DeleteFunc(s.tops, older(slackTop))
}

// quarter is the first quartile: a quarter of the recent readings are not above it.
func (s *slack) quarter() time.Duration {
	if len(s.recent) == 0 {
		return 0
	}
	all := slices.SortedFunc(slices.Values(s.recent), func(a, b lease) int { return cmp.Compare(a.left, b.left) })
	return all[(len(all)-1)/4].left
}

func (s *slack) top() (d time.Duration) {
	for _, l := range s.tops {
		d = max(d, l.left)
	}
	return d
}

// Judge finds the alerts of an instant. It is called at least once in a few seconds.
func (m *Model) Judge(now time.Time) {
	holding := map[string]time.Time{}
	m.alerts = nil
	elections := m.Document(now).Elections
	for _, r := range rules {
		for _, e := range elections {
			m.alerts = append(m.alerts, r.judge(e, Key{e.Election, e.Name}, now, m.holding, holding)...)
		}
	}
	m.holding = holding
}

// judge finds the alerts of a rule. Conditions held since the times in was; those that hold are put into is.
func (r *rule[T]) judge(of T, name Key, now time.Time, was, is map[string]time.Time) (all []Alert) {
	for _, f := range r.holds(of, now) {
		key := fmt.Sprintf("%s\x00%s\x00%s\x00%s", r.name, name.Election, name.Name, f.of)
		since, ok := was[key]
		if !ok {
			since = now
		}
		is[key] = since
		if now.Sub(since) >= r.wait {
			all = append(all, Alert{r.name, r.severity, name.Election, name.Name, f.text, since})
		}
	}
	return all
}

// of are the alerts of an election.
func (m *Model) of(e *Election) (all []Alert) {
	for _, a := range m.alerts {
		if a.Election == e.Election && a.Name == e.Name {
			all = append(all, a)
		}
	}
	return all
}

package top

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/printable"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli"
)

// Group is the model of elect group top: what the coordinator of one group says of it. It belongs to one goroutine.
type Group struct {
	election string // its URL, as people may see it
	last     group.Status
	left     map[string]time.Duration // of each member's session, as it was read
	at       time.Time                // when that was; zero before the first answer
	err      error                    // the last question had no answer
	moved    []moves                  // of rateWindow, under one coordinator
	slacks   map[string]*slack
	holding  map[string]time.Time
	alerts   []Alert
}

// moves is a reading of how many moves a coordinator has begun.
type moves struct {
	at time.Time
	n  uint64
}

const rateWindow = 10 * time.Second

// NewGroup returns a model of which nothing is known but the group's URL, as people may see it.
func NewGroup(election string) *Group {
	return &Group{election: election, slacks: map[string]*slack{}, holding: map[string]time.Time{}}
}

// Apply takes an answer, which is the status and the slack of each member's session, or an error.
func (g *Group) Apply(s group.Status, left map[string]time.Duration, at time.Time, err error) {
	if g.err = err; err != nil {
		return
	}
	if s.Token != g.last.Token || s.Coordinator != g.last.Coordinator || s.Moves < g.last.Moves {
		g.moved = nil // another coordinator has counted
	}
	for len(g.moved) > 1 && at.Sub(g.moved[0].at) > rateWindow {
		g.moved = slices.Delete(g.moved, 0, 1)
	}
	g.moved = append(g.moved, moves{at, s.Moves})
	g.last, g.left, g.at = s, left, at
	for id, d := range left {
		if g.slacks[id] == nil {
			g.slacks[id] = &slack{id: id}
		}
		g.slacks[id].add(lease{at, d})
	}
	maps.DeleteFunc(g.slacks, func(id string, _ *slack) bool { _, there := left[id]; return !there })
}

// rate is how many moves begin in a second, and false if two readings under one coordinator are missing.
func (g *Group) rate() (float64, bool) {
	if len(g.moved) < 2 {
		return 0, false
	}
	first, last := g.moved[0], g.moved[len(g.moved)-1]
	return float64(last.n-first.n) / last.at.Sub(first.at).Seconds(), true
}

// groupRules are those of deploy/prometheus for groups.
var groupRules = [...]rule[*Group]{
	{"ElectGroupNoCoordinator", critical, time.Minute, headless},
	{"ElectGroupKeysUnowned", critical, time.Minute, unowned},
	{"ElectGroupSlackLow", warning, 5 * time.Minute, func(g *Group, now time.Time) []finding { return late(g.slacks, now, lateSession, "session") }},
}

func headless(g *Group, _ time.Time) []finding {
	if errors.Is(g.err, elect.ErrNoLeader) {
		return []finding{{"", "no coordinator"}}
	}
	return nil
}

func unowned(g *Group, _ time.Time) []finding {
	if n := g.last.Keys - g.last.Held; n > 0 && g.err == nil {
		return []finding{{"", fmt.Sprintf("%s without a holder", count(n, "key"))}}
	}
	return nil
}

// Judge is as that of [Model].
func (g *Group) Judge(now time.Time) {
	holding := map[string]time.Time{}
	g.alerts = nil
	for _, r := range groupRules {
		g.alerts = append(g.alerts, r.judge(g, Key{g.election, g.last.Group}, now, g.holding, holding)...)
	}
	g.holding = holding
}

// groupOrders are the orders of members.
var groupOrders = [...]order{
	{"name", func(a, b *line) int { return 0 }},
	{"keys", func(a, b *line) int { return cmp.Compare(b.changes, a.changes) }},
	{"state", func(a, b *line) int { return cmp.Compare(b.grade, a.grade) }},
}

var groupHeader = [...]string{"MEMBER", "STATE", "KEYS", "SHARE", "WEIGHT", "SLACK", "ZONE", "ADDRESS"}

// Picture is as that of [Model].
func (g *Group) Picture(v *View, now time.Time, width, height int) []string {
	lines := g.lines()
	v.arrange(lines, groupOrders[:])
	p := painter{width: width, colour: v.Colour}
	p.title(v, fmt.Sprintf("elect group top  %s, %s", count(len(g.last.Members), "member"), count(len(g.alerts), "alert")), now)
	for i, text := range g.summary() {
		look := plain
		if i == 0 && g.err != nil {
			look = yellow
		}
		p.add(look, text)
	}
	bottom := bottom(g.alerts, "q quit  j/k or arrows select  s sort by "+v.next(), height)
	p.table(v, groupHeader[:], lines, max(height-len(p.lines)-len(bottom), 1))
	return p.end(bottom, height)
}

// summary is the group without its members.
func (g *Group) summary() []string {
	s := &g.last
	switch {
	case g.at.IsZero() && g.err == nil:
		return []string{g.election + ": " + noAnswer, ""}
	case g.at.IsZero():
		return []string{g.election + ": " + cli.OneLine(g.err.Error()), ""}
	}
	who := fmt.Sprintf("%s at %s  coordinator %s, token %v", s.Group, g.election, s.Coordinator, s.Token)
	if s.Covering {
		who += ", new: it waits for members"
	}
	if g.err != nil {
		who = fmt.Sprintf("%s at %s  no answer: %s", s.Group, g.election, cli.OneLine(g.err.Error()))
	}
	rate := "-"
	if r, ok := g.rate(); ok {
		rate = fmt.Sprintf("%.1f", r)
	}
	return []string{who, fmt.Sprintf("keys %d  held %d  unowned %d  moving %d  moves/s %s", s.Keys, s.Held, s.Keys-s.Held, s.Moving, rate)}
}

// lines are the rows in the order of names.
func (g *Group) lines() (all []line) {
	for _, m := range g.last.Members {
		state, grade := "ready", 0
		switch {
		case !m.Attached:
			state, grade = "not connected", 1
		case m.Draining:
			state = "draining"
		case !m.Admitted:
			state, grade = "not admitted yet", 1
		}
		if m.ID == g.last.Coordinator {
			state += ", coordinator"
		}
		share, left := "-", "-"
		if g.last.Held > 0 {
			share = fmt.Sprintf("%d%%", (100*m.Keys+g.last.Held/2)/g.last.Held)
		}
		if d, ok := g.left[m.ID]; ok && g.err == nil {
			left = short(max(d, 0))
		}
		if slices.ContainsFunc(g.alerts, func(a Alert) bool { return strings.HasPrefix(a.Text, m.ID+" renews ") }) {
			grade = 1
		}
		cells := []string{m.ID, state, fmt.Sprint(m.Keys), share, fmt.Sprint(m.Weight), left, cmp.Or(m.Zone, "-"), cmp.Or(m.Address, "-")}
		for i := range cells {
			cells[i] = printable.Text(cells[i])
		}
		all = append(all, line{Key: Key{g.election, m.ID}, cells: cells, grade: grade, changes: m.Keys})
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Write writes the summary, a table of the members, and the alerts.
func (g *Group) Write(w io.Writer) error {
	for _, text := range g.summary() {
		fmt.Fprintln(w, printable.Text(text))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(groupHeader[:], "\t"))
	for _, l := range g.lines() {
		fmt.Fprintln(t, strings.Join(l.cells, "\t"))
	}
	err := t.Flush()
	for i := range g.alerts {
		_, err = fmt.Fprintf(w, "\n%s\n", printable.Text(g.alerts[i].line()))
	}
	return err
}

// GroupDocument is the model as -o json shows it. Fields are added, and never renamed or removed.
type GroupDocument struct {
	Time        time.Time     `json:"time"`
	Election    string        `json:"election"`
	Group       string        `json:"group"`
	Coordinator string        `json:"coordinator"`
	Token       elect.Token   `json:"token"`
	Covering    bool          `json:"covering,omitempty"`
	Keys        int           `json:"keys"`
	Held        int           `json:"held"`
	Unowned     int           `json:"unowned"`
	Moving      int           `json:"moving"`
	Moves       uint64        `json:"moves"`
	Members     []GroupMember `json:"members"`
	Alerts      []Alert       `json:"alerts"`
}

// GroupMember is a member.
type GroupMember struct {
	group.Member
	Slack *int64 `json:"slack_ms,omitempty"`
}

// Document returns the model.
func (g *Group) Document(now time.Time) GroupDocument {
	s := &g.last
	d := GroupDocument{
		Time: now, Election: g.election, Group: s.Group, Coordinator: s.Coordinator, Token: s.Token, Covering: s.Covering, Keys: s.Keys, Held: s.Held,
		Unowned: s.Keys - s.Held, Moving: s.Moving, Moves: s.Moves, Members: []GroupMember{}, Alerts: append([]Alert{}, g.alerts...),
	}
	for _, m := range s.Members {
		of := GroupMember{Member: m}
		if left, ok := g.left[m.ID]; ok {
			ms := max(left.Milliseconds(), 0)
			of.Slack = &ms
		}
		d.Members = append(d.Members, of)
	}
	return d
}

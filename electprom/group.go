package electprom

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect/group"
)

// Group is the collector of one member of a group.
type Group struct {
	g *group.Group

	held, slack, coordinates, known, unowned, members, moves *prometheus.Desc
}

// NewGroup returns the metrics of a member. name is the value of the label group, the name of the group. The coordinator
// has those of the whole group, and answers to no other member's scrape.
func NewGroup(name string, g *group.Group) *Group {
	desc := func(name, help string, of prometheus.Labels, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, of)
	}
	of := prometheus.Labels{"group": strings.ToValidUTF8(name, "\uFFFD")}
	return &Group{
		g:           g,
		held:        desc("elect_group_keys_held", "Keys that this member holds.", of),
		slack:       desc("elect_group_session_slack_seconds", "Time for which the keys of this member are proven without another renewal.", of),
		coordinates: desc("elect_group_is_coordinator", "1 if this member is the coordinator.", of),
		known:       desc("elect_group_keys", "Keys that this member knows as the coordinator.", of),
		unowned:     desc("elect_group_keys_unowned", "Keys of these that nobody holds.", of),
		members:     desc("elect_group_member_keys", "Keys of these that a member holds.", of, "member"),
		moves:       desc("elect_group_moves_total", "Moves of keys that this member has begun as the coordinator, by cause.", of, "cause"),
	}
}

// Describe implements prometheus.Collector.
func (m *Group) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.held, m.slack, m.coordinates, m.known, m.unowned, m.members, m.moves} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Group) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := m.g.Measure()
	gauge(m.held, float64(now.Keys))
	gauge(m.coordinates, number(now.Coordinates))
	if now.Attached || now.Keys > 0 {
		gauge(m.slack, now.Claim.Seconds())
	}
	for cause, n := range now.Moves {
		ch <- prometheus.MustNewConstMetric(m.moves, prometheus.CounterValue, float64(n), strings.ToValidUTF8(cause, "\uFFFD"))
	}
	if !now.Coordinates {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	s, err := m.g.Status(ctx)
	if err != nil || s.Coordinator != m.g.ID() {
		return // it has changed meanwhile
	}
	gauge(m.known, float64(s.Keys))
	gauge(m.unowned, float64(s.Keys-s.Held))
	keys := map[string]int{} // a member may have two sessions, one of which ends
	for _, member := range s.Members {
		keys[strings.ToValidUTF8(member.ID, "\uFFFD")] += member.Keys
	}
	for id, n := range keys {
		gauge(m.members, float64(n), id)
	}
}

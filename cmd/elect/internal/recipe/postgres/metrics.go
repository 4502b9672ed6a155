package postgres

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/electd/elect/electprom"
)

// gauge is a metric of a node, and its value; false is not known.
type gauge struct {
	desc  *prometheus.Desc
	value func(n *Node) (float64, bool)
}

// gauges collects the metrics of a node. It asks no server: a scrape costs nothing.
type gauges struct {
	n   *Node
	all []gauge
}

// metricsOf serves the metrics of a node and of its election.
func metricsOf(n *Node, m *electprom.Metrics) http.Handler {
	g := &gauges{n: n}
	add := func(name, help string, value func(n *Node) (float64, bool)) {
		g.all = append(g.all, gauge{prometheus.NewDesc("elect_postgres_"+name, help, nil, prometheus.Labels{"election": n.s.Name, "node": n.s.ID}), value})
	}
	is := func(yes bool) (float64, bool) {
		if yes {
			return 1, true
		}
		return 0, true
	}
	add("primary", "1 while clients may write here: GET /primary is 200.", func(n *Node) (float64, bool) { return is(n.isPrimary() == nil) })
	add("replica", "1 while clients may read here: GET /replica is 200.", func(n *Node) (float64, bool) { return is(n.isReplica() == nil) })
	add("running", "1 while the server runs.", func(n *Node) (float64, bool) { return is(n.db.Running()) })
	add("whole", "1 if the data of this node counts for a promotion.", func(n *Node) (float64, bool) { return is(n.record().Whole) })
	add("paused", "1 while this node is paused.", func(n *Node) (float64, bool) { return is(n.isPaused()) })
	add("followed_token", "The token of the term that wrote the last of this node's WAL.", func(n *Node) (float64, bool) { return float64(n.record().Followed), true })
	add("wal_bytes", "The end of this node's WAL.", func(n *Node) (float64, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return float64(n.seen.LSN), n.seen.LSN > 0
	})
	add("behind_bytes", "How far this replica is behind its primary.", func(n *Node) (float64, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return float64(n.behind), n.term == nil && n.behind >= 0
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(g, m)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: 4})
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range g.all {
		ch <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	for _, one := range g.all {
		if v, ok := one.value(g.n); ok {
			ch <- prometheus.MustNewConstMetric(one.desc, prometheus.GaugeValue, v)
		}
	}
}

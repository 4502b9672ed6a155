package redis

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics collects the metrics of the master and the servers. It asks no server: a scrape costs nothing.
type Metrics struct {
	e                                            *Elector
	up, acts, told, epoch, changes, waits        *prometheus.Desc
	serverUp, isMaster, linked, offset, priority *prometheus.Desc
}

// Metrics makes the collector of an elector.
func (e *Elector) Metrics() *Metrics {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("elect_redis_"+name, help, labels, prometheus.Labels{"election": e.cfg().Name})
	}
	return &Metrics{
		e:        e,
		up:       d("master_up", "1 while this elector finds the master up that clients are told."),
		acts:     d("acting", "1 while this elector acts."),
		told:     d("master_told", "1 while this elector tells clients a master."),
		epoch:    d("epoch", "How many masters there were, as this elector knows."),
		changes:  d("switches_total", "How often this elector has told of another master since its start."),
		waits:    d("waiting", "1 while this elector acts, and waits for something that the log names."),
		serverUp: d("server_up", "1 while this elector finds the server up.", "server"),
		isMaster: d("server_master", "1 if the server says that it is a master.", "server"),
		linked:   d("server_linked", "1 if the server is a replica that is connected to the master that clients are told.", "server"),
		offset:   d("server_offset_bytes", "The replication offset of the server.", "server"),
		priority: d("server_priority", "The replica-priority of the server; 0 is never promoted.", "server"),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.up, m.acts, m.told, m.epoch, m.changes, m.waits, m.serverUp, m.isMaster, m.linked, m.offset, m.priority} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What is not known is left out.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	one := map[bool]float64{true: 1}
	e, now := m.e, time.Now()
	e.mu.Lock()
	acts, waits, switches := e.actor != nil, e.waits != "", e.switches
	e.mu.Unlock()
	d := e.ledger.read().Announced
	master := e.cfg().server(d.Master)
	up := false
	for _, s := range e.cfg().servers {
		sight := e.watchers[s.id].sight()
		alive := sight.down(now, e.cfg().DownAfter) == Up && !sight.InfoAt.IsZero()
		up = up || alive && s.id == d.Master && sight.Info.Master
		gauge(m.serverUp, one[alive], s.id)
		if sight.InfoAt.IsZero() {
			continue
		}
		gauge(m.isMaster, one[alive && sight.Info.Master], s.id)
		gauge(m.linked, one[alive && !sight.Info.Master && sight.Info.Linked && master != nil && sight.Info.Of == master.at], s.id)
		gauge(m.offset, float64(sight.Info.Offset), s.id)
		if !sight.Info.Master {
			gauge(m.priority, float64(sight.Info.Priority), s.id)
		}
	}
	gauge(m.up, one[up])
	gauge(m.acts, one[acts])
	gauge(m.told, one[e.clientMaster() != nil])
	gauge(m.waits, one[waits])
	gauge(m.epoch, float64(d.Epoch))
	ch <- prometheus.MustNewConstMetric(m.changes, prometheus.CounterValue, float64(switches))
}

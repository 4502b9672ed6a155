package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/electd/elect/fence"
)

// metrics counts what a guard decides.
type metrics struct {
	registry *prometheus.Registry
	checks   *prometheus.CounterVec
	raised   *prometheus.CounterVec
	drained  *prometheus.CounterVec
	highest  *prometheus.GaugeVec

	resources []fence.Resource

	mu    sync.Mutex
	marks map[fence.Resource]fence.Token
}

func newMetrics(resources []fence.Resource) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), resources: resources, marks: map[fence.Resource]fence.Token{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.checks = counter("fence_checks_total", "Requests that were admitted (passed) or refused, by result; the resource is empty where none that is guarded was named.", "resource", "result")
	m.raised = counter("fence_raised_total", "Times that the mark was raised to a greater token.", "resource")
	m.drained = counter("fence_drained_total", "Requests of smaller tokens that were ended because a greater one came.", "resource")
	m.highest = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fence_highest_token", Help: "The mark, rounded above 2^53; 0 if it was never claimed."}, []string{"resource"})
	m.registry.MustRegister(m.highest)
	for _, r := range resources {
		m.checks.WithLabelValues(string(r), string(fence.Passed))
		m.checks.WithLabelValues(string(r), string(fence.Stale))
		m.raised.WithLabelValues(string(r))
		m.drained.WithLabelValues(string(r))
		m.highest.WithLabelValues(string(r))
	}
	return m
}

// begin reads the marks as they are.
func (m *metrics) begin(ctx context.Context, guard *fence.Guard) error {
	ctx, cancel := context.WithTimeoutCause(ctx, markTimeout, fmt.Errorf("the mark does not answer within %v", markTimeout))
	defer cancel()
	for _, r := range m.resources {
		highest, err := guard.Highest(ctx, r)
		if err != nil {
			return fmt.Errorf("the mark of %s: %w", r, err)
		}
		m.saw(r, highest)
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fence_in_flight", Help: "Requests that were admitted and have not ended.", ConstLabels: prometheus.Labels{"resource": string(r)},
		}, func() float64 { return float64(guard.InFlight(r)) }))
	}
	return nil
}

// saw takes note of a mark. They only rise, but may be told of in any order.
func (m *metrics) saw(r fence.Resource, highest fence.Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if highest > m.marks[r] {
		m.marks[r] = highest
		m.highest.WithLabelValues(string(r)).Set(float64(highest))
	}
}

// observe counts a decision. Names that clients made up are not labels.
func (m *metrics) observe(d fence.Decision) {
	r := string(d.Resource)
	if d.Result == fence.Foreign {
		r = ""
	}
	switch d.Result {
	case fence.Raised:
		m.raised.WithLabelValues(r).Inc()
	case fence.Ended:
		m.drained.WithLabelValues(r).Inc()
		return // Highest is not the mark yet, where that is shared
	default:
		m.checks.WithLabelValues(r, string(d.Result)).Inc()
	}
	if r != "" {
		m.saw(d.Resource, d.Highest)
	}
}

// handler serves /metrics and /healthz. Once ctx has ended the health is bad, so that
// nobody sends anything more.
func (m *metrics) handler(ctx context.Context, guard *fence.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		err := health(r.Context(), guard, m.resources)
		switch {
		case ctx.Err() != nil:
			http.Error(w, "ending", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, "the mark cannot be read", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	})
	return mux
}

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

// metrics counts a guard's decisions, and the requests with their answers.
type metrics struct {
	resources []fence.Resource
	registry  *prometheus.Registry

	checks, raised, drained *prometheus.CounterVec
	requests                *prometheus.CounterVec
	took                    *prometheus.HistogramVec

	mu    sync.Mutex
	marks map[fence.Resource]fence.Token
}

func newMetrics(resources []fence.Resource) *metrics {
	m := &metrics{resources: resources, registry: prometheus.NewRegistry(), marks: map[fence.Resource]fence.Token{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.checks = counter("elect_fence_checks_total", "Requests that were admitted (passed) or refused, by result; the resource is empty where none that is guarded was named.", "resource", "result")
	m.raised = counter("elect_fence_raised_total", "Times that the mark was raised to a greater token.", "resource")
	m.drained = counter("elect_fence_drained_total", "Requests of smaller tokens that were ended because a greater one came.", "resource")
	m.requests = counter("elect_fence_requests_total", "Requests that were answered, by the status of the answer.", "code")
	m.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "elect_fence_request_duration_seconds", Help: "Time from a request to the end of its answer.",
		Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120},
	}, nil)
	m.registry.MustRegister(m.took)
	m.took.WithLabelValues() // there before the first request
	for _, r := range resources {
		for _, result := range []fence.Result{fence.Passed, fence.Stale} {
			m.checks.WithLabelValues(string(r), string(result))
		}
		m.raised.WithLabelValues(string(r))
		m.drained.WithLabelValues(string(r))
	}
	return m
}

// begin reads the present marks, and makes the gauges.
func (m *metrics) begin(ctx context.Context, guard *fence.Guard) error {
	ctx, cancel := context.WithTimeoutCause(ctx, markTimeout, fmt.Errorf("the mark does not answer within %v", markTimeout))
	defer cancel()
	for _, r := range m.resources {
		highest, err := guard.Highest(ctx, r)
		if err != nil {
			return fmt.Errorf("the mark of %s: %w", r, err)
		}
		m.observe(fence.Decision{Resource: r, Highest: highest})
		gauge := func(name, help string, value func() float64) {
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"resource": string(r)}}, value))
		}
		gauge("elect_fence_highest_token", "The mark; 0 if it was never claimed. Exact below era 32.", func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return float64(m.marks[r])
		})
		gauge("elect_fence_in_flight", "Requests that were admitted and have not ended.", func() float64 { return float64(guard.InFlight(r)) })
	}
	return nil
}

// observe counts a decision. Names that clients made up are not labels. Marks only rise, but may be reported in any
// order.
func (m *metrics) observe(d fence.Decision) {
	r := d.Resource
	if d.Result == fence.Foreign {
		r = ""
	}
	switch d.Result {
	case "": // no decision: a present mark
	case fence.Raised:
		m.raised.WithLabelValues(string(r)).Inc()
	case fence.Ended:
		m.drained.WithLabelValues(string(r)).Inc()
		return // a shared mark is not yet at Highest
	default:
		m.checks.WithLabelValues(string(r), string(d.Result)).Inc()
	}
	if r != "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.marks[r] = max(m.marks[r], d.Highest)
	}
}

// instrument counts the answers of a handler. A request whose answer is a stream ends with the stream.
func (m *metrics) instrument(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(m.took, promhttp.InstrumentHandlerCounter(m.requests, h))
}

// handler serves /metrics and /healthz. Once ctx has ended the health is bad, so that clients send nothing more.
func (m *metrics) handler(ctx context.Context, guard *fence.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true}))
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

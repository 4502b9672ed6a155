package proxy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/electd/elect/fence"
)

// metrics counts a guard's decisions. Each map has values by labels, in the form of Prometheus's text format.
type metrics struct {
	resources []fence.Resource

	mu                      sync.Mutex
	checks, raised, drained map[string]uint64
	marks                   map[string]fence.Token
}

func newMetrics(resources []fence.Resource) *metrics {
	m := &metrics{resources: resources, checks: map[string]uint64{}, raised: map[string]uint64{}, drained: map[string]uint64{}, marks: map[string]fence.Token{}}
	for _, r := range resources {
		for _, result := range []fence.Result{fence.Passed, fence.Stale} {
			m.checks[checked(string(r), result)] = 0
		}
		of := labelled(string(r))
		m.raised[of], m.drained[of], m.marks[of] = 0, 0, 0
	}
	return m
}

// labelled are the labels of a resource's counters, and checked those of a check. The name of a guarded resource has
// no character that must be escaped.
func labelled(resource string) string { return fmt.Sprintf("resource=%q", resource) }

func checked(resource string, r fence.Result) string {
	return fmt.Sprintf("%s,result=%q", labelled(resource), string(r))
}

// begin reads the present marks.
func (m *metrics) begin(ctx context.Context, guard *fence.Guard) error {
	ctx, cancel := context.WithTimeoutCause(ctx, markTimeout, fmt.Errorf("the mark does not answer within %v", markTimeout))
	defer cancel()
	for _, r := range m.resources {
		highest, err := guard.Highest(ctx, r)
		if err != nil {
			return fmt.Errorf("the mark of %s: %w", r, err)
		}
		m.observe(fence.Decision{Resource: r, Highest: highest})
	}
	return nil
}

// observe counts a decision. Names that clients made up are not labels. Marks only rise, but may be reported in any
// order.
func (m *metrics) observe(d fence.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := string(d.Resource)
	if d.Result == fence.Foreign {
		r = ""
	}
	of := labelled(r)
	switch d.Result {
	case "": // no decision: a present mark
	case fence.Raised:
		m.raised[of]++
	case fence.Ended:
		m.drained[of]++
		return // a shared mark is not yet at Highest
	default:
		m.checks[checked(r, d.Result)]++
	}
	if r != "" {
		m.marks[of] = max(m.marks[of], d.Highest)
	}
}

// write writes the text format of Prometheus, version 0.0.4.
func (m *metrics) write(b *bytes.Buffer, guard *fence.Guard) {
	inFlight := map[string]int{}
	for _, r := range m.resources {
		inFlight[labelled(string(r))] = guard.InFlight(r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	family(b, "fence_checks_total", "counter", "Requests that were admitted (passed) or refused, by result; the resource is empty where none that is guarded was named.", m.checks)
	family(b, "fence_drained_total", "counter", "Requests of smaller tokens that were ended because a greater one came.", m.drained)
	family(b, "fence_highest_token", "gauge", "The mark; 0 if it was never claimed.", m.marks)
	family(b, "fence_in_flight", "gauge", "Requests that were admitted and have not ended.", inFlight)
	family(b, "fence_raised_total", "counter", "Times that the mark was raised to a greater token.", m.raised)
}

func family[V int | uint64 | fence.Token](b *bytes.Buffer, name, kind, help string, values map[string]V) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
	for _, labels := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "%s{%s} %d\n", name, labels, values[labels])
	}
}

// handler serves /metrics and /healthz. Once ctx has ended the health is bad, so that clients send nothing more.
func (m *metrics) handler(ctx context.Context, guard *fence.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		m.write(&b, guard)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(b.Bytes())
	})
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

package proxy

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

// TestMetrics: the text is what Prometheus reads, with each family and each line in
// order; names that clients made up are in none.
func TestMetrics(t *testing.T) {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"a/b", "c"}, fence.GuardConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics([]fence.Resource{"a/b", "c"})
	if err := m.begin(t.Context(), guard); err != nil {
		t.Fatal(err)
	}
	before := httptest.NewRecorder()
	m.handler(t.Context(), guard).ServeHTTP(before, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(before.Body.String(), "elect_fence_request_duration_seconds_count 0\n") {
		t.Errorf("before the first request:\n%s", before.Body)
	}
	for _, d := range []fence.Decision{
		{Resource: "a/b", Result: fence.Raised, Highest: 42}, {Resource: "a/b", Result: fence.Passed, Highest: 42},
		{Resource: "a/b", Result: fence.Passed, Highest: 7}, {Resource: "a/b", Result: fence.Ended, Highest: 1 << 60},
		{Resource: "made-up\"", Result: fence.Foreign}, {Result: fence.Missing},
	} {
		m.observe(d)
	}
	m.instrument(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/made-up", nil))
	w := httptest.NewRecorder()
	m.handler(t.Context(), guard).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const want = `# HELP elect_fence_checks_total Requests that were admitted (passed) or refused, by result; the resource is empty where none that is guarded was named.
# TYPE elect_fence_checks_total counter
elect_fence_checks_total{resource="",result="foreign"} 1
elect_fence_checks_total{resource="",result="missing"} 1
elect_fence_checks_total{resource="a/b",result="passed"} 2
elect_fence_checks_total{resource="a/b",result="stale"} 0
elect_fence_checks_total{resource="c",result="passed"} 0
elect_fence_checks_total{resource="c",result="stale"} 0
# HELP elect_fence_drained_total Requests of smaller tokens that were ended because a greater one came.
# TYPE elect_fence_drained_total counter
elect_fence_drained_total{resource="a/b"} 1
elect_fence_drained_total{resource="c"} 0
# HELP elect_fence_highest_token The mark; 0 if it was never claimed. Exact below era 32.
# TYPE elect_fence_highest_token gauge
elect_fence_highest_token{resource="a/b"} 42
elect_fence_highest_token{resource="c"} 0
# HELP elect_fence_in_flight Requests that were admitted and have not ended.
# TYPE elect_fence_in_flight gauge
elect_fence_in_flight{resource="a/b"} 0
elect_fence_in_flight{resource="c"} 0
# HELP elect_fence_raised_total Times that the mark was raised to a greater token.
# TYPE elect_fence_raised_total counter
elect_fence_raised_total{resource="a/b"} 1
elect_fence_raised_total{resource="c"} 0
# HELP elect_fence_request_duration_seconds Time from a request to the end of its answer.
# TYPE elect_fence_request_duration_seconds histogram
elect_fence_request_duration_seconds_bucket{le="+Inf"} 1
elect_fence_request_duration_seconds_count 1
# HELP elect_fence_requests_total Requests that were answered, by the status of the answer.
# TYPE elect_fence_requests_total counter
elect_fence_requests_total{code="404"} 1
`
	got := regexp.MustCompile(`(?m)^.*(le="[0-9.]+"|_sum ).*\n`).ReplaceAllString(w.Body.String(), "") // times
	if got != want || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8") {
		t.Errorf("%v\n%s\nwant\n%s", w.Header(), got, want)
	}
}

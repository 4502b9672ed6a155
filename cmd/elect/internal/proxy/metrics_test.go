package proxy

import (
	"net/http/httptest"
	"testing"

	"github.com/electd/elect/fence"
)

// TestMetrics: the text is what Prometheus reads, with each family and each line in
// order; a token is exact, and names that clients made up are in none.
func TestMetrics(t *testing.T) {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"a/b", "c"}, fence.GuardConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics([]fence.Resource{"a/b", "c"})
	if err := m.begin(t.Context(), guard); err != nil {
		t.Fatal(err)
	}
	for _, d := range []fence.Decision{
		{Resource: "a/b", Result: fence.Raised, Highest: 1<<53 + 1}, {Resource: "a/b", Result: fence.Passed, Highest: 1<<53 + 1},
		{Resource: "a/b", Result: fence.Passed, Highest: 7}, {Resource: "a/b", Result: fence.Ended, Highest: 1 << 60},
		{Resource: "made-up\"", Result: fence.Foreign}, {Result: fence.Missing},
	} {
		m.observe(d)
	}
	w := httptest.NewRecorder()
	m.handler(t.Context(), guard).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const want = `# HELP fence_checks_total Requests that were admitted (passed) or refused, by result; the resource is empty where none that is guarded was named.
# TYPE fence_checks_total counter
fence_checks_total{resource="",result="foreign"} 1
fence_checks_total{resource="",result="missing"} 1
fence_checks_total{resource="a/b",result="passed"} 2
fence_checks_total{resource="a/b",result="stale"} 0
fence_checks_total{resource="c",result="passed"} 0
fence_checks_total{resource="c",result="stale"} 0
# HELP fence_drained_total Requests of smaller tokens that were ended because a greater one came.
# TYPE fence_drained_total counter
fence_drained_total{resource="a/b"} 1
fence_drained_total{resource="c"} 0
# HELP fence_highest_token The mark; 0 if it was never claimed.
# TYPE fence_highest_token gauge
fence_highest_token{resource="a/b"} 9007199254740993
fence_highest_token{resource="c"} 0
# HELP fence_in_flight Requests that were admitted and have not ended.
# TYPE fence_in_flight gauge
fence_in_flight{resource="a/b"} 0
fence_in_flight{resource="c"} 0
# HELP fence_raised_total Times that the mark was raised to a greater token.
# TYPE fence_raised_total counter
fence_raised_total{resource="a/b"} 1
fence_raised_total{resource="c"} 0
`
	if got := w.Body.String(); got != want || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%v\n%s\nwant\n%s", w.Header(), got, want)
	}
}

package electhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// A Group answers for all of its elections, and sends what is about one to that one.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("all metrics")) })
		g := electhttp.NewGroup(electhttp.GroupConfig{Hosts: []string{"example.com"}, Metrics: metrics})
		store := memory.NewStore(0)
		member := func(name string) (*electhttp.Handler, *elect.Election) {
			h, err := electhttp.New(electhttp.Config{Name: name, ID: "a", Hosts: []string{"example.com"}})
			if err != nil {
				t.Fatal(err)
			}
			link, err := store.New(name, "a", memory.Config{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			e, err := elect.New(link, elect.Config{OnEvent: h.OnEvent})
			if err == nil {
				err = h.Attach(e)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close(); h.Close() })
			g.Put(h)
			return h, e
		}
		expect := func(method, path string, status int, body string) {
			t.Helper()
			if w := ask(g, method, path, ""); w.Code != status || !strings.Contains(w.Body.String(), body) {
				t.Errorf("%s %s: %d %s; want %d %s", method, path, w.Code, w.Body, status, body)
			}
		}
		expect("GET", "/v1/elections", 200, "[]")
		expect("GET", "/readyz", 200, "ready")
		_, first := member("one")
		term, err := first.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect("GET", "/leader", 200, "leads") // one election: as its Handler
		expect("GET", "/metrics", 200, "all metrics")

		two, second := member("two")
		synctest.Wait()
		expect("GET", "/leader", 404, "want /v1/elections/NAME/leader")
		expect("GET", "/v1/elections/one/leader", 200, "leads")
		expect("GET", "/v1/elections/two/leader", 503, "a does not lead")
		expect("GET", "/v1/elections/two/follower", 200, "does not lead")
		expect("GET", "/v1/elections/three", 404, "want one of: one, two")
		expect("GET", "/v1/elections", 200, `"name":"one","leader":{`)
		expect("GET", "/v1/elections", 200, `"name":"two","leader":null`)
		expect("GET", "/readyz", 503, "two: the participant does not take part; its state is idle")
		expect("GET", "/livez", 200, "live")
		expect("GET", "/openapi.json", 200, "openapi")
		expect("GET", "/metrics", 200, "all metrics")
		expect("POST", "/livez", 405, "want GET or HEAD")
		expect("GET", "/nothing", 404, "there is no such path")
		for _, path := range []string{"/livez", "/v1/elections/one"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = "evil.example"
			w := httptest.NewRecorder()
			if g.ServeHTTP(w, r); w.Code != 421 {
				t.Errorf("%s: %d of another host", path, w.Code)
			}
		}
		other, err := second.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect("GET", "/readyz", 200, "ready")
		two.StandsAside(electhttp.Paused)
		expect("GET", "/readyz", 503, "two: the participant stands aside: paused")
		expect("GET", "/v1/elections/two", 200, `"aside":"paused"`)
		two.StandsAside("")
		g.InMaintenance(true, nil)
		expect("GET", "/readyz", 503, "all participants stand aside: maintenance")
		expect("GET", "/v1/maintenance", 200, `{"maintenance":true}`)
		expect("GET", "/v1/maintenance/on", 405, "want POST")
		g.InMaintenance(false, nil)
		expect("GET", "/readyz", 200, "ready")
		_ = other.Release(t.Context())
		g.Remove(two)
		expect("GET", "/v1/elections/two", 404, "want one")
		g.Put(two)
		_ = term.Release(t.Context())
		g.Close()
		expect("GET", "/v1/elections/one", 200, `"stale":true`)
	})
}

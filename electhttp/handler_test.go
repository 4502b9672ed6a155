package electhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

const lease = time.Second

// part is a participant with its Handler.
type part struct {
	*electhttp.Handler
	election *elect.Election
	link     *memory.Elector
	watches  atomic.Int32 // subscriptions at the back end, in all
	open     atomic.Int32 // those that are open
	hangs    atomic.Bool  // a subscription yields nothing
}

// observed is an elector that counts its subscriptions.
type observed struct {
	*memory.Elector
	p *part
}

func (o observed) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		o.p.watches.Add(1)
		o.p.open.Add(1)
		defer o.p.open.Add(-1)
		if o.p.hangs.Load() {
			<-ctx.Done()
			return
		}
		o.Elector.Watch(ctx)(yield)
	}
}

// leaseless is an elector that says that it has no lease, as file: does.
type leaseless struct{ observed }

func (l leaseless) Limits() driver.Limits {
	limits := l.Elector.Limits()
	limits.Lease, limits.MinLease, limits.MaxLease = 0, 0, 0
	return limits
}

// join opens a participant; it is closed when the test ends.
func join(t testing.TB, store *memory.Store, id string, cfg electhttp.Config) *part {
	t.Helper()
	return joinAs(t, store, id, cfg, func(o observed) driver.Elector { return o })
}

// joinAs is join with a back end made of the usual one.
func joinAs(t testing.TB, store *memory.Store, id string, cfg electhttp.Config, as func(observed) driver.Elector) *part {
	t.Helper()
	cfg.Name, cfg.ID, cfg.Election = "job", id, "memory:"
	h, err := electhttp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &part{Handler: h}
	if p.link, err = store.New("job", id, memory.Config{Lease: lease}); err != nil {
		t.Fatal(err)
	}
	if p.election, err = elect.New(as(observed{p.link, p}), elect.Config{OnEvent: h.OnEvent}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.election.Close()
		h.Close()
	})
	if err := h.Attach(p.election); err != nil {
		t.Fatal(err)
	}
	return p
}

// win campaigns until it leads.
func (p *part) win(t testing.TB) *elect.Term {
	t.Helper()
	term, err := p.election.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.Release(context.Background()) })
	return term
}

// stand campaigns in the background and releases at once.
func (p *part) stand(t testing.TB) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.election.Lead(ctx, func(ctx context.Context, _ *elect.Term) error { <-ctx.Done(); return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// ask makes a request without a network. header is pairs.
func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wants holds the statuses of paths.
func (p *part) wants(t *testing.T, want map[string]int) {
	t.Helper()
	for path, status := range want {
		for _, method := range []string{"GET", "HEAD"} {
			if w := ask(p, method, path, ""); w.Code != status {
				t.Errorf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
			}
		}
	}
}

// TestStarting: work that is not active gets neither the traffic of a leader nor that of a follower.
func TestStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, memory.NewStore(0), "a", electhttp.Config{})
		a.Starting(true)
		a.wants(t, map[string]int{"/leader": 503, "/follower": 200})
		a.win(t)
		synctest.Wait()
		a.wants(t, map[string]int{"/leader": 503, "/follower": 503, "/livez": 200, "/readyz": 200})
		if body := ask(a, "GET", "/v1/elections/job", "").Body.String(); !strings.Contains(body, `"state":"starting"`) {
			t.Errorf("%s; want the state starting", body)
		}
		a.Starting(false)
		a.wants(t, map[string]int{"/leader": 200, "/follower": 503})
		if err := a.Live(); err != nil {
			t.Error(err)
		}
	})
}

func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b := join(t, store, "a", electhttp.Config{}), join(t, store, "b", electhttp.Config{})
		a.wants(t, map[string]int{"/leader": 503, "/follower": 200, "/livez": 200, "/readyz": 503})
		term := a.win(t)
		b.stand(t)
		synctest.Wait()
		a.wants(t, map[string]int{"/leader": 200, "/follower": 503, "/livez": 200, "/readyz": 200})
		b.wants(t, map[string]int{"/leader": 503, "/follower": 200, "/livez": 200, "/readyz": 200})
		_ = term.Release(t.Context())
		synctest.Wait()
		a.wants(t, map[string]int{"/leader": 503, "/follower": 200, "/livez": 200, "/readyz": 503}) // it takes no part
		b.wants(t, map[string]int{"/leader": 200, "/readyz": 200})
		store.Outage(true)
		synctest.Wait()
		b.wants(t, map[string]int{"/leader": 200, "/livez": 200, "/readyz": 503})
		time.Sleep(lease)
		b.wants(t, map[string]int{"/leader": 503, "/follower": 200, "/livez": 200})
	})
}

// The end of a lease is seen at its instant, even if no event has told of it.
func TestLeaderIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := electhttp.New(electhttp.Config{Name: "job", ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		link, _ := memory.NewStore(0).New("job", "a", memory.Config{Lease: lease})
		hung := make(chan struct{})
		e, err := elect.New(link, elect.Config{OnEvent: func(e elect.Event) {
			if e.Kind == elect.EventEnded {
				<-hung
			}
			h.OnEvent(e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := h.Attach(e); err != nil {
			t.Fatal(err)
		}
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		link.Cut(true)
		left, _ := term.Remaining()
		time.Sleep(left - lease/5 - time.Nanosecond) // an instant before the drain
		if w := ask(h, "GET", "/leader", ""); w.Code != 200 {
			t.Errorf("before the end: %d", w.Code)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait() // the term has ended, and OnEvent hangs
		if w := ask(h, "GET", "/leader", ""); w.Code != 503 {
			t.Errorf("at the end: %d", w.Code)
		}
		for _, want := range []int{200, 200, 503} { // a loop that hangs for longer than a lease
			if w := ask(h, "GET", "/livez", ""); w.Code != want {
				t.Errorf("/livez: %d, want %d", w.Code, want)
			}
			time.Sleep(lease/2 + time.Nanosecond)
		}
		close(hung)
		synctest.Wait()
		if w := ask(h, "GET", "/livez", ""); w.Code != 200 {
			t.Errorf("/livez when the loop goes on: %d", w.Code)
		}
		_ = term.Release(t.Context())
	})
}

// Work that has not returned for longer than a lease after the end of its lease is a stall, until it returns.
func TestLivezOfWorkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{})
		term := p.win(t)
		p.link.Cut(true)
		time.Sleep(2 * lease)
		p.wants(t, map[string]int{"/livez": 200})
		time.Sleep(lease)
		p.wants(t, map[string]int{"/livez": 503, "/readyz": 503, "/leader": 503})
		_ = term.Release(t.Context())
		p.wants(t, map[string]int{"/livez": 200})
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b := join(t, store, "a", electhttp.Config{Sidecar: true}), join(t, store, "b", electhttp.Config{Sidecar: true})
		if got := ask(b, "GET", "/", "").Body.String(); got != `{"name":""}`+"\n" {
			t.Errorf("without a leader the sidecar says %s", got)
		}
		a.win(t)
		synctest.Wait()
		for _, c := range []struct {
			p          *part
			path, want string
		}{
			{a, "/v1/elections/job", `{"election":"memory:","name":"job","leader":{"id":"a","token":"1","since":"2000-01-01T00:00:00Z"},"stale":false,"id":"a","state":"leader","lease_left_ms":1000}`},
			{b, "/v1/elections/job", `{"election":"memory:","name":"job","leader":{"id":"a","token":"1","since":"2000-01-01T00:00:00Z"},"stale":false,"id":"b","state":"idle"}`},
			{b, "/v1/elections", `[{"election":"memory:","name":"job","leader":{"id":"a","token":"1","since":"2000-01-01T00:00:00Z"},"stale":false,"id":"b","state":"idle"}]`},
			{b, "/", `{"name":"a"}`},
		} {
			w := ask(c.p, "GET", c.path, "")
			if got := strings.TrimSpace(w.Body.String()); got != c.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s\n\twant %s", c.path, got, c.want)
			}
		}
		b.Close()
		want := `{"election":"memory:","name":"job","leader":null,"stale":true,"cause":"elector closed","id":"b","state":"idle"}`
		if got := strings.TrimSpace(ask(b, "GET", "/v1/elections/job", "").Body.String()); got != want {
			t.Errorf("after Close: %s\n\twant %s", got, want)
		}
	})
}

// A page of another site can neither call this server by a name of its own, nor send a verb.
func TestOtherSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{Hosts: []string{"Elect.example"}, Trusted: true})
		for host, want := range map[string]int{
			"localhost": 200, "LOCALHOST:4040": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]": 200, "[::1]:4040": 200, "::1": 200, "elect.example:1": 200, "": 200,
			"evil.example": 421, "127.0.0.1.evil.example:4040": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "[fe80::1]": 421, "localhost:80:80": 421, "[": 421, "\r\n": 421,
		} {
			r := httptest.NewRequest("GET", "/follower", nil)
			r.Host = host
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("Host %q: %d %s, want %d", host, w.Code, w.Body, want)
			}
		}
		for _, c := range []struct {
			header []string
			status int
		}{
			{nil, 409},
			{[]string{"Sec-Fetch-Site", "same-origin"}, 409},
			{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
			{[]string{"Sec-Fetch-Site", "same-site"}, 403},
			{[]string{"Origin", "https://evil.example"}, 403},
		} {
			synctest.Wait()
			r := httptest.NewRequest("POST", "/v1/elections/job/resign", nil)
			r.Host = "localhost"
			for pair := range slices.Chunk(c.header, 2) {
				r.Header.Set(pair[0], pair[1])
			}
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%v: %d %s, want %d", c.header, w.Code, w.Body, c.status)
			}
		}
	})
}

func TestMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })})
		mux := http.NewServeMux()
		mux.Handle("/elect/", http.StripPrefix("/elect", p))
		for path, want := range map[string]int{
			"/elect/follower": 200, "/elect/metrics": 200, "/elect/": 404, "/elect/nothing": 404, "/elect/v1/elections/job": 200, "/elect/v1/elections/other": 404,
		} {
			if w := ask(mux, "GET", path, ""); w.Code != want || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %v, want %d", path, w.Code, w.Header(), want)
			}
		}
		for _, path := range []string{"", "//leader", "/v1/../leader"} {
			r := httptest.NewRequest("GET", "/", nil)
			r.URL.Path = path
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != 404 { // a redirect would lead out of the prefix
				t.Errorf("%q: %d, want 404", path, w.Code)
			}
		}
	})
}

// Each refusal is a problem with its status, and 405 says what is allowed.
func TestProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{Token: "secret"})
		auth := []string{"Authorization", "Bearer secret", "Content-Type", "application/json"}
		const resign, transfer = "/v1/elections/job/resign", "/v1/elections/job/transfer"
		for _, c := range []struct {
			method, path, body string
			header             []string
			status             int
			says               string
		}{
			{"GET", "/nothing", "", nil, 404, "no such path"},
			{"GET", "/metrics", "", nil, 404, "no such path"},
			{"GET", "/", "", nil, 404, "no such path"},
			{"GET", "/v1/elections/other", "", nil, 404, "want job"},
			{"POST", "/leader", "", nil, 405, "GET or HEAD"},
			{"GET", resign, "", nil, 405, "want POST"},
			{"GET", "/v1/elections", "", []string{"Accept", "text/html"}, 406, "application/json"},
			{"GET", "/v1/elections/job/watch", "", []string{"Accept", "application/json, text/event-stream;q=0"}, 406, "text/event-stream"},
			{"POST", resign, "", nil, 401, "Bearer"},
			{"POST", resign, "", []string{"Authorization", "Bearer secre"}, 401, "Bearer"},
			{"POST", resign, "", []string{"Authorization", "Basic secret"}, 401, "Bearer"},
			{"POST", resign, "", auth, 409, "nobody leads job"},
			{"POST", resign, "{}", auth[:2], 415, "Content-Type"},
			{"POST", resign, `{"to":"b"}`, auth, 400, `unknown field "to"; want token or now`},
			{"POST", resign, `{"token":7}`, auth, 400, `field "token" is a JSON number`},
			{"POST", resign, `{"token":"x"}`, auth, 400, `token "x" is not a token; want the leader's, such as 42`},
			{"POST", transfer, `{"to":"a b"}`, auth, 400, "to: "},
			{"POST", transfer, `{"who":"b"}`, auth, 400, `unknown field "who"; want to or token or now`},
			{"POST", resign, `{"token":"1","token":"2"}`, auth, 400, `field "token" is there twice; want it once`},
			{"POST", resign, `{"TOKEN":"77"}`, auth, 400, `unknown field "TOKEN"; want token or now`},
			{"POST", resign, `{"token":"1"`, auth, 400, "the body is wrong: "},
			{"POST", transfer, `[]`, auth, 400, "JSON object"},
			{"POST", transfer, `{} {}`, auth, 400, "goes on"},
			{"POST", transfer, `{"to":"` + strings.Repeat("b", 5000) + `"}`, auth, 413, "4096"},
		} {
			synctest.Wait()
			w := ask(p, c.method, c.path, c.body, c.header...)
			var got struct {
				Type, Title, Detail string
				Status              int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: %v: %s", c.method, c.path, err, w.Body)
			}
			if w.Code != c.status || got.Status != c.status || got.Type == "" || got.Title == "" || !strings.Contains(got.Detail, c.says) {
				t.Errorf("%s %s %s: %d %+v, want %d and %q", c.method, c.path, c.body, w.Code, got, c.status, c.says)
			}
			if (w.Header().Get("Allow") != "") != (c.status == 405) || (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("%s %s: %v", c.method, c.path, w.Header())
			}
			if w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s can be cached", c.method, c.path)
			}
		}
	})
}

func TestVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a := join(t, store, "a", electhttp.Config{Token: "secret"})
		b := join(t, store, "b", electhttp.Config{})
		c := join(t, store, "c", electhttp.Config{Trusted: true})
		a.stand(t)
		synctest.Wait()
		b.stand(t)
		synctest.Wait()
		const path = "/v1/elections/job/"
		if w := ask(b, "POST", path+"resign", "", "Authorization", "Bearer "); w.Code != 403 {
			t.Errorf("without a token of its own: %d", w.Code)
		}
		for _, step := range []struct {
			p                *part
			verb, body, auth string
			status           int
			asked, next      string
		}{
			{a, "transfer", `{"to":"nobody"}`, "Bearer secret", 409, "", "a"},
			{a, "transfer", `{"to":"b","token":"9"}`, "Bearer secret", 409, "", "a"},
			{a, "transfer", `{"to":"b"}`, "Bearer secret", 200, `"id":"a","token":"1"`, "b"},
			{c, "resign", `{"token":"2"}`, "", 200, `"id":"b","token":"2"`, "a"},
			{c, "transfer", "", "", 200, `"id":"a","token":"3"`, "b"},
		} {
			w := ask(step.p, "POST", path+step.verb, step.body, "Authorization", step.auth, "Content-Type", "application/json; charset=utf-8")
			synctest.Wait()
			if w.Code != step.status || !strings.Contains(w.Body.String(), step.asked) {
				t.Errorf("%s %s: %d %s, want %d", step.verb, step.body, w.Code, w.Body, step.status)
			}
			time.Sleep(3 * lease) // the one that resigned stands again
			if got := ask(c, "GET", "/v1/elections/job", "").Body.String(); !strings.Contains(got, `"leader":{"id":"`+step.next+`"`) {
				t.Errorf("after %s %s: %s, want %s to lead", step.verb, step.body, got, step.next)
			}
		}
	})
}

// stream is a client that reads events.
type stream struct {
	http.ResponseWriter
	w    *io.PipeWriter
	line chan string
	stop func()
}

func (s *stream) Write(b []byte) (int, error) { return s.w.Write(b) }
func (s *stream) Flush()                      {}

// follow watches; had is the last event that the client has. Nothing is read ahead of the test but for one write.
func follow(t testing.TB, h http.Handler, had string) *stream {
	in, out := io.Pipe()
	s := &stream{ResponseWriter: httptest.NewRecorder(), w: out, line: make(chan string)}
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("GET", "/v1/elections/job/watch", nil).WithContext(ctx)
	r.Header.Set("Last-Event-ID", had)
	served, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		h.ServeHTTP(s, r)
		_ = out.Close()
	}()
	go func() {
		defer close(read)
		defer close(s.line)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if lines.Text() == "" || lines.Text() == "event: state" {
				continue
			}
			select {
			case s.line <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	s.stop = func() { cancel(); _ = in.Close(); <-served; <-read }
	t.Cleanup(s.stop)
	return s
}

// next reads an event: its id and data.
func (s *stream) next(t *testing.T) (id, data string) {
	t.Helper()
	id, ok := strings.CutPrefix(<-s.line, "id: ")
	data, also := strings.CutPrefix(<-s.line, "data: ")
	if !ok || !also {
		t.Fatalf("%q, %q; want an id and data", id, data)
	}
	return id, data
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{})
		synctest.Wait()
		fast, slow := follow(t, p, ""), follow(t, p, "garbage")
		first, data := fast.next(t)
		if !strings.Contains(data, `"leader":null`) || !strings.HasPrefix(data, `{"time":"`) {
			t.Errorf("at first: %s", data)
		}
		synctest.Wait() // slow has one event under way, and reads nothing
		var last string
		for range 5 {
			begun := time.Now()
			term := p.win(t)
			synctest.Wait()
			for {
				if last, data = fast.next(t); strings.Contains(data, `"state":"leader"`) && strings.Contains(data, `"token":"`+term.Token().String()+`"`) {
					break
				}
			}
			if took := time.Since(begun); took > 50*time.Millisecond {
				t.Errorf("an event took %v beside a slow client", took)
			}
			if term.Token() < 5 {
				_ = term.Release(t.Context())
			}
		}
		slow.next(t)
		slow.next(t) // what was under way
		if id, data := slow.next(t); id != last {
			t.Errorf("the slow client then got %s %s; want the last, %s", id, data, last)
		}
		fast.stop()

		again := follow(t, p, last)
		if line := <-again.line; line != ": nothing has changed" {
			t.Errorf("a client that has the last event got %q", line)
		}
		begun := time.Now()
		if line := <-again.line; line != ":" || time.Since(begun) != 15*time.Second {
			t.Errorf("%q after %v; want a heartbeat", line, time.Since(begun))
		}
		if id, _ := follow(t, p, first).next(t); id != last {
			t.Errorf("a client that had %s got %s, want %s", first, id, last)
		}
		p.Close()
		if line, ok := <-again.line; ok {
			t.Errorf("after Close: %q", line)
		}
	})
}

// Many watchers are told of a change in batches, so that it does not use all processors at once, and all of them soon.
func TestWatchersAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{})
		told := make(chan time.Time)
		for range 1000 {
			s := follow(t, p, "")
			go func() {
				for data := ""; !strings.Contains(data, `"state":"leader"`); {
					_, data = s.next(t)
				}
				told <- time.Now()
			}()
		}
		<-time.After(time.Second) // it publishes no more
		begun := time.Now()
		p.win(t)
		at := map[time.Duration]int{}
		for range 1000 {
			at[(<-told).Sub(begun)]++
		}
		times := slices.Sorted(maps.Keys(at))
		if most := slices.Max(slices.Collect(maps.Values(at))); most > 200 || times[0] != 10*time.Millisecond || times[len(times)-1] > 25*time.Millisecond {
			t.Errorf("at most %d were told at the same time, from %v to %v after the change; want at most 200, from 10ms to 25ms", most, times[0], times[len(times)-1])
		}
	})
}

func TestTooManyWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{})
		var all []*stream
		for range 1024 {
			all = append(all, follow(t, p, ""))
		}
		synctest.Wait()
		if w := ask(p, "GET", "/v1/elections/job/watch", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		all[0].stop()
		follow(t, p, "").next(t)
	})
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []electhttp.Config{{ID: "a"}, {Name: "job"}, {Name: "job", ID: "a", Watchers: -1}, {Name: "job", ID: "a", Token: "a b"}, {Name: "job", ID: "a", Token: "line\n"}} {
		if _, err := electhttp.New(cfg); err == nil || !strings.HasPrefix(err.Error(), "electhttp.Config.") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

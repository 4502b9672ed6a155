package electhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// document is what the tests read of openapi.json.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Required   []string
	Properties map[string]schema
	More       any `json:"additionalProperties"`
	Items      *schema
	Enum       []any
	Pattern    string
	OneOf      []schema
	AllOf      []schema
}

// allows returns why a value does not have a schema.
func (d *document) allows(s schema, v any, where string) error {
	if s.Ref != "" {
		return d.allows(d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]], v, where)
	}
	var wrong []error
	for _, s := range s.AllOf {
		wrong = append(wrong, d.allows(s, v, where))
	}
	if len(s.OneOf) > 0 {
		fits := 0
		for _, s := range s.OneOf {
			if d.allows(s, v, where) == nil {
				fits++
			}
		}
		if fits != 1 {
			wrong = append(wrong, fmt.Errorf("%s: %v has %d of its schemas", where, v, fits))
		}
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Errorf("%s: %v is none of %v", where, v, s.Enum))
	}
	is := "null"
	switch v := v.(type) {
	case string:
		if is = "string"; !regexp.MustCompile(s.Pattern).MatchString(v) {
			wrong = append(wrong, fmt.Errorf("%s: %q does not match %s", where, v, s.Pattern))
		}
	case bool:
		is = "boolean"
	case float64:
		is = "integer"
	case []any:
		is = "array"
		for i, v := range v {
			wrong = append(wrong, d.allows(*s.Items, v, fmt.Sprintf("%s[%d]", where, i)))
		}
	case map[string]any:
		is = "object"
		for name, v := range v {
			if field, ok := s.Properties[name]; ok {
				wrong = append(wrong, d.allows(field, v, where+"."+name))
			} else if s.Type != "" && s.More == nil && s.Properties != nil {
				wrong = append(wrong, fmt.Errorf("%s.%s is not described", where, name))
			}
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				wrong = append(wrong, fmt.Errorf("%s.%s is missing", where, name))
			}
		}
	}
	if s.Type != "" && s.Type != is {
		wrong = append(wrong, fmt.Errorf("%s is of type %s; want %s", where, is, s.Type))
	}
	return errors.Join(wrong...)
}

// answers lists what the document describes: a status, a content type and, of a problem, its type.
func (d *document) answers(t *testing.T) map[string]schema {
	all := map[string]schema{}
	for path, methods := range d.Paths {
		for method, raw := range methods {
			if method == "parameters" {
				continue
			}
			var op struct{ Responses map[string]response }
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			for status, r := range op.Responses {
				if r.Ref != "" {
					r = d.Components.Responses[r.Ref[strings.LastIndex(r.Ref, "/")+1:]]
				}
				for content, c := range r.Content {
					kinds := []any{""}
					if content == "application/problem+json" {
						kinds = c.Schema.AllOf[1].Properties["type"].Enum
					}
					for _, kind := range kinds {
						all[fmt.Sprintf("%s %s %s %s %s", strings.ToUpper(method), path, status, content, kind)] = c.Schema
					}
				}
			}
		}
	}
	return all
}

// refusing is a back end whose verbs fail.
type refusing struct {
	*memory.Elector
	err error
}

func (r refusing) Resign(context.Context, elect.Token) error           { return r.err }
func (r refusing) Transfer(context.Context, elect.Token, string) error { return r.err }

// Each answer is described, and each answer that is described is given: its path, method, status, content type, the
// type of a problem, and the fields of its body.
func TestOpenAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/plain") })
		a := join(t, store, "a", electhttp.Config{Token: "secret", Metrics: metrics, Sidecar: true, Hosts: []string{"example.com"}, Watchers: 1})
		b := join(t, store, "b", electhttp.Config{})
		var doc document
		if err := json.Unmarshal(ask(a, "GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1.") {
			t.Fatalf("%v, version %q", err, doc.OpenAPI)
		}
		described := doc.answers(t)
		given := map[string]bool{}
		name := regexp.MustCompile(`^/v1/elections/[^/]+`)
		try := func(h http.Handler, method, path, body string, header ...string) {
			t.Helper()
			w := &bounded{ResponseRecorder: httptest.NewRecorder()}
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
			w.enough = cancel
			for pair := range slices.Chunk(header, 2) {
				r.Header.Set(pair[0], pair[1])
			}
			if host := r.Header.Get("Host"); host != "" {
				r.Host = host
			}
			h.ServeHTTP(w, r)
			cancel()
			content, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
			var value any = w.Body.String()
			kind := ""
			if strings.HasSuffix(content, "json") {
				if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
					t.Errorf("%s %s: %v", method, path, err)
				}
			}
			if content == "application/problem+json" {
				kind = value.(map[string]any)["type"].(string)
			}
			key := fmt.Sprintf("%s %s %d %s %s", method, name.ReplaceAllString(path, "/v1/elections/{name}"), w.Code, content, kind)
			s, ok := described[key]
			if !ok {
				t.Errorf("%s is not described", key)
			} else if err := doc.allows(s, value, "the body"); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			given[key] = true
		}
		synctest.Wait()
		const job = "/v1/elections/job"
		gets := []string{"/leader", "/follower", "/livez", "/readyz", "/v1/elections", job, job + "/leader", job + "/follower", job + "/watch", "/openapi.json", "/metrics", "/"}
		verbs := []string{job + "/resign", job + "/transfer"}
		auth := []string{"Authorization", "Bearer secret", "Content-Type", "application/json"}
		for _, path := range gets {
			try(a, "GET", path, "")
			try(a, "GET", path, "", "Host", "evil.example")
			if !strings.HasPrefix(path, "/v1/") && path != "/openapi.json" {
				continue
			}
			if answer := path[strings.LastIndex(path, "/"):]; answer != "/leader" && answer != "/follower" { // these are text
				try(a, "GET", path, "", "Accept", "text/html")
			}
			if strings.HasPrefix(path, job) {
				try(a, "GET", strings.Replace(path, "job", "other", 1), "")
			}
		}
		try(b, "GET", "/metrics", "")
		try(b, "GET", "/", "")
		first := follow(t, a, "")
		first.next(t)
		try(a, "GET", job+"/watch", "")
		first.stop()
		for _, path := range verbs {
			try(a, "POST", path, "", "Host", "evil.example")
			try(a, "POST", path, "")
			try(b, "POST", path, "")
			try(a, "POST", strings.Replace(path, "job", "other", 1), "")
			try(a, "POST", path, "", "Accept", "text/html")
			try(a, "POST", path, "{}", auth[:2]...)
			try(a, "POST", path, "[]", auth...)
			try(a, "POST", path, strings.Repeat(" ", 5000), auth...)
			try(a, "POST", path, "", auth...) // nobody leads
		}
		pausing := []string{job + "/pause", job + "/resume"}
		for _, path := range pausing {
			try(a, "POST", path, "", "Host", "evil.example")
			try(a, "POST", path, "")
			try(b, "POST", path, "")
			try(a, "POST", strings.Replace(path, "job", "other", 1), "")
			try(a, "POST", path, "", "Accept", "text/html")
			try(a, "POST", path, "{}", auth[:2]...)
			try(a, "POST", path, `{"token":"1"}`, auth...)
			try(a, "POST", path, strings.Repeat(" ", 5000), auth...)
			try(a, "POST", path, "", auth...) // it cannot
			for _, err := range []error{nil, errors.New("the disk is full")} {
				h, herr := electhttp.New(electhttp.Config{Name: "job", ID: "p", Trusted: true, Pause: func(on bool) error {
					if on != strings.HasSuffix(path, "/pause") {
						t.Errorf("%s: %v", path, on)
					}
					return err
				}})
				if herr != nil {
					t.Fatal(herr)
				}
				try(h, "POST", path, "")
				h.Close()
			}
		}
		for i, err := range []error{nil, errors.New("the disk is full")} {
			g := electhttp.NewGroup(electhttp.GroupConfig{Token: "secret", Hosts: []string{"example.com"}})
			closed := electhttp.NewGroup(electhttp.GroupConfig{})
			for _, path := range []string{"/v1/maintenance", "/v1/maintenance/on", "/v1/maintenance/off"} {
				method, with := "POST", auth
				if path == "/v1/maintenance" {
					method, with = "GET", nil
				}
				try(g, method, path, "", "Host", "evil.example")
				try(g, method, path, "", append([]string{"Accept", "text/html"}, with...)...)
				try(a, method, path, "")
				try(g, method, path, "", with...) // a POST: it cannot
				if method == "GET" {
					continue
				}
				try(g, method, path, "")
				try(closed, method, path, "")
				try(g, method, path, "{}", auth[:2]...)
				try(g, method, path, `{"token":"1"}`, auth...)
				try(g, method, path, strings.Repeat(" ", 5000), auth...)
				g.InMaintenance(false, func(on bool) error {
					if on != strings.HasSuffix(path, "/on") {
						t.Errorf("%s: %v", path, on)
					}
					return err
				})
				try(g, method, path, "", auth...)
				g.InMaintenance(i == 0, nil)
			}
			try(g, "GET", "/readyz", "")
		}
		a.StandsAside(electhttp.Paused)
		try(a, "GET", job, "")
		a.StandsAside("")
		a.stand(t)
		synctest.Wait()
		for _, path := range gets {
			try(a, "GET", path, "")
		}
		for _, path := range verbs {
			try(a, "POST", path, `{"token":"99"}`, auth...)
		}
		try(a, "POST", verbs[1], `{"to":"nobody"}`, auth...)
		d := join(t, store, "d", electhttp.Config{Trusted: true, Tenure: time.Hour})
		synctest.Wait()
		for _, path := range verbs {
			try(d, "POST", path, "")
		}
		for _, err := range []error{errors.New("refused"), elect.ErrUnsupported, elect.ErrUnknownOutcome, elect.ErrIneligible} {
			h, leave := refuser(t, store, err)
			synctest.Wait()
			for _, path := range verbs {
				try(h, "POST", path, "")
			}
			leave()
			try(h, "POST", verbs[0], "") // it was closed
			try(h, "POST", verbs[1], "")
		}
		for _, path := range verbs {
			try(a, "POST", path, "", auth...)
			synctest.Wait()
			time.Sleep(3 * lease) // the one that resigned stands again
		}
		c := join(t, store, "c", electhttp.Config{})
		waits := make(chan *elect.Term)
		go func() {
			term, _ := c.election.Campaign(context.Background())
			waits <- term
		}()
		synctest.Wait()
		try(a, "POST", verbs[0], "", auth...)
		term := <-waits
		c.link.Cut(true)
		time.Sleep(3 * lease) // and its work has not returned
		try(c, "GET", "/livez", "")
		_ = term.Release(context.Background())

		for _, key := range slices.Sorted(maps.Keys(described)) {
			if !given[key] {
				t.Errorf("%s is described, and was not given", key)
			}
		}
	})
}

// bounded is a client that goes away after the first event.
type bounded struct {
	*httptest.ResponseRecorder
	enough func()
}

func (b *bounded) Flush() { b.enough() }

// refuser is a participant whose verbs fail with err.
func refuser(t *testing.T, store *memory.Store, err error) (_ http.Handler, leave func()) {
	t.Helper()
	h, herr := electhttp.New(electhttp.Config{Name: "job", ID: "r", Election: "memory:", Trusted: true})
	link, lerr := store.New("job", "r", memory.Config{Lease: lease})
	if err := errors.Join(herr, lerr); err != nil {
		t.Fatal(err)
	}
	e, err := elect.New(refusing{link, err}, elect.Config{OnEvent: h.OnEvent})
	if err == nil {
		err = h.Attach(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h, func() { _ = e.Close(); h.Close() }
}

// HEAD has the status and the header of GET, through a server that checks what a handler writes.
func TestHead(t *testing.T) {
	p := join(t, memory.NewStore(0), "a", electhttp.Config{Sidecar: true})
	server := httptest.NewServer(p)
	defer server.Close()
	for _, path := range []string{
		"/leader", "/follower", "/livez", "/readyz", "/v1/elections", "/v1/elections/job", "/v1/elections/job/watch", "/openapi.json", "/", "/metrics",
		"/nothing", "/v1/elections/other", "/v1/elections/job/resign",
	} {
		var got [2]http.Header
		for i, method := range []string{"GET", "HEAD"} {
			ctx, cancel := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = resp.Header
			got[i].Set("Status", resp.Status)
			got[i].Del("Date")
			got[i].Del("Content-Length") // of a state it may differ from one instant to the next
			cancel()
			_ = resp.Body.Close()
		}
		if !maps.EqualFunc(got[0], got[1], slices.Equal) {
			t.Errorf("%s: GET %v, HEAD %v", path, got[0], got[1])
		}
	}
}

package electhttp

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
)

// The fields of a state and of a leader are those of the document.
func TestOpenAPIFields(t *testing.T) {
	full := view{
		Election: "file:/x", Name: "job", Stale: true, Cause: "x", ID: "a", State: idle, Ill: true, Health: "ill", Aside: Paused,
		Leader: &elect.Leader{ID: "a", Token: 1, Metadata: map[string]string{"a": "b"}, Since: time.Unix(1, 0), NoLease: true},
	}
	var doc struct {
		Parts struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		} `json:"components"`
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"Election": full, "Leader": full.Leader} {
		fields := map[string]json.RawMessage{}
		if name == "Election" {
			fields["time"], fields["lease_left_ms"] = nil, nil // of events, and of leaders
		}
		text, _ := json.Marshal(v)
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		if got, want := slices.Sorted(maps.Keys(doc.Parts.Schemas[name].Properties)), slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s has the fields %q, and described are %q", name, want, got)
		}
	}
}

// TestHealth: a participant without health checks has no health.
func TestHealth(t *testing.T) {
	h, err := New(Config{Name: "job", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, c := range []struct {
		kind   elect.EventKind
		health string
	}{{elect.EventCampaigning, ""}, {elect.EventWell, "well"}, {elect.EventIll, "ill"}, {elect.EventWell, "well"}} {
		h.OnEvent(elect.Event{Kind: c.kind})
		if v := h.present().view; v.Health != c.health || v.Ill != (c.health == "ill") {
			t.Errorf("after %s: %q, ill %v; want %q", c.kind, v.Health, v.Ill, c.health)
		}
	}
}

func TestAccepts(t *testing.T) {
	for accept, want := range map[string]bool{
		"*/*": true, "application/*": true, "application/json": true, "text/html, */*;q=0.1": true, "APPLICATION/JSON;q=1": true,
		"text/html": false, "": false, "application/json;q=0, */*": false, "application/json;q=x": false, ";": false,
	} {
		if accepts([]string{accept}, jsonType) != want {
			t.Errorf("%q: want %v", accept, want)
		}
	}
	if !accepts(nil, jsonType) || !accepts([]string{"text/html", "application/json"}, jsonType) {
		t.Error("no Accept, or two of them, are refused")
	}
}

// FuzzOrder holds that a body is read as an object with known fields, or refused in one line.
func FuzzOrder(f *testing.F) {
	for _, body := range []string{`{}`, `{"to":"b","token":"42"}`, `{"to":1}`, `{"x":{}}`, `{} {}`, `{"to":"\ud800"}`, `[`, ` {"to":null}`, "{\"a\nb\":1}"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var to, token string
		err := parseOrder(body, []field{{"to", &to}, {"token", &token}})
		if err == nil {
			var fields map[string]any
			if json.Unmarshal(body, &fields) != nil {
				t.Fatalf("%q was accepted as an object", body)
			}
			for name := range fields {
				if name != "to" && name != "token" {
					t.Fatalf("%q was accepted with the field %q", body, name)
				}
			}
			return
		}
		if text := err.Error(); text == "" || strings.ContainsAny(text, "\n\r\x00") || len(text) > 6*len(body)+200 {
			t.Fatalf("%q: %q", body, text)
		}
	})
}

// FuzzRequest holds that each request gets an answer: one of the statuses of the document, that no cache stores, and a
// problem in one line where there is one.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{"/", "/leader", "//leader", "/v1/elections/job", "/v1/elections/%2e%2e/watch", "/v1/elections/job/watch", "/v1/elections/job/transfer", "/v1/elections//", "*"} {
		f.Add("GET", path, "localhost:80", "x-1", "*/*", "")
		f.Add("POST", path, "[::1]", "\x00\n", "application/json;q=0.5", `{"to":"b"}`)
	}
	h, err := New(Config{Name: "job", ID: "a", Trusted: true, Hosts: []string{}, Watchers: 1})
	if err != nil {
		f.Fatal(err)
	}
	statuses := []int{200, 400, 403, 404, 405, 406, 413, 415, 421, 503}
	f.Fuzz(func(t *testing.T, method, path, host, last, accept, body string) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		r := (&http.Request{
			Method: method, URL: &url.URL{Path: path}, Host: host, Body: http.NoBody,
			Header: http.Header{"Last-Event-Id": {last}, "Accept": {accept}, "Content-Type": {jsonType}},
		}).WithContext(gone)
		if body != "" {
			r.Body = httptest.NewRequest("POST", "/", strings.NewReader(body)).Body
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains(statuses, w.Code) || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		if w.Code == http.StatusOK {
			return
		}
		var p struct{ Type, Title, Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Type == "" || p.Title == "" || strings.ContainsAny(p.Detail, "\r\n\x00") || len(p.Detail) > 6*len(body)+1000 {
			t.Fatalf("%v: %s", err, w.Body)
		}
	})
}

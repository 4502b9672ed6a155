package electhttp

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The document and the mux have the same paths and methods, and the document's fields are those of the answers.
func TestOpenAPI(t *testing.T) {
	h, err := New(Config{Name: "job", ID: "a", Metrics: http.NotFoundHandler(), Sidecar: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
		Parts   struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		} `json:"components"`
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatalf("%v, version %q", err, doc.OpenAPI)
	}
	var served, described []string
	for _, r := range h.routes() {
		served = append(served, r.method+" "+strings.TrimSuffix(r.path, "{$}"))
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served:\n\t%q\ndescribed:\n\t%q", served, described)
	}
	for name, v := range map[string]any{"Election": fullView(), "Leader": fullView().Leader} {
		var fields map[string]json.RawMessage
		text, _ := json.Marshal(v)
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for field := range fields {
			if doc.Parts.Schemas[name].Properties[field] == nil {
				t.Errorf("%s has a field %s that is not described", name, field)
			}
		}
		if got, want := len(doc.Parts.Schemas[name].Properties), len(fields); got != want {
			t.Errorf("%s has %d fields, and %d are described", name, want, got)
		}
	}
}

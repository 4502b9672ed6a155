package electhttp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
)

// fullView has a value in each field.
func fullView() view {
	left := int64(1)
	return view{
		Time: time.Unix(1, 0), Election: "file:/x", Name: "job", Stale: true, Cause: "x", ID: "a", State: idle, Ill: true, LeaseLeft: &left,
		Leader: &elect.Leader{ID: "a", Token: 1, Metadata: map[string]string{"a": "b"}, Since: time.Unix(1, 0), NoLease: true},
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
		var order struct {
			To    string `json:"to"`
			Token string `json:"token"`
		}
		err := parseOrder(body, &order)
		if err == nil {
			var fields map[string]any
			if json.Unmarshal(body, &fields) != nil {
				t.Fatalf("%q was accepted as an object", body)
			}
			for name := range fields {
				if !strings.EqualFold(name, "to") && !strings.EqualFold(name, "token") {
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

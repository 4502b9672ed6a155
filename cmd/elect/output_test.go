package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/electd/elect"
)

// TestWriteYAML: the document is that of JSON, with its fields in the same order,
// and what old readers would take for something else stays a string.
func TestWriteYAML(t *testing.T) {
	v := view{
		Election: "peer://n1@10.0.0.1:7400", Name: "no", Cause: "waiting for n3: dial\nrefused # twice",
		Leader: &elect.Leader{ID: "12:30", Token: 42, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Metadata: map[string]string{"y": "On", "empty": "", "rack": "true"}},
	}
	var got bytes.Buffer
	if err := writeYAML(&got, []view{v, {Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"- election: peer://n1@10.0.0.1:7400\n", `  name: "no"`, `    id: "12:30"`, `    token: "42"`, `      "y": "On"`, `      rack: "true"`, `    since: "2026-01-02T03:04:05Z"`, "\n  leader: null\n"} {
		if !strings.Contains(got.String(), line) {
			t.Errorf("no %q in\n%s", line, got.String())
		}
	}
	var back, want any
	if err := yaml.Unmarshal(got.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal([]view{v, {Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, want) {
		t.Errorf("%v\nwant\n%v", back, want)
	}
}

// FuzzWriteYAML: whatever a string is, a reader of YAML reads it as that string.
func FuzzWriteYAML(f *testing.F) {
	for _, s := range []string{"", "a: b", "a #b", "a:", "null", "0x1", "- a", "a\x7f\u0085\u2028", "peer://n1@h:1,n2@h:2?a=b", "é", "{}", " a", "a ", "a  b", "Y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		want := map[string]any{"list": []any{[]any{s, []any{}}, map[string]any{"": s, "k" + s: map[string]any{}}}}
		if err := writeYAML(&b, want); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(want) // which has mended what is no UTF-8
		var got, as any
		if err := errors.Join(yaml.Unmarshal(b.Bytes(), &got), json.Unmarshal(raw, &as)); err != nil || !reflect.DeepEqual(got, as) {
			t.Fatalf("%q: %v\n%s", s, err, &b)
		}
	})
}

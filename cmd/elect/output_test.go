package main

import (
	"bytes"
	"encoding/json"
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

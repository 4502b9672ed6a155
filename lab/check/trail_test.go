package check

import (
	"encoding/json"
	"strings"
	"testing"
)

// walk makes a trail that violates nothing: the first way on, a few times.
func walk(w World, steps int) *Trail {
	t := &Trail{World: w}
	for range steps {
		t.Steps = append(t.Steps, Step{})
	}
	return t
}

// TestTrail: a trail is told, kept, read and told again in the same words.
func TestTrail(t *testing.T) {
	for _, w := range tiny() {
		trail := walk(w, 5)
		if w.Mode == Timed {
			trail.Steps[1].Tick = true
		}
		v, err := trail.Replay()
		if v != nil || err != nil {
			t.Fatalf("%s: %v, %v", w.String(), v, err)
		}
		told := story(t, trail)
		data, err := json.Marshal(trail)
		if err != nil {
			t.Fatal(err)
		}
		var again Trail
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Replay(); err != nil || story(t, &again) != told {
			t.Errorf("%v: told again:\n%s\nat first:\n%s", err, story(t, &again), told)
		}
		for _, want := range []string{"n1", ", term ", w.String()} {
			if !strings.Contains(told, want) {
				t.Errorf("%q is not in\n%s", want, told)
			}
		}
	}
}

// TestTrailOfAnotherBuild: what cannot be gone is refused.
func TestTrailOfAnotherBuild(t *testing.T) {
	w := tiny()[0]
	for name, trail := range map[string]*Trail{
		"way":       {World: w, Steps: []Step{{Way: 99}}},
		"negative":  {World: w, Steps: []Step{{Way: -1}}},
		"beginning": {World: w, Beginning: 7},
		"world":     {},
	} {
		if v, err := trail.Replay(); err == nil {
			t.Errorf("%s: %v, no error", name, v)
		}
	}
}

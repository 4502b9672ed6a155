package play

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// Every moment of every story is there, in order, and has one sentence.
func TestStories(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range stories() {
		if seen[s.Name] {
			t.Errorf("story %s is there twice", s.Name)
		}
		seen[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if (s.Asks == "") != (s.Answers == "") {
				t.Errorf("it asks %q and answers %q; want both or neither", s.Asks, s.Answers)
			}
			found := call[*Story](t, New(), "story", storyParams{Name: s.Name})
			last := uint64(0)
			for i, step := range found.Steps {
				if i > 0 && fmt.Sprint(*step.World) != fmt.Sprint(*found.Steps[i-1].World) {
					last = 0
				}
				if step.Event < last {
					t.Errorf("step %d is at event %d, before the step before it at %d", i+1, step.Event, last)
				}
				last = step.Event
				if n := strings.Count(step.Says, ". "); n > 0 || !strings.HasSuffix(step.Says, ".") || !unicode.IsUpper(rune(step.Says[0])) && step.Says[0] != 'n' {
					t.Errorf("step %d is not one sentence: %q", i+1, step.Says)
				}
				switch step.Look {
				case "world", "lanes", "log", "invariants":
				default:
					t.Errorf("step %d looks at %q", i+1, step.Look)
				}
			}
		})
	}
	if _, err := New().Call("story", []byte(`{"name": "x"}`)); err == nil || !strings.Contains(err.Error(), `story "x"; want election, `) {
		t.Errorf("an unknown story: %v", err)
	}
}

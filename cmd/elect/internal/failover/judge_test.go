package failover

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		lives []life
		stale time.Duration
		want  int // violations
	}{
		{"nobody", nil, 0, 0},
		{"one", []life{{who: "a", token: 1, from: 10}}, 0, 0},
		{"one after the other", []life{{who: "a", token: 1, from: 10, to: 20}, {who: "b", token: 2, from: 21}}, 0, 0},
		{"at one instant", []life{{who: "a", token: 1, from: 10, to: 30}, {who: "b", token: 2, from: 21}}, 9, 1},
		{"one before last", []life{{who: "a", token: 1, from: 10, to: 45}, {who: "b", token: 2, from: 21, to: 30}, {who: "c", token: 3, from: 40}}, 24, 2},
		{"killed", []life{{who: "a", token: 1, from: 10, killed: true}, {who: "b", token: 2, from: 21}}, 0, 0},
		{"silent", []life{{who: "a", token: 1, from: 10}, {who: "b", token: 2, from: 21}}, 0, 1},
		{"a token falls", []life{{who: "a", token: 2, from: 10, to: 20}, {who: "b", token: 1, from: 21}}, 0, 1},
		{"a token comes twice", []life{{who: "a", token: 2, from: 10, to: 20}, {who: "b", token: 2, from: 21}}, 0, 1},
		{"reported late", []life{{who: "b", token: 2, from: 21, to: 40}, {who: "a", token: 1, from: 10, to: 22}}, 1, 1},
	} {
		stale, violations := judge(c.lives)
		if stale != c.stale || len(violations) != c.want {
			t.Errorf("%s: stale for %v, violations %q; want %v and %d", c.name, stale, violations, c.stale, c.want)
		}
	}
}

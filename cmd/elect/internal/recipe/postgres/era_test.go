package postgres

import (
	"testing"

	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// TestInterrupted has a node die after a promotion, before it has noted the timeline, and promotes it again. Another node
// has made a timeline of that number, too, at the same place: pg_rewind would take the two for one.
func TestInterrupted(t *testing.T) {
	var m rules
	old := record{SystemID: 1, Promised: 8, Followed: 7, Eras: []era{{4, 7, 50}}, Whole: true}
	a, _ := m.begin(old, 8)
	a, _ = m.promise(a, 10)
	p := server.Position{SystemID: 1, Timeline: 5, Begin: 100, LSN: 120}
	a = m.saw(a, p)
	if said := m.answer("a", 0, a, p, false); !said.Whole || said.Followed != 8 {
		t.Fatalf("%+v; want a whole node of term 8", said)
	}
	a, _ = m.begin(a, 10)
	a = m.promoted(a, server.Position{SystemID: 1, Timeline: 6, Begin: 120, LSN: 121})
	b := record{SystemID: 1, Promised: 9, Followed: 9, Eras: []era{{4, 7, 50}, {5, 9, 100}}, Whole: true, Primary: true}
	what, why := m.plan(b, server.Position{SystemID: 1, Timeline: 5, Begin: 100, LSN: 110}, false, target{ID: "a", Token: 10, Eras: a.Eras}, 1)
	if what != rebuild {
		t.Errorf("step %d (%s), with the eras %v; want a copy, as the timeline 5 is of two terms", what, why, a.Eras)
	}
}

// TestStaleMaking has a node begin to make a cluster, and fail; another one makes it. The copy of that is not taken for
// what this node made.
func TestStaleMaking(t *testing.T) {
	var m rules
	r, _ := m.promise(record{}, 1)
	r, _ = m.begin(r, 1)
	r.Making = true
	if r = m.breaking(r); r.Making {
		t.Error("it still makes a cluster, while a copy takes the place of its data; want that noted before")
	}
}

// TestShortTimeline crashes a replica while it receives the segment of a fork once more, before it has noted the fork.
// PostgreSQL would be promoted in the middle of that segment, on a timeline that begins later.
func TestShortTimeline(t *testing.T) {
	var m rules
	r := record{SystemID: 1, Promised: 8, Followed: 7, Eras: []era{{4, 7, 50}}, Whole: true, Floor: 80,
		Target: &target{ID: "c", Token: 8, Eras: []era{{4, 7, 50}, {5, 8, 100}}}}
	p := server.Position{SystemID: 1, Timeline: 5, Begin: 100, LSN: 97}
	if said := m.answer("b", 0, m.saw(r, p), p, false); said.Whole {
		t.Errorf("%+v; want that it does not count", said)
	}
}

package group

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/protocol/trace"
)

// replayed verifies the records below a directory, and returns the number of steps by subdirectory.
func replayed(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "flight-*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]uint64{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := trace.Verify(strings.NewReader(string(text)), nil)
		if err != nil || !r.Whole {
			t.Errorf("%s: %+v, %v; want a whole record that new machines agree with", name, r, err)
		}
		steps[filepath.Base(filepath.Dir(name))] += r.Steps
	}
	return steps
}

// TestFlight: the records of a group in which keys begin, the coordinator dies and a member leaves can be replayed.
func TestFlight(t *testing.T) {
	dirs := map[string]string{}
	for i := range 3 {
		dirs[name(i)] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*part
		for i := range 3 {
			all = append(all, w.member(name(i), func(c *Config) {
				c.Keys, c.Flight = Range(6), dirs[name(i)]
			}))
		}
		h := newHolding(t)
		for _, p := range all {
			p.run(h)
		}
		w.until("all shards", 30*time.Second, func() bool { return h.total() == 6 })
		s, err := all[0].Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.id == s.Coordinator {
				p.crash()
			}
		}
		w.until("all shards again", 30*time.Second, func() bool { return h.total() == 6 })
		for _, p := range all {
			p.end()
		}
	})
	coordinators := 0
	for id, dir := range dirs {
		steps := replayed(t, dir)
		if steps["member"] == 0 {
			t.Errorf("the record of %s has no step of its member", id)
		}
		if steps["coordinator"] > 0 {
			coordinators++
		}
	}
	if coordinators < 2 {
		t.Errorf("%d records of coordinators; want 2 at least", coordinators)
	}
}

// TestFlightTaken: a directory that another member uses is refused with a line, and the group goes on.
func TestFlightTaken(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.member("m1", func(c *Config) { c.Flight = dir })
		second := w.member("m2", func(c *Config) { c.Flight = dir })
		if first.memberRecord == nil || second.memberRecord != nil {
			t.Errorf("records %v and %v; want the first member's only", first.memberRecord, second.memberRecord)
		}
	})
}

//go:build linux || darwin || freebsd

package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// observe returns the first state.
func observe(t testing.TB, e *Elector) driver.State {
	t.Helper()
	for s, err := range e.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Fatal("no state")
	panic("unreachable")
}

// states returns the channel of an observer's states.
func states(t testing.TB, e *Elector) <-chan driver.State {
	t.Helper()
	c := make(chan driver.State, 1000)
	go func() {
		defer close(c)
		for s, err := range e.Watch(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			c <- s
		}
	}()
	return c
}

// until receives states until one is as wanted, and returns it.
func until(t testing.TB, c <-chan driver.State, what string, ok func(driver.State) bool) driver.State {
	t.Helper()
	for {
		if s := receive(t, c, what); ok(s) {
			return s
		}
	}
}

func TestObserve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "elections")
	o := elector(t, dir, "o")
	seen := states(t, o)
	if s := receive(t, seen, "the first state"); s.Leader != nil || s.Stale || s.Cause != nil {
		t.Fatalf("an election that does not exist: %+v", s)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("an observer made the directory")
	}
	before := time.Now()
	e := elector(t, dir, "a")
	for i := range 3 {
		m, err := e.Campaign(t.Context(), driver.Candidacy{Metadata: map[string]string{"at": "here"}})
		if err != nil {
			t.Fatal(err)
		}
		s := until(t, seen, "the leader", func(s driver.State) bool { return s.Leader != nil })
		if l := s.Leader; l.ID != "a" || l.Token != fence.Token(i+1) || l.Metadata["at"] != "here" || l.Since.Before(before.Add(-time.Second)) || s.Stale {
			t.Fatalf("%+v", l)
		}
		release(t, m)
		until(t, seen, "no leader", func(s driver.State) bool { return s.Leader == nil })
	}
	_ = o.Close()
	for range seen { // ends
	}
}

func TestObserveEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for range elector(t, t.TempDir(), "o").Watch(ctx) {
		n++
		cancel()
	}
	if n != 1 {
		t.Fatalf("%d states, want 1", n)
	}
}

// TestObserveNeverLies lets leaders follow one another quickly. What is shown
// last must be the last leader, and tokens must not fall.
func TestObserveNeverLies(t *testing.T) {
	dir := t.TempDir()
	seen := states(t, elector(t, dir, "o"))
	electors := []*Elector{elector(t, dir, "c0"), elector(t, dir, "c1")}
	var m *mandate
	for i := range 200 {
		if m != nil {
			release(t, m)
		}
		m = campaign(t, electors[i%2])
	}
	defer release(t, m)
	var last fence.Token
	until(t, seen, "the last leader", func(s driver.State) bool {
		if s.Stale {
			t.Errorf("%+v", s)
		}
		if s.Leader == nil {
			return false
		}
		if s.Leader.Token < last || s.Leader.ID != fmt.Sprintf("c%d", (s.Leader.Token.Count()+1)%2) {
			t.Errorf("%+v after token %v", s.Leader, last)
		}
		last = s.Leader.Token
		return last == m.Token()
	})
}

func TestStaleRecordIsHarmless(t *testing.T) {
	dir := t.TempDir()
	cmd, _, _ := helper(t, dir, nil)
	o := elector(t, dir, "o")
	if s := observe(t, o); s.Leader == nil || s.Leader.ID != "helper" {
		t.Fatalf("%+v, want helper", s)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if s := observe(t, o); s.Leader != nil || s.Stale {
		t.Fatalf("%+v, want no leader: it was killed", s)
	}
	if _, err := os.Stat(filepath.Join(dir, "jobs", recordName)); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecord: somebody leads, and the record does not say who.
func TestDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	lead(t, elector(t, dir, "a"))
	name := filepath.Join(dir, "jobs", recordName)
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := observe(t, elector(t, dir, "o")); !s.Stale || s.Cause == nil || !strings.Contains(s.Cause.Error(), name) {
		t.Fatalf("%+v, want a stale state that names the record", s)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if s := observe(t, elector(t, dir, "o")); !s.Stale || s.Cause == nil || !strings.Contains(s.Cause.Error(), name) {
		t.Fatalf("%+v, want a stale state that names the record", s)
	}
}

// TestObserverFollowsReplacement: a new directory is seen, also by an observer
// that has the old one open.
func TestObserverFollowsReplacement(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := states(t, elector(t, dir, "o"))
	a := lead(t, elector(t, dir, "a"))
	until(t, seen, "a", func(s driver.State) bool { return s.Leader != nil && s.Leader.ID == "a" })
	if err := os.Rename(filepath.Join(dir, "jobs"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	until(t, seen, "no leader", func(s driver.State) bool { return s.Leader == nil })
	lead(t, elector(t, dir, "b"))
	until(t, seen, "b", func(s driver.State) bool { return s.Leader != nil && s.Leader.ID == "b" })
	_ = a
}

// TestObserveCostsNothing measures what 200 observers use.
func TestObserveCostsNothing(t *testing.T) {
	dir := t.TempDir()
	lead(t, elector(t, dir, "a"))
	const n = 200
	for range n {
		receive(t, states(t, elector(t, dir, "o")), "the first state")
	}
	before, _ := usage(t)
	const span = 2 * time.Second
	time.Sleep(span) // what is measured is the use over a span
	after, _ := usage(t)
	share := float64(after-before) / float64(span) / n
	t.Logf("an observer uses %.4f %% of a core", 100*share)
	if share > 0.002 {
		t.Errorf("an observer uses %.3f %% of a core", 100*share)
	}
}

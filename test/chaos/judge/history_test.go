//go:build linux

package judge

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
)

// TestHistory: concurrent events are all recorded, each in a line.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	h, err := NewHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := lives.Now()
	links := network.Merge(network.Isolate(3, 1), network.Slow(3, time.Millisecond, time.Second), network.Lossy(3, 30))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 100 {
				h.Add(Event{Kind: Links, Node: i, ID: k, Text: "a\nb", Links: links, Wall: time.Now(), For: time.Second, Usage: &Usage{FDs: 1}})
			}
		})
	}
	wg.Wait()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	h.Add(Event{Kind: Note, Text: "too late"})
	if h, err = NewHistory(dir); err != nil { // and another continues it
		t.Fatal(err)
	}
	h.Add(Event{Kind: Run, At: before, Node: NoNode})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	ledger(t, dir)
	r, err := load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.events) != 801 || r.events[0].Kind != Run || r.from != before {
		t.Fatalf("%d events, the first %+v", len(r.events), r.events[0])
	}
	for _, e := range r.events[1:] {
		if e.At < before || e.At > lives.Now() || len(e.Links) != len(links) || e.Links[network.Way{From: 1, To: 0}] != links[network.Way{From: 1, To: 0}] || e.Usage.FDs != 1 || e.Text != "a\nb" {
			t.Fatalf("%+v", e)
		}
	}
}

// TestHistoryFull: Close reports an event that could not be written.
func TestHistoryFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, HistoryFile)); err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.Add(Event{Kind: Note})
	if err := h.Close(); err == nil {
		t.Error("nothing was written, and there is no error")
	}
}

func ledger(t *testing.T, dir string) {
	t.Helper()
	l, err := lives.Open(filepath.Join(dir, LedgerFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestJudgeErrors: an unreadable file is an error, not a verdict.
func TestJudgeErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		doctor func(t *testing.T, dir string)
		want   string // in the error; empty: none
	}{
		{"sound", func(*testing.T, string) {}, ""},
		{"no history", func(t *testing.T, dir string) { remove(t, dir, HistoryFile) }, "no such file"},
		{"an empty history", func(t *testing.T, dir string) { put(t, dir, HistoryFile, "") }, "no event"},
		{"a history that is none", func(t *testing.T, dir string) { put(t, dir, HistoryFile, "{}\n") }, "line 1: an event without kind or time"},
		{"an event without a time", func(t *testing.T, dir string) {
			put(t, dir, HistoryFile, `{"kind":"run","at":1}`+"\n"+`{"kind":"x"}`+"\n")
		}, "line 2"},
		{"a history that was cut short", func(t *testing.T, dir string) { extend(t, dir, HistoryFile, `{"at":12,"ki`) }, ""},
		{"no ledger", func(t *testing.T, dir string) { remove(t, dir, LedgerFile) }, "no such file"},
		{"a ledger that is none", func(t *testing.T, dir string) { put(t, dir, LedgerFile, "ledger") }, "ledger"},
		{"an operation that is none", func(t *testing.T, dir string) { extend(t, dir, "ops/n1.ndjson", "x\n") }, "n1.ndjson"},
		{"a watcher's line that is none", func(t *testing.T, dir string) { extend(t, dir, "watch/w.ndjson", "{]\n") }, "w.ndjson: line 5"},
		{"a watcher's line without a time", func(t *testing.T, dir string) { extend(t, dir, "watch/w.ndjson", "{}\n") }, "without at"},
		{"a watcher's line that was cut short", func(t *testing.T, dir string) { extend(t, dir, "watch/w.ndjson", `{"at":1`) }, ""},
		{"a token that is none", func(t *testing.T, dir string) {
			extend(t, dir, "watch/w.ndjson", `{"at":1,"leader":{"id":"n1","token":"x"}}`+"\n")
		}, "token"},
		{"a record that cannot be read", func(t *testing.T, dir string) { put(t, dir, "data/n1/flight-00000001.ndjson/x", "") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := sound().write(t)
			c.doctor(t, dir)
			r, err := Judge(dir, Options{})
			switch {
			case c.want == "" && (err != nil || !r.OK()):
				t.Errorf("%v\n%v", err, &r)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// TestQuick: a run that goes on is judged up to now, by its quick checks.
func TestQuick(t *testing.T) {
	s := sound()
	s.lives[2].Start = 19 * second
	s.find("n1", "write", 18).result = "ok" // which it does not look at
	s.events = s.events[:len(s.events)-1]   // it is not over
	r, err := Judge(s.write(t), Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.All() != 1 || r.Counts[CheckOverlap] != 1 || r.Elections != 2 || r.Ops != 0 || r.To != 59*second {
		t.Errorf("%v", &r)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func extend(t *testing.T, dir, name, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, name, string(b)+text)
}

//go:build linux

package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

// script is what a run leaves behind, before it is written.
type script struct {
	events []Event
	lives  []lives.Life
	ops    []*op
	closed bool // the register was closed in good order
	watch  map[string][]map[string]any
	files  map[string][]byte // more, by path
}

// op is one operation of a client.
type op struct {
	client    string
	n         int
	op        string
	token     int64
	value     string
	seq       int64
	call, ret int64 // ret 0: the client was killed
	result    string
	highest   int64
	seen      string
	last      [2]int64
	// server is when the server noted the end of an operation whose client is gone;
	// 0: it did not.
	server int64
}

func (o *op) called() map[string]any {
	m := map[string]any{"client": o.client, "n": o.n, "op": o.op, "call": o.call}
	if o.token != 0 {
		m["token"] = o.token
	}
	if o.value != "" {
		m["value"] = o.value
	}
	if o.seq != 0 {
		m["seq"] = o.seq
	}
	return m
}

func (o *op) returned(at int64) map[string]any {
	m := map[string]any{"client": o.client, "n": o.n, "return": at, "result": o.result}
	if o.highest != 0 {
		m["highest"] = o.highest
	}
	if o.seen != "" {
		m["seen"] = o.seen
	}
	if o.op == "stream" && o.last != [2]int64{} {
		m["last"] = fmt.Sprintf("%d/%d", o.last[0], o.last[1])
	}
	return m
}

// write writes the run into a new directory.
func (s *script) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := NewHistory(dir)
	must(err)
	for _, e := range s.events {
		h.Add(e)
	}
	must(h.Close())
	l, err := lives.Open(filepath.Join(dir, LedgerFile))
	must(err)
	for _, life := range s.lives {
		slot := l.Begin(life)
		gaps := life.Gaps
		if life.Resumed != 0 {
			gaps = append(gaps, lives.Pause{Paused: life.Paused, Resumed: life.Resumed})
		}
		often := func(from, to int64) { // without a gap
			for at := from; at < to; at += int64(lives.Gap) {
				slot.StampAt(0, at)
			}
			slot.StampAt(0, to)
		}
		at := life.Start
		for _, g := range gaps {
			often(at, g.Paused)
			at = g.Resumed
		}
		if len(gaps) > 0 {
			often(at, life.Last)
		}
		slot.StampAt(0, life.Last)
	}
	must(l.Close())
	text := map[string][]byte{}
	line := func(path string, m map[string]any) {
		b, err := json.Marshal(m)
		must(err)
		text[path] = append(append(text[path], b...), '\n')
	}
	ops := slices.Clone(s.ops)
	slices.SortStableFunc(ops, func(a, b *op) int { return a.n - b.n })
	for _, o := range ops {
		path := filepath.Join("ops", o.client+".ndjson")
		line(path, o.called())
		if o.ret != 0 {
			line(path, o.returned(o.ret))
		} else if o.server != 0 {
			line("register.ndjson", o.returned(o.server))
		}
	}
	if s.closed {
		line("register.ndjson", map[string]any{"closed": s.events[len(s.events)-1].At})
	}
	for name, saw := range s.watch {
		for _, m := range saw {
			line(filepath.Join("watch", name+".ndjson"), m)
		}
	}
	maps.Copy(text, s.files)
	for path, b := range text {
		must(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o777))
		must(os.WriteFile(filepath.Join(dir, path), b, 0o666))
	}
	return dir
}

// judge writes the run and judges it.
func (s *script) judge(t testing.TB) Report {
	t.Helper()
	r, err := Judge(s.write(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// at adds an event.
func (s *script) at(at int64, e Event) {
	e.At = at
	s.events = append(s.events, e)
}

// begin is the beginning of a run of n nodes that all vote and are up.
func (s *script) begin(at int64, n int) {
	e := Event{Kind: Run, Node: NoNode, Nodes: n, Wall: time.Unix(1_700_000_000, 0)}
	for i := range n {
		e.Voters = append(e.Voters, i)
	}
	s.at(at, e)
	for i := range n {
		s.at(at, Event{Kind: Start, Node: i, Pid: 100 + i})
	}
}

// saw adds a state to a watcher.
func (s *script) saw(name string, at int64, node int, token int64) {
	if s.watch == nil {
		s.watch = map[string][]map[string]any{}
	}
	if n := len(s.watch[name]); n > 0 {
		at = max(at, s.watch[name][n-1]["at"].(int64)+1)
	}
	m := map[string]any{"at": at, "leader": nil}
	if token != 0 {
		m["leader"] = map[string]any{"id": nodeName(node), "token": fmt.Sprint(token)}
	}
	s.watch[name] = append(s.watch[name], m)
}

// lines are those of a text.
func lines(text []byte) iter.Seq[[]byte] { return bytes.Lines(text) }

package groupbench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// begin and end are events at a node, in milliseconds.
func begin(node int, key int32, at int64, token uint64) ofNode {
	return ofNode{event{Key: key, At: at * 1e6, Token: token}, node}
}

func end(node int, key int32, at int64, token uint64) ofNode {
	e := begin(node, key, at, token)
	e.Ended = true
	return e
}

func lost(node int, key int32, at int64, token uint64) ofNode {
	e := end(node, key, at, token)
	e.Lost = true
	return e
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		events [][]ofNode // of which each list is judged when the one before is known
		killed int        // after the first list: a node, from 1
		want   string     // part of the violation
	}{
		"in turns":                 {events: [][]ofNode{{begin(0, 1, 10, 1), end(0, 1, 20, 1), begin(1, 1, 21, 2)}}},
		"not in order":             {events: [][]ofNode{{begin(1, 1, 21, 2), end(0, 1, 20, 1), begin(0, 1, 10, 1)}}},
		"after a kill":             {events: [][]ofNode{{begin(0, 1, 10, 1)}, {begin(1, 1, 21, 2)}}, killed: 1},
		"two at once":              {events: [][]ofNode{{begin(0, 1, 10, 1), begin(1, 1, 19, 2), end(0, 1, 20, 1)}}, want: "key 1: n2 began with token 2 while n1 led with token 1"},
		"two at once, in two":      {events: [][]ofNode{{begin(0, 1, 10, 1)}, {begin(1, 1, 19, 2)}}, want: "while n1 led"},
		"another was killed":       {events: [][]ofNode{{begin(0, 1, 10, 1)}, {begin(1, 1, 19, 2)}}, killed: 3, want: "while n1 led"},
		"told late of its loss":    {events: [][]ofNode{{begin(0, 1, 10, 1), begin(1, 1, 19, 2), lost(0, 1, 20, 1)}}},
		"the token does not rise":  {events: [][]ofNode{{begin(0, 1, 10, 2), end(0, 1, 20, 2), begin(1, 1, 21, 2)}}, want: "with token 2 after token 2"},
		"another key is no matter": {events: [][]ofNode{{begin(0, 1, 10, 2), begin(1, 2, 11, 1)}}},
	} {
		s := &setup{state: make([]state, 3), result: &Result{}}
		for i, events := range c.events {
			if s.judge(events); i == 0 && c.killed > 0 {
				s.killed(c.killed - 1)
			}
		}
		if got := strings.Join(s.result.Violations, "; "); (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestGaps(t *testing.T) {
	events := []ofNode{
		begin(1, 1, 130, 2),                                       // killed before
		end(0, 2, 110, 1), begin(1, 2, 112, 2), end(1, 2, 150, 2), // left, and went on
		begin(1, 2, 160, 3), // of which only the first gap counts
		end(2, 3, 120, 1),   // another key
	}
	mine := map[int32]bool{1: true, 2: true}
	if got, want := gaps(events, mine, 100*time.Millisecond), []time.Duration{2 * time.Millisecond, 30 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("gaps of %v; want %v", got, want)
	}
	if n := interrupted(events, mine); n != 1 {
		t.Errorf("%d interrupted; want 1", n)
	}
}

func TestLog(t *testing.T) {
	want := []event{{Key: 7, Ended: true, Lost: true, At: 1 << 40, Token: 1 << 50}, {Key: 1 << 19}}
	if got, err := decode(encode(want)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := decode([]byte{1}); err != nil {
		t.Errorf("a log that is cut: %v; want what is whole", err)
	}
}

// TestReport: medians of rounds and the worst of them, for people and for programs.
func TestReport(t *testing.T) {
	r := newReport(&Config{Rounds: 3})
	x := r.add(&System{Use: Shards, Shown: "file:"}, 3)
	for _, ms := range []int64{30, 10, 20} {
		x.joined(0, []ofNode{begin(0, 0, 1, 1), begin(0, 1, ms/2, 1), begin(0, 2, ms, 1), end(0, 1, ms, 1)})
		x.took(Member, time.Duration(100e6), map[int32]bool{0: true}, []ofNode{begin(1, 0, 100+ms, 2), end(2, 1, 105, 1)})
	}
	x.balanced(100e6, map[int32]bool{0: true}, []ofNode{end(0, 0, 290, 1), begin(3, 0, 300, 2), end(1, 1, 300, 1)})
	if k := x.kind(Joins); k.Keys != 1 || k.All != 200 || k.Interrupted != 1 {
		t.Errorf("joins: %+v; want the time since it joined", k)
	}
	x.Idle, x.Memory = &Idle{Seconds: 60, CPU: 0.25, Resident: 3 << 20}, &Memory{Coordinator: 300, Member: 150}
	if j := x.Join; j.Rounds != 3 || j.Half != 10 || j.All != 20 || j.Worst != 30 {
		t.Errorf("join: %+v", j)
	}
	if k := x.Kinds[0]; k.Rounds != 3 || k.Keys != 3 || k.All != 20 || k.Worst != 30 || k.Interrupted != 3 {
		t.Errorf("member: %+v", k)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"use":"shards","at":"file:","keys":3,"join":{"rounds":3,"half_ms":10,"all_ms":20,"worst_ms":30}`, `"kind":"member","keys":3,"rounds":3,`, `"violations":[]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if want := "member     3  3   20.0   20.0   30.0            3 shards of 3 at file:"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
	x.found("key 1")
	if err := r.Err(); err == nil || err.Error() != "SAFETY: key 1" {
		t.Errorf("%v", err)
	}
}

func TestParseNative(t *testing.T) {
	e, err := ParseNative("native+etcd://10.0.0.1,10.0.0.2:1/a/b?lease=7s")
	if err != nil || !slices.Equal(e.hosts, []string{"http://10.0.0.1:2379", "http://10.0.0.2:1"}) || e.prefix != "a/b" || e.ttl != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{"etcd://h", "native+etcd://", "native+etcd://u:p@h", "native+etcd://h?lease=10ms", "native+etcd://h?hold=1s", "native+etcd://h?lease=2s&lease=3s"} {
		if _, err := ParseNative(bad); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: %v; want an error that says what would be right", bad, err)
		}
	}
}

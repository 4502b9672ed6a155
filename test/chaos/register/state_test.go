package register

import (
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

// TestRules: what the fence refuses the twin takes, and sequences rise.
func TestRules(t *testing.T) {
	var s state
	for i, c := range []struct {
		do          line
		want        Result
		highest     int64
		value, twin string
		last        fence.Sequence
	}{
		{line{Op: Read}, OK, 0, "", "", fence.Sequence{}},
		{line{Op: Write, Token: 3, Value: "a"}, OK, 3, "a", "a", fence.Sequence{}},
		{line{Op: Write, Token: 3, Value: "b"}, OK, 3, "b", "b", fence.Sequence{}},
		{line{Op: Write, Token: 2, Value: "c"}, Stale, 3, "b", "c", fence.Sequence{}},
		{line{Op: Write, Token: 5, Value: "d"}, OK, 5, "d", "d", fence.Sequence{}},
		{line{Op: Write, Token: 3, Value: "e"}, Stale, 5, "d", "e", fence.Sequence{}},
		{line{Op: Stream, Token: 5, Position: 1}, OK, 5, "d", "e", fence.Sequence{Token: 5, Position: 1}},
		{line{Op: Stream, Token: 5, Position: 4}, OK, 5, "d", "e", fence.Sequence{Token: 5, Position: 4}},
		{line{Op: Stream, Token: 5, Position: 4}, Stale, 5, "d", "e", fence.Sequence{Token: 5, Position: 4}},
		{line{Op: Stream, Token: 4, Position: 9}, Stale, 5, "d", "e", fence.Sequence{Token: 5, Position: 4}},
		{line{Op: Stream, Token: 6, Position: 1}, OK, 5, "d", "e", fence.Sequence{Token: 6, Position: 1}},
		{line{Op: Read}, OK, 5, "d", "e", fence.Sequence{Token: 6, Position: 1}},
		{line{Op: Peek}, OK, 5, "d", "e", fence.Sequence{Token: 6, Position: 1}},
	} {
		a := s.apply(c.do)
		if a.Result != c.want || a.Highest != c.highest || s.value != c.value || s.twin != c.twin || s.last != c.last {
			t.Errorf("%d: %+v: %+v, %+v", i, c.do, a, s)
		}
		if seen := map[Op]string{Read: c.value, Peek: c.twin}[c.do.Op]; a.Seen != seen {
			t.Errorf("%d: %+v: saw %q; want %q", i, c.do, a.Seen, seen)
		}
	}
	if want := (Stats{Writes: 5, Refused: 2, Streams: 5, OutOfTurn: 2, Reads: 3}); s.stats != want {
		t.Errorf("%+v; want %+v", s.stats, want)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	good := line{Client: "c", N: 1, Op: Write, Token: 1, Value: "v", Position: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*line){
		"name":      func(l *line) { l.Client = "" },
		"from 1":    func(l *line) { l.N = 0 },
		"operation": func(l *line) { l.Op = "burn" },
		"token":     func(l *line) { l.Token = 0 },
		"value":     func(l *line) { l.Value = "" },
		"position":  func(l *line) { l.Op, l.Position = Stream, 0 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v; want something about %q", bad, err, what)
		}
	}
}

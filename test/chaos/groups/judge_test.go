//go:build linux

package groups

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

const ms = int64(time.Millisecond)

// TestDoctored: each broken promise is found, and nothing else.
func TestDoctored(t *testing.T) {
	storm := []act{{At: 1, What: began, Text: "group-file"}, {At: 5000 * ms, What: calm}, {At: 5100 * ms, What: led}}
	life := func(key, node, token, start, last int64) lives.Life {
		return lives.Life{Key: key, Node: node, Pid: 100 + node, Token: token, Start: start * ms, Last: last * ms}
	}
	write := func(token, call, ret, highest int64, result register.Result) register.Operation {
		return register.Operation{Op: register.Write, Key: 1, Token: token, Call: call * ms, Return: ret * ms, Highest: highest, Result: result}
	}
	for name, c := range map[string]struct {
		acts  []act
		lives []lives.Life
		ops   []register.Operation
		want  []string
	}{
		"well": {lives: []lives.Life{life(1, 0, 1, 10, 20), life(1, 1, 2, 21, 30), life(2, 1, 1, 15, 40)},
			ops: []register.Operation{write(1, 11, 12, 1, register.OK), write(2, 22, 23, 2, register.OK), write(1, 24, 25, 2, register.Stale)}},
		"two hold one key":     {lives: []lives.Life{life(1, 0, 1, 10, 20), life(1, 1, 2, 20, 30)}, want: []string{CheckOverlap}},
		"a long life":          {lives: []lives.Life{life(1, 0, 1, 10, 90), life(1, 1, 2, 95, 96), life(1, 2, 3, 96, 97)}, want: []string{CheckOverlap}},
		"a token comes again":  {lives: []lives.Life{life(1, 0, 2, 10, 20), life(1, 1, 2, 21, 30)}, want: []string{CheckToken}},
		"a token falls":        {lives: []lives.Life{life(1, 0, 2, 10, 20), life(1, 1, 1, 21, 30)}, want: []string{CheckToken}},
		"a stale write counts": {ops: []register.Operation{write(2, 10, 12, 2, register.OK), write(1, 13, 15, 2, register.OK)}, want: []string{CheckStale}},
		"a write that is late": {ops: []register.Operation{write(2, 10, 14, 2, register.OK), write(1, 13, 15, 2, register.OK)}},
		"not led":              {acts: []act{{What: unled}}, want: []string{CheckLive}},
		"crashed":              {acts: []act{{What: crashed}}, want: []string{CheckProcess}},
		"stuck":                {acts: []act{{What: stuck}}, want: []string{CheckProcess}},
	} {
		r := judge(append(slices.Clone(storm), c.acts...), c.lives, c.ops, nil)
		var got []string
		for _, v := range r.Violations {
			got = append(got, v.Check)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v; want %v", name, r.Violations, c.want)
		}
	}
}

// TestFigures: what a death cost is told apart by who died, and by who held the key.
func TestFigures(t *testing.T) {
	acts := []act{
		{At: 1, What: began, Text: "group-file"},
		{At: 5000 * ms, What: "kill-member"}, {At: 5000 * ms, What: killed, Node: 1, Pid: 101},
		{At: 20000 * ms, What: "kill-coordinator"}, {At: 20000 * ms, What: killed, Node: 0, Pid: 100, Coordinator: true},
		{At: 40000 * ms, What: "kill-member"}, {At: 40000 * ms, What: killed, Node: 3, Pid: 103, Text: "front", Witness: true},
	}
	life := func(key, node, token, start, last int64) lives.Life {
		return lives.Life{Key: key, Node: node, Pid: 100 + node, Token: token, Start: start * ms, Last: last * ms}
	}
	r := judge(acts, []lives.Life{
		life(1, 1, 1, 10, 4999), life(1, 0, 2, 6000, 19999), life(1, 2, 3, 21500, 30000), // of both that died
		life(2, 2, 1, 10, 20700), life(2, 2, 2, 21000, 30000), // of a living one, that was not renewed
		life(3, 2, 1, 10, 30000),                              // untouched
		life(4, 1, 1, 10, 3000),                               // given up before
		life(5, 3, 1, 10, 40001), life(5, 2, 2, 40003, 50000), // of one whose witness has spoken
	}, nil, []told{{At: 20700 * ms, Kind: "ended", Node: 2, Key: "2", Reason: elect.ReasonExpired}, {Kind: "coordinates"}})
	silent := Takeovers{[]time.Duration{time.Second}, []time.Duration{1500 * time.Millisecond}}
	spoken := Takeovers{Member: []time.Duration{3 * time.Millisecond}}
	if !reflect.DeepEqual(r.Silent, silent) || !reflect.DeepEqual(r.Spoken, spoken) || r.Killed["front"] != 1 {
		t.Errorf("takeovers: %+v, and with a witness %+v, killed %v; want %+v and %+v", r.Silent, r.Spoken, r.Killed, silent, spoken)
	}
	if r.Deaths != 1 || r.Living != 3 || r.Interrupted != 1 || r.QuietDeaths != 1 || r.QuietLiving != 3 || r.QuietInterrupted != 1 || r.Terms != 1 {
		t.Errorf("%+v; want one death that interrupted one of two keys of a living member", r)
	}
}

// TestDraw: a seed draws the same faults again, all kinds come, and those that were asked for only.
func TestDraw(t *testing.T) {
	all := draw(1, time.Hour, time.Second, nil)
	if !slices.Equal(all, draw(1, time.Hour, time.Second, nil)) || slices.Equal(all, draw(2, time.Hour, time.Second, nil)) {
		t.Error("a seed does not decide what is drawn")
	}
	came := map[string]int{}
	for _, e := range all {
		came[e.name]++
	}
	for _, f := range Faults() {
		if came[f.Name] == 0 {
			t.Errorf("%s never comes", f.Name)
		}
		if Check("group-file", []string{f.Name}) != nil {
			t.Errorf("%s is not known", f.Name)
		}
	}
	for _, e := range draw(1, time.Minute, time.Second, []string{"move"}) {
		if e.name != "move" {
			t.Errorf("%s comes; want move only", e.name)
		}
	}
	if Check("group-file", []string{"nosuch"}) == nil || Check("nosuch", nil) == nil {
		t.Error("unknown names are accepted")
	}
}

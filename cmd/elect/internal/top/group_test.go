package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/group"
)

// status is a group with so many keys, some of them held, and a coordinator that has begun so many moves.
func status(coordinator string, keys, held int, moves uint64) group.Status {
	return group.Status{
		Group: "shards", Coordinator: coordinator, Token: 7, Keys: keys, Held: held, Moving: 2, Moves: moves,
		Members: []group.Member{
			{ID: "web-2", Address: "10.0.0.2:4711", Attached: true, Admitted: true, Weight: 100, Zone: "b", Keys: held / 2},
			{ID: "web-1", Address: "the coordinator itself", Attached: true, Admitted: true, Weight: 100, Zone: "a", Keys: held - held/2},
			{ID: "web-3\x1b[31m", Address: "10.0.0.3:4711", Weight: 50},
		},
	}
}

func left(a, b time.Duration) map[string]time.Duration {
	return map[string]time.Duration{"web-1": a, "web-2": b}
}

// TestGroupAlerts: each rule for groups fires when its condition has held for its time, and not before.
func TestGroupAlerts(t *testing.T) {
	for name, c := range map[string]struct {
		say func(g *Group, now time.Time, second int)
		at  time.Duration
	}{
		"ElectGroupNoCoordinator": {func(g *Group, now time.Time, _ int) {
			g.Apply(group.Status{}, nil, now, fmt.Errorf("asking: %w", elect.ErrNoLeader))
		}, time.Minute},
		"ElectGroupKeysUnowned": {func(g *Group, now time.Time, _ int) {
			g.Apply(status("web-1", 9, 8, 0), left(3*time.Second, 3*time.Second), now, nil)
		}, time.Minute},
		"ElectGroupSlackLow": {func(g *Group, now time.Time, second int) {
			d := 3 * time.Second
			if second > 100 {
				d = 1700 * time.Millisecond // less than 0.6 of it
			}
			g.Apply(status("web-1", 9, 9, 0), left(3*time.Second, d), now, nil)
		}, 5*time.Minute + 134*time.Second}, // a quarter of 134 samples is low
		"": {func(g *Group, now time.Time, second int) {
			g.Apply(status("web-1", 9, 9, 0), left(3*time.Second, 1900*time.Millisecond), now, nil)
		}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGroup("group+file:/x")
			for second := range 10 * 60 {
				now := noon().Add(time.Duration(second) * time.Second)
				c.say(g, now, second)
				g.Judge(now)
				if want := now.Sub(noon()) >= c.at; slices.ContainsFunc(g.alerts, func(a Alert) bool { return a.Alert == name }) != want || !want && len(g.alerts) > 0 {
					t.Fatalf("after %v: %+v; want %s from %v on", now.Sub(noon()), g.alerts, name, c.at)
				}
			}
		})
	}
}

// TestGroupRate: moves are counted under one coordinator, within the last seconds.
func TestGroupRate(t *testing.T) {
	g := NewGroup("group+file:/x")
	for i, c := range []struct {
		of    string
		moves uint64
		want  string
	}{
		{"web-1", 100, "-"}, {"web-1", 100, "0.0"}, {"web-1", 130, "15.0"}, {"web-2", 5, "-"}, {"web-2", 6, "1.0"},
	} {
		g.Apply(status(c.of, 9, 9, c.moves), nil, noon().Add(time.Duration(i)*time.Second), nil)
		if s := g.summary()[1]; !strings.HasSuffix(s, "moves/s "+c.want) {
			t.Errorf("after %d moves of %s: %s; want %s", c.moves, c.of, s, c.want)
		}
	}
	for i := range 20 {
		g.Apply(status("web-2", 9, 9, 6), nil, noon().Add(time.Duration(5+i)*time.Second), nil)
	}
	if s := g.summary()[1]; !strings.HasSuffix(s, "moves/s 0.0") {
		t.Errorf("long after the last move: %s", s)
	}
}

// TestGroupPictures compares pictures with the files of testdata; -rewrite writes them.
func TestGroupPictures(t *testing.T) {
	g := NewGroup("group+file:/var/lib/myjob")
	v := &View{}
	asPictured(t, "group-none-80x24", g.Picture(v, noon(), 80, 24), 80, 24)
	for i := range 3 {
		now := noon().Add(time.Duration(i*40) * time.Second)
		g.Apply(status("web-1", 1000, 997, uint64(i*40*12)), left(2900*time.Millisecond, 2400*time.Millisecond), now, nil)
		g.Judge(now)
	}
	now := noon().Add(80 * time.Second)
	g.Apply(status("web-1", 1000, 997, 990), left(2900*time.Millisecond, 2400*time.Millisecond), now.Add(time.Second), nil)
	asPictured(t, "group-80x24", g.Picture(v, now, 80, 24), 80, 24)
	v.Key("s")
	v.Colour = true
	asPictured(t, "group-keys-120x12", g.Picture(v, now, 120, 12), 120, 12)
	g.Apply(group.Status{}, nil, now, errors.New("gone"))
	asPictured(t, "group-silent-20x6", g.Picture(v, now, 20, 6), 20, 6)
	if text := fmt.Sprint(strings.Join(g.Picture(v, now, 120, 12), "\n")); !strings.Contains(text, "no answer: gone") || !strings.Contains(text, "web-2") {
		t.Errorf("without an answer the last one is not shown:\n%s", text)
	}
	text, err := json.Marshal(g.Document(now))
	for _, want := range []string{`"unowned":3`, `"moves":990`, `"slack_ms":2400`, `"alert":"ElectGroupKeysUnowned"`, `"id":"web-2","address"`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %s; want %s", err, text, want)
		}
	}
}

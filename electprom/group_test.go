package electprom_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/group"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/store/memory"
)

// gathered is the series of a collector, without the label group.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var name strings.Builder
			name.WriteString(f.GetName())
			for _, l := range m.Label {
				if l.GetName() != "group" {
					name.WriteString(" " + l.GetValue())
				}
			}
			all[name.String()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// TestGroup: each member tells of itself, and the coordinator of all.
func TestGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	join := func(id string) *group.Group {
		e, err := openers.Open(ctx, "memory:", "shards", elect.Config{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		g, err := group.Join(ctx, e, group.Config{ID: id, Keys: group.Range(4), Placement: func() (placement.Placer, error) {
			return placement.New(placement.Settings{Quiet: -1})
		}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = g.Run(context.Background(), func(ctx context.Context, _ *group.Shard) error { <-ctx.Done(); return nil })
		}()
		t.Cleanup(func() {
			_ = g.Close()
			<-ended
		})
		return g
	}
	until := func(g *group.Group, is func(group.Status) bool) {
		t.Helper()
		for s, err := range g.Watch(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if is(s) {
				return
			}
		}
	}
	a := join("m1")
	until(a, func(s group.Status) bool { return s.Held == 4 })
	b := join("m2")
	until(b, func(s group.Status) bool {
		return len(s.Members) == 2 && s.Members[0].Keys == 2 && s.Members[1].Keys == 2 && s.Moving == 0
	})
	if err := a.Move(ctx, "0", "m9"); err == nil {
		t.Fatal("a move to nobody was accepted")
	}

	slack := func(all map[string]float64) {
		const name = "elect_group_session_slack_seconds"
		if all[name] <= 0 || all[name] > 3 {
			t.Errorf("%s is %v; want more than 0 and less than the promise of 3 s", name, all[name])
		}
		delete(all, name)
	}
	all := gathered(t, electprom.NewGroup("shards", a))
	slack(all)
	want := map[string]float64{
		"elect_group_keys": 4, "elect_group_keys_unowned": 0, "elect_group_keys_held": 2, "elect_group_is_coordinator": 1,
		"elect_group_member_keys m1": 2, "elect_group_member_keys m2": 2, "elect_group_moves_total free": 4, "elect_group_moves_total load": 2,
	}
	if !maps.Equal(all, want) {
		t.Errorf("the coordinator tells %v;\nwant %v", all, want)
	}
	all = gathered(t, electprom.NewGroup("shards", b))
	slack(all)
	if want := map[string]float64{"elect_group_keys_held": 2, "elect_group_is_coordinator": 0}; !maps.Equal(all, want) {
		t.Errorf("the other one tells %v;\nwant %v", all, want)
	}
	if n := fmt.Sprint(len(gathered(t, electprom.NewGroup("\xff", b)))); n != "3" {
		t.Errorf("with a name that is no UTF-8 there are %s series; want 3", n)
	}
}

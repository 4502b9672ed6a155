package sim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// faults keeps the faults of halted machines.
type faults map[string]string

func (f faults) Event(_ *sim.World, r *sim.Record) {
	if r.Kind == sim.RecordStep && r.View.Fault != "" {
		f[string(r.Node)] = r.View.Fault
	}
}

// TestSessionsTooShort: ZooKeeper's servers shorten a session below the hold. Then there is no leader,
// and all report why (Q6).
func TestSessionsTooShort(t *testing.T) {
	for config, halts := range map[string]bool{
		`{"ttl":100000000000,"hold":50000000000,"max_hold":50000000000}`: true,
		`{"ttl":100000000000,"hold":40000000000,"max_hold":50000000000}`: false,
	} {
		p, ok := protocols.ByName("queue-zookeeper")
		if !ok {
			t.Fatal("no queue-zookeeper")
		}
		s, err := sim.Generate(p, 1, sim.Options{Profile: "quiet", Nodes: 3, Settle: -1, Config: json.RawMessage(config)})
		if err != nil {
			t.Fatal(err)
		}
		w, err := sim.New(p, s)
		if err != nil {
			t.Fatal(err)
		}
		f := faults{}
		w.Trace(f)
		w.Run()
		r := w.Result()
		if halted := len(f) == 3 && r.Stats.Elections == 0; halted != halts {
			t.Errorf("%s: %d elections, faults %v; want all to halt: %v", config, r.Stats.Elections, f, halts)
		}
		for node, says := range f {
			if !strings.Contains(says, "maxSessionTimeout") {
				t.Errorf("%s: %s says %q", config, node, says)
			}
		}
	}
}

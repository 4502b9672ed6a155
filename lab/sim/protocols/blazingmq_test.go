package protocols_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// A term that is not durable lets two lead in one term. A durable one does not, except where a
// voter's disk was wiped.
func TestBlazingMQDurable(t *testing.T) {
	for _, durable := range []bool{false, true} {
		config, err := json.Marshal(map[string]bool{"durable": durable})
		if err != nil {
			t.Fatal(err)
		}
		twice := 0
		for seed := range uint64(150) {
			p, _ := protocols.ByName(blazingmq.Name)
			s, err := sim.Generate(p, seed+1, sim.Options{Profile: "storm", Config: config})
			if err != nil {
				t.Fatal(err)
			}
			w, err := sim.New(p, s)
			if err != nil {
				t.Fatal(err)
			}
			w.Run()
			r := w.Result()
			if wiped(s) {
				continue
			}
			for _, inv := range []sim.Invariant{sim.OneLeader, sim.Once, sim.NoStale} {
				if f := r.Failure(inv); f != nil {
					twice++
					if durable {
						t.Errorf("seed %d: %s: %s", seed+1, inv, f.Says)
					}
				}
			}
		}
		if !durable && twice == 0 {
			t.Error("no run has two leaders in one term")
		}
	}
}

func wiped(s *sim.Schedule) bool {
	for i := range s.Ops {
		if s.Ops[i].Kind == sim.OpWipe {
			return true
		}
	}
	return false
}

func TestBlazingMQDetects(t *testing.T) {
	for _, name := range []string{"blazingmq", "blazingmq-sticky", "blazingmq-naive"} {
		p, ok := protocols.ByName(name)
		if !ok {
			t.Fatalf("no protocol %s", name)
		}
		config, err := p.Detects(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := p.Silence(config); err != nil || d != time.Second {
			t.Errorf("%s: a silence of %v, %v; want 1s", name, d, err)
		}
		if _, err := p.New(participant(config)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d, err := p.Silence(nil); err != nil || d != 6*time.Second {
			t.Errorf("%s: a silence of %v, %v; want three heartbeats of 2 s", name, d, err)
		}
		for _, d := range []time.Duration{0, -1, 1000 * time.Hour} {
			if _, err := p.Detects(d); err == nil {
				t.Errorf("%s: a leader can be noticed after %v", name, d)
			}
		}
		if _, err := p.New(participant(json.RawMessage(`{"mode": "sly"}`))); err == nil || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%s: another mode: %v", name, err)
		}
	}
}

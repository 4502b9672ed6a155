package blazingmq

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// TestRandom runs small clusters through cuts, crashes, losses and commands. The world checks
// orders and reloads. The test checks that there is one vote and one leader in a term where no vote
// is forgotten, and that all follow one leader after the faults have ended.
func TestRandom(t *testing.T) {
	seeds := long.Or(60, 12)
	for _, mode := range []Mode{Scouting, Sticky, Naive} {
		for _, durable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/durable=%t", mode, durable), func(t *testing.T) {
				for seed := range uint64(seeds) {
					random(t, seed, Config{Mode: mode, Durable: durable})
				}
			})
		}
	}
}

func random(t *testing.T, seed uint64, cfg Config) {
	w := newWorld(t, seed, int(1+seed%6), cfg)
	w.Delay = func() time.Duration { return time.Duration(w.rng.Int64N(int64(20 * time.Millisecond))) }
	w.start()
	restarts := false
	for range 60 {
		w.Run(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		o := w.nodes[w.rng.IntN(len(w.nodes))]
		switch w.rng.IntN(8) {
		case 0:
			w.cut[[2]int{n.i, o.i}] = true
		case 1, 2:
			clear(w.cut)
		case 3:
			w.isolate(n.i, true)
		case 4:
			w.loss = [...]float64{0, 0, 0.1, 0.5}[w.rng.IntN(4)]
		case 5:
			if n.Up {
				n.crash(w.rng.IntN(2) == 0)
			} else {
				restarts = true
				n.start()
			}
		case 6:
			if n.Up {
				n.do([...]protocol.Verb{protocol.Resign, protocol.Sicken, protocol.Recover, protocol.Withdraw, protocol.Campaign}[w.rng.IntN(5)])
			}
		case 7:
			if n.Up {
				n.give(protocol.Input{Kind: protocol.Fire})
			}
		}
	}
	if cfg.Durable || !restarts {
		for key, who := range w.votes {
			if len(who) > 1 {
				t.Fatalf("seed %d: n%d supports %v in term %d", seed, key[0]+1, who, key[1])
			}
		}
		for term, who := range w.leaders {
			if len(who) > 1 {
				t.Fatalf("seed %d: %v lead in term %d", seed, who, term)
			}
		}
	}
	w.loss = 0
	clear(w.cut)
	for _, n := range w.nodes {
		if !n.Up {
			n.start()
		}
		n.do(protocol.Campaign)
		n.do(protocol.Recover)
	}
	if cfg.Durable || !restarts {
		w.until(3*time.Minute, w.agreed)
	} else {
		w.Run(3 * time.Minute)
	}
}

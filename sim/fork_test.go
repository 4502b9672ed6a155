package sim_test

import (
	"reflect"
	"testing"

	"github.com/electd/elect/sim"
	"github.com/electd/elect/sim/protocols"
)

// A fork of a world with real machines and stores goes on as the original does,
// and two that go on side by side do not disturb each other.
func TestForkOfProtocols(t *testing.T) {
	for _, p := range protocols.All() {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(4) {
				s, err := sim.Generate(p, 100+seed, sim.Options{Observers: int(seed % 2)})
				if err != nil {
					t.Fatal(err)
				}
				want := run(t, p, s)
				w, err := sim.New(p, s)
				if err != nil {
					t.Fatal(err)
				}
				var forks []*sim.World
				for i := uint64(0); w.Step(); i++ {
					if i%(want.Events/8+1) == 0 {
						f := w.Fork()
						for range 200 {
							f.Step()
						}
						forks = append(forks, f)
					}
				}
				for i, f := range append(forks, w) {
					f.Run()
					if got := f.Result(); got.Hash != want.Hash || !reflect.DeepEqual(got, want) {
						t.Errorf("seed %d, fork %d: %x, want %x", s.Seed, i, got.Hash, want.Hash)
					}
				}
			}
		})
	}
}

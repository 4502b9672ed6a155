package sim_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/lab/sim"
)

// A fork of a world with real machines and stores continues as the original does, and two that run
// side by side do not affect each other.
func TestForkOfProtocols(t *testing.T) {
	for _, p := range everything() {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range few(4) {
				s, err := sim.Generate(p, 100+seed, sim.Options{Observers: observers(p, int(seed%2)), Profile: [...]string{"swarm", "members"}[seed/2]})
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

// moment is all that is compared of a world.
type moment struct {
	hash   uint64
	state  []byte
	result *sim.Result
}

func momentOf(w *sim.World) moment { return moment{w.Hash(), w.AppendState(nil), w.Result()} }

func (m *moment) check(t *testing.T, what string, w *sim.World, event uint64) {
	t.Helper()
	switch got := momentOf(w); {
	case w.Events() != event:
		t.Fatalf("%s: event %d; want %d", what, w.Events(), event)
	case got.hash != m.hash || !bytes.Equal(got.state, m.state) || !reflect.DeepEqual(got.result, m.result):
		t.Fatalf("%s: event %d differs from that of a run that stops there", what, event)
	}
}

// A history has each event exactly as a new run that stops there: to the last bit of every machine,
// disk and store. The worlds that it returns may be driven at the same time.
func TestHistoryOfProtocols(t *testing.T) {
	for _, p := range everything() {
		t.Run(p.Name, func(t *testing.T) {
			patience, err := p.Patience(nil)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range few(3) {
				s, err := sim.Generate(p, 200+seed, sim.Options{Observers: observers(p, int(seed%2)), Faults: 20 * patience})
				if err != nil {
					t.Fatal(err)
				}
				end := run(t, p, s)
				r := rand.New(rand.NewPCG(seed, 1))
				want := map[uint64]*moment{0: nil, end.Events: nil}
				for range long.Or(400, 20) {
					want[r.Uint64N(end.Events)] = nil
				}
				// The walk back and forward is over events in a row.
				middle, row := end.Events/2, long.Or[uint64](100, 5)
				for i := range row {
					want[middle-i] = nil
				}
				w, err := sim.New(p, s)
				if err != nil {
					t.Fatal(err)
				}
				for more := true; more; more = w.Step() {
					if _, ok := want[w.Events()]; ok {
						m := momentOf(w)
						want[w.Events()] = &m
					}
				}
				last := momentOf(w)
				want[w.Events()] = &last

				if w, err = sim.New(p, s); err != nil {
					t.Fatal(err)
				}
				h := sim.Keep(w, 100)
				last.check(t, "the run", w, end.Events)
				var wg sync.WaitGroup
				for event, m := range want {
					w, err := h.At(event)
					if err != nil {
						t.Fatal(err)
					}
					m.check(t, "at", w, event)
					if event%16 == 0 { // running to the end takes time
						wg.Go(func() {
							if w.Run(); w.Hash() != last.hash || !bytes.Equal(w.AppendState(nil), last.state) {
								t.Errorf("event %d goes on to another end", event)
							}
						})
					}
				}
				if _, err := h.At(middle); err != nil {
					t.Fatal(err)
				}
				walk := func(what string, event uint64, step func() (*sim.World, error)) {
					w, err := step()
					if err != nil {
						t.Fatal(err)
					}
					want[event].check(t, what, w, event)
				}
				for i := range row - 1 {
					walk("back", middle-i-1, h.Back)
				}
				for i := range row - 1 {
					walk("forward", middle-row+2+i, h.Forward)
				}
				wg.Wait()
			}
		})
	}
}

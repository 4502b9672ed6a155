package sim_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/hashes.txt anew")

// ground is one kind of world of the suite, and how many seeds of it are run.
type ground struct {
	name    string
	options sim.Options
	seeds   int
	script  func(s *sim.Schedule) // changes what was drawn, if not nil
}

// grounds are the worlds in which every change is tested: bounded work, the same each time.
func grounds(p *sim.Protocol) []ground {
	var all []ground
	for _, f := range sim.Profiles() {
		g := ground{name: f.Name, options: sim.Options{Profile: f.Name}, seeds: 40}
		if f.Name == "swarm" || f.Name == "storm" {
			g.seeds = 200
		}
		if p.Leaseless || isNaive(p) {
			g.seeds /= 4 // no work depends on them
		}
		all = append(all, g)
	}
	if n := observers(p, 2); n > 0 {
		all = append(all, ground{name: "observers", options: sim.Options{Observers: n}, seeds: 20})
	}
	switch p.Name {
	case "quorum":
		for n := 1; n <= sim.MaxNodes; n++ {
			all = append(all, ground{name: fmt.Sprintf("%d voters", n), options: sim.Options{Nodes: n}, seeds: 10})
		}
		all = append(all, ground{name: "a copy of a directory", seeds: 10, script: func(s *sim.Schedule) {
			s.Beyond = true
			s.Ops = append([]sim.Op{{At: 0, Kind: sim.OpTwin, Node: "n1"}}, s.Ops...)
		}}, ground{name: "three become five", options: sim.Options{Profile: "swarm", Nodes: 3, Spares: 5}, seeds: 40, script: becomeFive})
	default:
		all = append(all, storeGrounds(p.Name)...)
	}
	return all
}

// TestSuite runs every protocol in every kind of world. Every invariant that must hold holds, and
// every situation of the suite occurs.
func TestSuite(t *testing.T) {
	for _, p := range everything() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			var seen sim.Seen
			var stats sim.Stats
			var events uint64
			for _, g := range grounds(p) {
				for seed := range uint64(long.Or(g.seeds, max(g.seeds/20, 2))) {
					s, err := sim.Generate(p, seed+1, g.options)
					if err != nil {
						t.Fatalf("%s: %v", g.name, err)
					}
					if g.script != nil {
						g.script(s)
					}
					r := run(t, p, s)
					if r.Violation != nil {
						t.Errorf("%s, seed %d: %v\nelect sim run --protocol %s --seed %d --profile %s tells its story", g.name, s.Seed, r.Violation, p.Name, s.Seed, s.Profile)
						break
					}
					seen.Add(r.Seen)
					stats.Add(&r.Stats)
					events += r.Events
				}
			}
			t.Logf("%d events, %d elections, %d tenures in %v of virtual time", events, stats.Elections, stats.Tenures, stats.Time)
			if !long.Many() || isNaive(p) {
				return // too few runs to reach every situation
			}
			if p.Replaces != nil && (!seen.Has(sim.SawTwinReplaced) || !seen.Has(sim.SawTwinRefused)) {
				t.Error("the suite has never seen that two processes with one id were told apart")
			}
			for _, missing := range seen.Missing(p) {
				t.Errorf("the suite has never seen that %s (%s)", missing.Says(), missing)
			}
		})
	}
}

// TestMustFail: an invariant that a protocol is expected to violate is found violated, in few runs.
// A protocol that promises nothing under partition splits under partition; a naive lock, which no partition reaches
// that keeps its server, under all faults.
func TestMustFail(t *testing.T) {
	const seeds = 200
	for _, p := range everything() {
		for inv, expected := range p.Expect {
			if expected != sim.MustFail {
				continue
			}
			profile := "partitions"
			if isNaive(p) {
				profile = "swarm"
			}
			t.Run(p.Name+"/"+string(inv), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(seeds) {
					s, err := sim.Generate(p, seed+1, sim.Options{Profile: profile})
					if err != nil {
						t.Fatal(err)
					}
					if v := run(t, p, s).Failure(inv); v != nil {
						t.Logf("seed %d: %v", s.Seed, v)
						return
					}
				}
				t.Errorf("%s was not found failing in %d seeds", inv, seeds)
			})
		}
	}
}

// TestNaiveToken: a number beside a naive lock protects what it guards, and makes the lock no more exclusive.
func TestNaiveToken(t *testing.T) {
	for _, name := range []string{"naive-redis", "naive-update"} {
		config := json.RawMessage(`{"token": true}`)
		if name == "naive-update" {
			config = json.RawMessage(`{"token": true, "client_clock": true}`)
		}
		var stats sim.Stats
		for seed := range uint64(30) {
			p := byName(t, name)
			s, err := sim.Generate(p, seed+1, sim.Options{Config: config})
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, p, s)
			stats.Add(&r.Stats)
			if v := r.Failure(sim.OneLeader); v != nil {
				t.Errorf("%s, seed %d: %v", name, s.Seed, v)
			}
		}
		if stats.StaleAccepted != 0 || stats.StaleRefused == 0 || stats.Failures[sim.Exclusive] == 0 {
			t.Errorf("%s: %d stale writes accepted, %d refused, %d overlaps; want none, some and some", name, stats.StaleAccepted, stats.StaleRefused, stats.Failures[sim.Exclusive])
		}
	}
}

// TestBeyondTheModel breaks the assumption about clocks. Then the lease is no longer exclusive, and
// the simulator has to find that; and the token still protects.
func TestBeyondTheModel(t *testing.T) {
	for _, name := range []string{"quorum", "lease", "queue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := byName(t, name)
			var stats sim.Stats
			var config json.RawMessage
			if name == "queue" {
				config = json.RawMessage(`{"servers_mended": true}`) // a hold, on top of the TTL, hides such clocks
			}
			const seeds = 400
			for seed := range uint64(seeds) {
				s, err := sim.Generate(p, seed+1, sim.Options{
					Profile: "storm", Beyond: true, Only: []sim.OpKind{sim.OpRate, sim.OpPause, sim.OpIsolate, sim.OpStoreDown}, Config: config,
				})
				if err != nil {
					t.Fatal(err)
				}
				r := run(t, p, s)
				if r.Violation != nil {
					t.Fatalf("seed %d: %v", s.Seed, r.Violation)
				}
				stats.Add(&r.Stats)
				if r.Failure(sim.Exclusive) != nil && stats.StaleRefused > 0 {
					t.Logf("seed %d: %v; %d stale writes refused", s.Seed, r.Failure(sim.Exclusive), stats.StaleRefused)
					return
				}
			}
			t.Errorf("%d seeds with clocks beyond ρ: %d overlaps, %d stale writes refused; want both to be seen", seeds, stats.Failures[sim.Exclusive], stats.StaleRefused)
		})
	}
}

// TestBeyondEverything has all faults. Each schedule is excused for what its own faults break, and
// for nothing else.
func TestBeyondEverything(t *testing.T) {
	for _, p := range everything() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			seeds := 300
			if p.Leaseless || isNaive(p) {
				seeds = 60
			}
			for seed := range uint64(long.Or(seeds, seeds/20)) {
				s, err := sim.Generate(p, seed+1, sim.Options{Beyond: true})
				if err != nil {
					t.Fatal(err)
				}
				r := run(t, p, s)
				if r.Violation != nil {
					t.Fatalf("seed %d: %v\nelect sim run --beyond --protocol %s --seed %d tells its story", s.Seed, r.Violation, p.Name, s.Seed)
				}
			}
		})
	}
}

// TestSameSeedSameRun runs schedules twice at the same time, and once more from
// a fork in their middle.
func TestSameSeedSameRun(t *testing.T) {
	for _, p := range everything() {
		for seed := range few(4) {
			s, err := sim.Generate(p, seed+1, sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var results [3]*sim.Result
			var wg sync.WaitGroup
			for i := range results {
				wg.Go(func() { results[i] = run(t, p, s) })
			}
			wg.Wait()
			w, err := sim.New(p, s)
			if err != nil {
				t.Fatal(err)
			}
			var forks []*sim.World
			for n := uint64(0); w.Step(); n++ {
				if n%(results[0].Events/3+1) == results[0].Events/4 {
					forks = append(forks, w.Fork())
				}
			}
			want := w.Result()
			for _, f := range forks {
				f.Run()
				equal(t, fmt.Sprintf("%s, seed %d, a fork", p.Name, s.Seed), f.Result(), want)
			}
			for _, r := range results {
				equal(t, fmt.Sprintf("%s, seed %d, beside others", p.Name, s.Seed), r, want)
			}
		}
	}
}

func equal(t *testing.T, what string, got, want *sim.Result) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s: hash %016x after %d events; want %016x after %d", what, got.Hash, got.Events, want.Hash, want.Events)
	}
}

// TestHashes compares runs with those recorded in testdata/hashes.txt: with and without the race
// detector, on any computer. A change of the behaviour of a machine or the world changes hashes.
// Then rewrite the file with -rewrite, and give the reason in the commit.
func TestHashes(t *testing.T) {
	path := filepath.Join("testdata", "hashes.txt")
	var now strings.Builder
	for _, p := range protocols.All() {
		for seed := range uint64(5) {
			s, err := sim.Generate(p, seed+1, sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, p, s)
			fmt.Fprintf(&now, "%-16s seed %d  %016x  %d events\n", p.Name, s.Seed, r.Hash, r.Events)
		}
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if now.String() != string(was) {
		t.Errorf("runs are not what %s has recorded. If that is meant, run: go test ./lab/sim -run TestHashes -rewrite\n%s", path, now.String())
	}
}

// TestSchedules replays the schedules that once made something fail: a machine with a defect since
// fixed, or one with a rule switched off. Nothing fails any more.
func TestSchedules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "schedules", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schedules in testdata/schedules: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := sim.ParseSchedule(text)
			if err != nil {
				t.Fatal(err)
			}
			p := byName(t, s.Protocol)
			if r := run(t, p, s); r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}

// everything is all protocols, the naive locks included.
func everything() []*sim.Protocol { return slices.Concat(protocols.All(), protocols.Naive()) }

func isNaive(p *sim.Protocol) bool {
	return slices.ContainsFunc(protocols.Naive(), func(n *sim.Protocol) bool { return n.Name == p.Name })
}

// few is n, or one in a quick run.
func few(n uint64) uint64 { return long.Or(n, 1) }

// observers is n, or none for a protocol without observers: the classic ones.
func observers(p *sim.Protocol, n int) int {
	if p.Leaseless {
		return 0
	}
	return n
}

func byName(t *testing.T, name string) *sim.Protocol {
	t.Helper()
	p, ok := protocols.ByName(name)
	if !ok {
		t.Fatalf("no protocol %q", name)
	}
	return p
}

func run(t *testing.T, p *sim.Protocol, s *sim.Schedule) *sim.Result {
	t.Helper()
	w, err := sim.New(p, s)
	if err != nil {
		t.Error(err)
		return &sim.Result{}
	}
	w.Run()
	return w.Result()
}

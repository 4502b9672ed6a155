//go:build linux

package redis

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/network"
)

// seed is that of the schedules.
const seed = 24

// programs are what a run needs.
type programs struct{ elect, worker string }

func build(t *testing.T, tags ...string) programs {
	t.Helper()
	harness.Need(t, "redis-server", "redis-server")
	harness.Need(t, "redis-cli", "redis-tools")
	return programs{harness.Build(t, "../../../cmd/elect", tags...), harness.Build(t, "worker")}
}

// run runs a schedule on a system, and judges it.
func run(t *testing.T, p programs, s Setting, schedule []Fault) (Report, []Round) {
	t.Helper()
	s.Elect, s.Worker = p.elect, p.worker
	y, err := Start(s)
	if errors.Is(err, network.ErrUnable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if err := y.StartClients(); err != nil {
		t.Fatal(err)
	}
	var rounds []Round
	for i, f := range schedule {
		r := y.Do(f)
		t.Logf("sentinel=%v round %d: %s of node %d at %s: whole after %v, switched %v %s", s.Sentinel, i+1, f, r.Old, r.Began.Format("15:04:05.000"), r.Whole.Sub(r.Began).Round(time.Millisecond), r.Switched, r.Trouble)
		rounds = append(rounds, r)
		if r.Whole.IsZero() && y.settle(2*time.Minute) != nil {
			break
		}
	}
	y.StopClients()
	writes, err := y.writes()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := y.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return Judge(rounds, writes, keys, y.server), rounds
}

func setting(t *testing.T, name string) Setting {
	return Setting{DownAfter: time.Second, MaxLag: 2, Dir: filepath.Join(t.ArtifactDir(), name)}
}

// TestRecipe: the recipe fails over from each fault, and no old master takes a write that was sent after the switch.
func TestRecipe(t *testing.T) {
	long.Test(t, "it breaks real servers")
	p := build(t)
	s := setting(t, "recipe")
	schedule := []Fault{Kill, Empty, Planned, Cut}
	r, rounds := run(t, p, s, schedule)
	t.Logf("\n%v", r)
	check(t, r, rounds, len(schedule))
}

func check(t *testing.T, r Report, rounds []Round, n int) {
	t.Helper()
	for i, round := range rounds {
		if round.Trouble != "" {
			t.Errorf("round %d, %s: %s", i+1, round.Fault, round.Trouble)
		}
	}
	if len(rounds) < n || r[""].Switched < n {
		t.Errorf("of %d rounds %d were run, and %d switched", n, len(rounds), r[""].Switched)
	}
	if r[""].Old > 0 {
		t.Errorf("old masters have acknowledged %d writes that were sent after the switch", r[""].Old)
	}
	if of := r[Planned]; of != nil && of.Lost > 0 {
		t.Errorf("planned failovers have lost %d writes", of.Lost)
	}
}

// TestBeside runs one schedule at the recipe and at Redis Sentinel, at the same time, in networks of their own.
func TestBeside(t *testing.T) {
	long.Full(t, "100 failovers of each take half an hour")
	p := build(t)
	schedule := Schedule(seed, 13*len(Faults()))
	if n, err := strconv.Atoi(os.Getenv("REDIS_ROUNDS")); err == nil { // fewer, for somebody who looks at one
		schedule = schedule[:n]
	}
	c := conditions.Now()
	t.Run("systems", func(t *testing.T) {
		for _, sentinel := range []bool{false, true} {
			t.Run(map[bool]string{false: "recipe", true: "sentinel"}[sentinel], func(t *testing.T) {
				t.Parallel()
				s := setting(t, "run")
				s.Sentinel = sentinel
				r, rounds := run(t, p, s, schedule)
				t.Logf("sentinel: %v\n%v", sentinel, r)
				if !sentinel {
					check(t, r, rounds, len(schedule))
				}
			})
		}
	})
	c.LoadAfter = conditions.Load()
	t.Logf("%s, %d CPUs, load %.2f before, %.2f after", c.System, c.CPUs, c.LoadBefore[0], c.LoadAfter[0])
}

// TestTooth: without its fence, the recipe lets an old master take writes, which the judge sees.
func TestTooth(t *testing.T) {
	long.Full(t, "mutants are caught in fake time, too")
	p := build(t, "mutants")
	s := setting(t, "tooth")
	s.Mutant = mutation.NoFence
	r, _ := run(t, p, s, []Fault{Cut})
	t.Logf("\n%v", r)
	if r[""].Old == 0 {
		t.Error("an old master that is cut off took no write, although nothing fences it")
	}
}

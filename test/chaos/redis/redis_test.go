//go:build linux

package redis

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	if err := exec.Command("/usr/bin/python3", "-c", "import redis").Run(); err != nil {
		harness.Absent(t, "there is no redis-py; on Debian: apt-get install python3-redis")
	}
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
	for i := range Nodes {
		if err := y.listen(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.StartClients(); err != nil {
		t.Fatal(err)
	}
	var rounds []Round
	var losses Losses
	for i, f := range schedule {
		r := y.Do(f)
		if r.Whole.IsZero() && y.settle(2*time.Minute) != nil {
			rounds = append(rounds, r)
			t.Logf("sentinel=%v round %d: %s of node %d: %s", s.Sentinel, i+1, f, r.Old, r.Trouble)
			break
		}
		if err := y.Count(&r, &losses); err != nil {
			t.Error(err)
		}
		rounds = append(rounds, r)
		t.Logf("sentinel=%v round %d: %s of node %d at %s: whole after %v, switched %v, lost %d %s", s.Sentinel, i+1, f, r.Old, r.Began.Format("15:04:05.000"), r.Whole.Sub(r.Began).Round(time.Millisecond), r.Switched, r.Lost, r.Trouble)
	}
	if !s.Sentinel {
		if out, err := y.ask(); err != nil {
			t.Errorf("redis-py at the electors: %v\n%s", err, out)
		}
		y.heard(t)
	}
	y.StopClients()
	writes, err := y.writes()
	if err != nil {
		t.Fatal(err)
	}
	return Judge(rounds, writes, y.server), rounds
}

// heard checks what subscribers were told: redis-cli at each elector.
func (y *System) heard(t *testing.T) {
	t.Helper()
	var all strings.Builder
	for i := range Nodes {
		text, err := os.ReadFile(filepath.Join(y.dir(i), "events"))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, want := range []string{"+switch-master\nmymaster 10.", "+sdown\nmaster mymaster 10.", "-sdown\n", "+slave\nslave 10."} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no subscriber has got %q", want)
		}
	}
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

// TestFence: with a command that ends the old master, nobody waits until Redis has noticed that it is alone.
func TestFence(t *testing.T) {
	long.Full(t, "it breaks real servers, as TestRecipe does")
	p := build(t)
	s := setting(t, "fence")
	s.Fence = true
	schedule := Schedule(seed, 12, Cut, Freeze)
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
	var kinds []Fault // all, unless somebody looks at some
	for kind := range strings.FieldsFuncSeq(os.Getenv("REDIS_FAULTS"), func(r rune) bool { return r == ',' }) {
		kinds = append(kinds, Fault(kind))
	}
	schedule := Schedule(seed, 13*len(Faults()), kinds...)
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

// TestJudge: what is lost, what an old master takes, and how long clients wait is counted.
func TestJudge(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	server := func(node int) string { return "s" + strconv.Itoa(node) }
	client := []Write{
		{"a", true, at(0), at(1), "s0"},
		{"b", true, at(10), at(11), "s0"}, // lost
		{"c", false, at(20), at(500), "s0"},
		{"d", true, at(900), at(1000), "s1"}, // the switch
	}
	zombie := []Write{
		{"e", true, at(950), at(1100), "s0"},  // sent before the switch, and lost
		{"f", true, at(1200), at(1201), "s0"}, // sent after it, and lost
	}
	keys := map[string]bool{"a": true, "d": true}
	clients := [][]Write{client, zombie, nil, nil}
	var l Losses
	round := Round{Fault: Kill, Old: 0, Began: at(5), Mended: at(1500), Whole: at(2000), Switched: true}
	round.Lost = l.Round(clients, keys, round.Whole)
	if again := l.Round(clients, keys, round.Whole); again != 0 {
		t.Errorf("%d writes are lost twice", again)
	}
	got := *Judge([]Round{round}, clients, server)[Kill]
	if got.Lost != 3 || got.Old != 1 || got.OldKept != 1 || got.Acked != 5 || got.Gaps[0] != 989*time.Millisecond {
		t.Errorf("%+v; want 3 of 5 lost, 1 taken by the old master, 1 kept by it, and 989 ms without a write", got)
	}
}

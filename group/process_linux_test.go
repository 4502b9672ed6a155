package group

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/spawn"
)

// TestMain lets this program be a keeper, and a guarded member, besides the tests.
func TestMain(m *testing.M) {
	supervise.KeeperMain(Witness(WitnessConfig{}))
	if at := os.Getenv("GROUP_PROGRAM"); at != "" {
		program(at)
		return
	}
	if at := os.Getenv("GROUP_MEMBERS_AT"); at != "" {
		manyMembers(at)
		return
	}
	spawn.DefaultSignals()
	os.Exit(m.Run())
}

// program is a guarded member. It says which keys it gets and gives up, and when.
func program(at string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	guardian, err := supervise.Guard(supervise.GuardConfig{})
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	id := os.Getenv("GROUP_ID")
	keys, err := strconv.Atoi(os.Getenv("GROUP_KEYS"))
	check(err)
	promise, err := time.ParseDuration(os.Getenv("GROUP_PROMISE"))
	check(err)
	election, err := elect.Openers{"file": file.Open}.Open(ctx, at, "shards", elect.Config{ID: id})
	check(err)
	g, err := Join(ctx, election, Config{ID: id, Keys: Range(keys), Promise: promise, Guardian: guardian, Placement: eager})
	check(err)
	out := bufio.NewWriter(os.Stdout)
	var mu sync.Mutex
	say := func(what, key string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, what, key, time.Now().UnixNano())
	}
	flush := func() {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Flush()
	}
	say("program", strconv.Itoa(os.Getpid()))
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			flush()
		}
	}()
	_ = g.Serve(ctx, func(s *Shard) { say("began", s.Key()) }, func(s *Shard) { say("ended", s.Key()) })
	check(g.Close())
	flush()
}

// process is a program.
type process struct {
	id    string
	cmd   *exec.Cmd
	known chan struct{} // closed when pid is known

	mu    sync.Mutex
	pid   int // of the guarded program
	held  map[string]time.Time
	ended int
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

func startProgram(t testing.TB, at, id string, keys int, promise time.Duration) *process {
	p := &process{id: id, known: make(chan struct{}), held: map[string]time.Time{}}
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), "GROUP_PROGRAM="+at, "GROUP_ID="+id, fmt.Sprint("GROUP_KEYS=", keys), "GROUP_PROMISE="+promise.String())
	p.cmd.Stderr = t.Output()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, rest, _ := strings.Cut(lines.Text(), " ")
			key, ns, _ := strings.Cut(rest, " ")
			n, err := strconv.ParseInt(ns, 10, 64)
			if err != nil {
				continue // the last line of a process that was killed
			}
			p.mu.Lock()
			switch what {
			case "program":
				p.pid, _ = strconv.Atoi(key)
				close(p.known)
			case "began":
				p.held[key] = time.Unix(0, n)
			case "ended":
				delete(p.held, key)
				p.ended++
			}
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// kill kills the program, or its front, at once.
func (p *process) kill(t testing.TB, front bool) {
	<-p.known
	pid := p.pid
	if front {
		pid = p.cmd.Process.Pid
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func shares(all []*process) (n []int) {
	for _, p := range all {
		n = append(n, p.count())
	}
	return n
}

// trio starts three programs, and waits until each has its share of the keys.
func trio(t testing.TB, keys int, promise time.Duration) []*process {
	at := "file:" + t.TempDir()
	var all []*process
	for i := range 3 {
		all = append(all, startProgram(t, at, name(i+1), keys, promise))
		if i == 0 {
			harness.Eventually(t, "all keys at the first", func() bool { return all[0].count() == keys })
		}
	}
	harness.Eventually(t, "a third each", func() bool {
		n := shares(all)
		return n[0]+n[1]+n[2] == keys && slices.Max(n)-slices.Min(n) <= 1
	})
	return all
}

// TestWitness: when a program is dead, or its front, its keeper says so, and its keys are held by others long before its
// promise is over: also when it was the coordinator. Nobody else loses one.
func TestWitness(t *testing.T) {
	const keys, promise = 300, 6 * time.Second
	all := trio(t, keys, promise)
	for _, dies := range []struct {
		who   int
		front bool
	}{{2, true}, {0, false}} {
		dead := all[dies.who]
		var ended int
		rest := slices.DeleteFunc(slices.Clone(all), func(p *process) bool { return p == dead })
		for _, p := range rest {
			p.mu.Lock()
			ended -= p.ended
			p.mu.Unlock()
		}
		killed := time.Now()
		dead.kill(t, dies.front)
		harness.Eventually(t, "the keys of the dead to be held", func() bool {
			n := 0
			for _, p := range rest {
				n += p.count()
			}
			return n == keys
		})
		took := time.Since(killed)
		t.Logf("%s died, and others had its keys after %v", dead.id, took)
		if took > promise/2 {
			t.Errorf("the keys of %s were held after %v; want it long before the end of its promise of %v", dead.id, took, promise)
		}
		for _, p := range rest {
			p.mu.Lock()
			ended += p.ended
			p.mu.Unlock()
		}
		if ended != 0 {
			t.Errorf("%s died, and others gave %d keys up", dead.id, ended)
		}
		all = rest
	}
}

// BenchmarkKilled is a third of 100,000 keys whose program is killed: until they are held by others, at the median and at
// the last.
func BenchmarkKilled(b *testing.B) {
	const keys = 99_999
	for b.Loop() {
		b.StopTimer()
		all := trio(b, keys, 10*time.Second)
		dead := all[2]
		b.StartTimer()
		killed := time.Now()
		dead.kill(b, false)
		harness.Eventually(b, "the keys of the dead", func() bool { return all[0].count()+all[1].count() == keys })
		b.StopTimer()
		var after []time.Duration
		for _, p := range all[:2] {
			p.mu.Lock()
			for _, at := range p.held {
				if at.After(killed) {
					after = append(after, at.Sub(killed))
				}
			}
			p.mu.Unlock()
		}
		slices.Sort(after)
		b.ReportMetric(float64(len(after)), "keys")
		b.ReportMetric(after[len(after)/2].Seconds()*1e3, "ms-median")
		b.ReportMetric(after[len(after)-1].Seconds()*1e3, "ms-last")
		b.StartTimer()
	}
	b.Log("load", *conditions.Load())
}

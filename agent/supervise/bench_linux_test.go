package supervise_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// BenchmarkStart is from Start to the first write of a command that is as
// small as can be had everywhere, without and with a spare keeper, under a lease, in a cgroup, and with a network guard.
// The family's end is not in it, nor is the making of the spare.
func BenchmarkStart(b *testing.B) {
	for _, spare := range []bool{false, true} {
		b.Run(fmt.Sprintf("spare=%t", spare), func(b *testing.B) { benchmarkStart(b, spare, nil, nil) })
		b.Run(fmt.Sprintf("spare=%t,lease", spare), func(b *testing.B) {
			benchmarkStart(b, spare, nil, func() (time.Duration, bool) { return time.Minute, true })
		})
		b.Run(fmt.Sprintf("spare=%t,cgroup", spare), func(b *testing.B) {
			c, _ := contain(b)
			benchmarkStart(b, spare, c, nil)
		})
		b.Run(fmt.Sprintf("spare=%t,guard", spare), func(b *testing.B) {
			c, _ := guardNetwork(b)
			benchmarkStart(b, spare, c, nil)
		})
	}
}

func benchmarkStart(b *testing.B, spare bool, contained *supervise.Containment, lease func() (time.Duration, bool)) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := supervise.Command{Path: "/bin/echo", Args: []string{"echo"}, Env: os.Environ(), Stdout: w, Containment: contained}.With(supervise.Held{Lease: lease})
	var one [1]byte
	for b.Loop() {
		b.StopTimer()
		if spare {
			if c.Spare, err = supervise.Prepare(contained, nil); err != nil {
				b.Fatal(err)
			}
			eventually(b, "the spare waits", c.Spare.Waits)
		}
		b.StartTimer()
		f, err := supervise.Start(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(r, one[:]); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		f.Wait()
		b.StartTimer()
	}
}

// BenchmarkSweep is from Kill to Done, with a family of four, two of which
// have a session of their own.
func BenchmarkSweep(b *testing.B) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := supervise.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 100 & setsid sh -c 'sleep 100 & echo; wait' & wait"}, Env: os.Environ(), Stdout: w}
	var one [1]byte
	for b.Loop() {
		b.StopTimer()
		f, err := supervise.Start(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(r, one[:]); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		f.Kill()
		f.Wait()
	}
}

// BenchmarkGone is what a leader's check of a side effect pays.
func BenchmarkGone(b *testing.B) {
	f, err := supervise.Start(context.Background(), supervise.Command{Path: "/bin/sleep", Args: []string{"sleep", "100"}})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Wait()
	defer f.Kill()
	for b.Loop() {
		if f.Gone() {
			b.Fatal("gone")
		}
	}
}

// BenchmarkWitness is from the killing of a parent, with a family of one, until
// its keeper's witness speaks.
func BenchmarkWitness(b *testing.B) {
	exe := program(b)
	dir := openDir(b)
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		w := newTestament(b)
		path := filepath.Join(dir, "board")
		for name, size := range map[string]int{path: 8192, filepath.Join(dir, "held"): 0} {
			if err := os.WriteFile(name, make([]byte, size), 0o666); err != nil {
				b.Fatal(err)
			}
		}
		board, err := openBoard(path)
		if err != nil {
			b.Fatal(err)
		}
		cmd := startPart(b, exe, "parent", nil, append(w.args("speaks"), "board="+path, "lock="+filepath.Join(dir, "held"), "command=member", "place=0")...)
		w.line("prepared")
		eventually(b, "the family lives", func() bool { return board.Parent.Load() != 0 })
		b.StartTimer()
		before := clock.Now()
		if err := cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		took = append(took, w.spoke().Sub(before))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "ms/p90")
}

package supervise_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/electd/elect/agent/supervise"
)

// BenchmarkStart is from Start to the first write of a command that is as
// small as can be had everywhere. The family's end is not in it.
func BenchmarkStart(b *testing.B) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := supervise.Command{Path: "/bin/echo", Args: []string{"echo"}, Env: os.Environ(), Stdout: w}
	var one [1]byte
	for b.Loop() {
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

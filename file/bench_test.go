//go:build linux || darwin || freebsd

package file

import (
	"context"
	"testing"
)

// BenchmarkHandover is from a release to the next victory, with the next
// candidate asleep in the queue, and so with one write that waits for the disk.
func BenchmarkHandover(b *testing.B) {
	dir := b.TempDir()
	electors := []*Elector{elector(b, dir, "a"), elector(b, dir, "c")}
	m := campaign(b, electors[0])
	i := 0
	for b.Loop() {
		i++
		b.StopTimer()
		won := stand(b.Context(), electors[i%2])
		waiting(b, 1)
		b.StartTimer()
		if err := m.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
		v := <-won
		if v.err != nil {
			b.Fatal(v.err)
		}
		m = v.m
	}
	release(b, m)
}

// BenchmarkVictory is a campaign without a rival, and the release.
func BenchmarkVictory(b *testing.B) {
	e := elector(b, b.TempDir(), "a")
	release(b, campaign(b, e))
	for b.Loop() {
		release(b, campaign(b, e))
	}
}

func BenchmarkCheck(b *testing.B) {
	m := lead(b, elector(b, b.TempDir(), "a"))
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLeader is a first look, from nothing.
func BenchmarkLeader(b *testing.B) {
	e := elector(b, b.TempDir(), "a")
	lead(b, e)
	for b.Loop() {
		if s := observe(b, e); s.Leader == nil {
			b.Fatal("no leader")
		}
	}
}

// BenchmarkLook is each later look.
func BenchmarkLook(b *testing.B) {
	e := elector(b, b.TempDir(), "a")
	lead(b, e)
	r := newReader(e.path, e.cfg.Logger)
	defer r.close()
	r.look()
	b.ReportAllocs()
	for b.Loop() {
		if r.look() {
			b.Fatal("a change")
		}
	}
}

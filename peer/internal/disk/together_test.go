//go:build linux || darwin || freebsd

package disk

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSaveTogether is a save of each of N elections of one host, all at once: as it is, with a file and a sync for
// each, and as a prototype, with one file whose sync they share. ns/op is until the last one is durable, ms/save the
// mean of all until each one's own is, and syncs/op the number of syncs.
func BenchmarkSaveTogether(b *testing.B) {
	data := make([]byte, 200)
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("own/%d", n), func(b *testing.B) {
			saves := make([]func() error, n)
			for i := range saves {
				d, err := Open(b.Context(), at(filepath.Join(b.TempDir(), fmt.Sprint(i))), owner)
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				saves[i] = func() error { return d.Save(data) }
			}
			saveTogether(b, saves)
			b.ReportMetric(float64(n), "syncs/op")
		})
		b.Run(fmt.Sprintf("shared/%d", n), func(b *testing.B) {
			g := newGroup(b, n)
			saves := make([]func() error, n)
			for i := range saves {
				number := uint64(0)
				saves[i] = func() error {
					number++
					return g.save(i, appendSlot(nil, slot{number, data}))
				}
			}
			saveTogether(b, saves)
			b.ReportMetric(float64(g.syncs)/float64(b.N), "syncs/op")
		})
	}
}

func saveTogether(b *testing.B, saves []func() error) {
	each := func() (sum time.Duration) {
		var total atomic.Int64
		var saving sync.WaitGroup
		start := time.Now()
		for _, save := range saves {
			saving.Go(func() {
				if err := save(); err != nil {
					b.Error(err)
				}
				total.Add(int64(time.Since(start)))
			})
		}
		saving.Wait()
		return time.Duration(total.Load())
	}
	each() // the first save of a directory writes more
	sum := time.Duration(0)
	for b.Loop() {
		sum += each()
	}
	b.ReportMetric(float64(sum)/float64(b.N*len(saves))/1e6, "ms/save")
}

// group is the prototype of a shared commit: a save writes its place in one file, and waits for a sync that begins
// after that. It has no directory of its own for an election, no mirror and no recovery.
type group struct {
	f     file
	syncs int
	wake  chan struct{}

	mu      sync.Mutex
	waiting []chan error
}

func newGroup(b *testing.B, n int) *group {
	d, err := Open(b.Context(), at(b.TempDir()), owner)
	if err != nil {
		b.Fatal(err)
	}
	f, err := d.at.Create("group")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, n*SlotSize), 0); err != nil {
		b.Fatal(err)
	}
	g := &group{f: f, wake: make(chan struct{}, 1)}
	var committing sync.WaitGroup
	committing.Go(g.commit)
	b.Cleanup(func() {
		close(g.wake)
		committing.Wait()
		_, _ = f.Close(), d.Close()
	})
	return g
}

func (g *group) save(place int, text []byte) error {
	if _, err := g.f.WriteAt(text, int64(place)*SlotSize); err != nil {
		return err
	}
	done := make(chan error, 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, done)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return <-done
}

func (g *group) commit() {
	for range g.wake {
		g.mu.Lock()
		served := g.waiting
		g.waiting = nil
		g.mu.Unlock()
		if len(served) == 0 {
			continue
		}
		g.syncs++
		err := g.f.Sync()
		for _, done := range served {
			done <- err
		}
	}
}

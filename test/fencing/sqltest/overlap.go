//go:build linux

package sqltest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/fence/fencesql"
)

// Overlap has a leader with token 1 write the resource orders in overlapping transactions, so that
// there is almost never a moment without one. A claim with token 2 gets its turn nevertheless, and
// the older leader is refused from then on. write is one transaction, of some 30 ms, and is called
// by eight goroutines until it fails.
func Overlap(t *testing.T, f *fencesql.Guard, write func(context.Context) error) {
	t.Helper()
	Claim(t, f, 1)
	ctx, stop := context.WithCancel(t.Context())
	const writers = 8
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	var written atomic.Int64
	ended := make(chan error, writers)
	for range writers {
		work.Go(func() {
			for {
				if err := write(ctx); err != nil {
					ended <- err
					return
				}
				written.Add(1)
			}
		})
	}
	for written.Load() < 10*writers { // all are at work
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	began, before := time.Now(), written.Load()
	err := f.Claim(ctx, 2)
	took, ahead := time.Since(began), written.Load()-before
	if err != nil {
		t.Fatalf("after %v and %d transactions of the older leader: %v", took, ahead, err)
	}
	t.Logf("the claim took %v, and %d transactions of the older leader went ahead of it", took, ahead)
	// Those that had the mark end before it, and some while it had not come to the queue
	// yet. Where nothing queues it is some hundreds to thousands, by chance.
	if ahead > 25*writers {
		t.Errorf("%d transactions of the older leader went ahead of the claim", ahead)
	}
	for range writers {
		Stale(t, <-ended, 1, 2)
	}
}

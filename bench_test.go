package elect_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// A leader asks this before each side effect.
func BenchmarkCheck(b *testing.B) {
	e, _ := stand(b, memory.NewStore(0), "a", elect.Config{})
	term := win(b, e)
	b.ReportAllocs()
	for b.Loop() {
		if err := term.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckInParallel(b *testing.B) {
	e, _ := stand(b, memory.NewStore(0), "a", elect.Config{})
	term := win(b, e)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := term.Check(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	e, _ := stand(b, memory.NewStore(0), "a", elect.Config{})
	term := win(b, e)
	for b.Loop() {
		term.Next()
	}
}

// One term from the campaign to the release, the bare library's part of a
// hand-over.
func BenchmarkCampaignAndRelease(b *testing.B) {
	e, _ := stand(b, memory.NewStore(0), "a", elect.Config{})
	b.ReportAllocs()
	for b.Loop() {
		term, err := e.Campaign(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := term.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// From a release to the victory of one that waits.
func BenchmarkHandover(b *testing.B) {
	store := memory.NewStore(0)
	var elections [2]*elect.Election
	for i := range elections {
		elections[i], _ = stand(b, store, fmt.Sprintf("n%d", i), elect.Config{})
	}
	term, err := elections[0].Campaign(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	won := make(chan *elect.Term)
	for i := 1; b.Loop(); i++ {
		go func() {
			next, err := elections[i%2].Campaign(b.Context())
			if err != nil {
				b.Error(err)
			}
			won <- next
		}()
		if err := term.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
		if term = <-won; term == nil {
			b.FailNow()
		}
	}
	_ = term.Release(b.Context())
}

// One change, seen by all of so many subscriptions.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			ctx, cancel := context.WithCancelCause(b.Context())
			// The driver shows each subscription its changes one by one.
			f, changes := newFake(), make([]chan driver.State, watchers)
			next := make(chan int, watchers)
			for i := range changes {
				changes[i] = make(chan driver.State)
				next <- i
			}
			f.observe = func(ctx context.Context) iter.Seq2[driver.State, error] {
				return func(yield func(driver.State, error) bool) {
					for mine := changes[<-next]; ; {
						select {
						case s := <-mine:
							if !yield(s, nil) {
								return
							}
						case <-ctx.Done():
							return
						}
					}
				}
			}
			e, err := elect.New(f, elect.Config{})
			if err != nil {
				b.Fatal(err)
			}
			var running, seen sync.WaitGroup
			for range watchers {
				running.Go(func() {
					for _, err := range e.Watch(ctx) {
						if err != nil {
							if !errors.Is(err, errWork) {
								b.Error(err)
							}
							return
						}
						seen.Done()
					}
				})
			}
			start, n := time.Now(), 0
			for b.Loop() {
				n++
				seen.Add(watchers)
				for _, c := range changes {
					c <- driver.State{Leader: &driver.Leader{Token: elect.Token(n)}}
				}
				seen.Wait()
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(n*watchers), "ns/watcher")
			cancel(errWork)
			running.Wait()
		})
	}
}

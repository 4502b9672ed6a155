package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked makes requests that take a time each, and knows them.
type asked struct {
	Batch[int, int]
	mu  sync.Mutex
	all [][]int
}

func newAsked(took func(all []int) time.Duration, err error) *asked {
	b := &asked{}
	b.Most = 10
	b.Ask = func(ctx context.Context, all []int) (answers []int, _ error) {
		b.mu.Lock()
		b.all = append(b.all, all)
		b.mu.Unlock()
		select {
		case <-time.After(took(all)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for _, q := range all {
			answers = append(answers, -q)
		}
		return answers, err
	}
	return b
}

// want waits for all answers, and compares the sizes of the requests.
func (b *asked) want(t *testing.T, work *sync.WaitGroup, sizes ...int) {
	t.Helper()
	work.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	got := []int{}
	for _, all := range b.all {
		got = append(got, len(all))
	}
	if fmt.Sprint(got) != fmt.Sprint(sizes) {
		t.Errorf("requests of %v; want %v", got, sizes)
	}
}

func (b *asked) do(t *testing.T, work *sync.WaitGroup, q int, soon <-chan struct{}) {
	work.Go(func() {
		if a, err := b.Do(t.Context(), q, soon); a != -q || err != nil {
			t.Errorf("%d is answered %d, %v", q, a, err)
		}
	})
	synctest.Wait()
}

// under is how many goroutines make requests.
func (b *asked) under() int {
	b.Batch.mu.Lock()
	defer b.Batch.mu.Unlock()
	return b.busy
}

func second([]int) time.Duration { return time.Second }

// TestBatch: those that wait go together, and a request that takes long keeps no other waiting.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAsked(func([]int) time.Duration { return slowAfter / 2 }, nil)
		var work sync.WaitGroup
		for q := range 2 + 25 {
			b.do(t, &work, q, nil)
		}
		b.want(t, &work, 1, 1, 10, 10, 5)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newAsked(second, nil)
		var work sync.WaitGroup
		begun := time.Now()
		for q := range 3 {
			b.do(t, &work, q, nil)
		}
		b.want(t, &work, 1, 1, 1)
		if took := time.Since(begun); took != slowAfter+time.Second {
			t.Errorf("all took %v", took)
		}
	})
}

// TestBatchPatience: a question waits for others until it is due, and goes with any that is.
func TestBatchPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAsked(second, nil)
		var work sync.WaitGroup
		early, late := make(chan struct{}), make(chan struct{})
		defer close(late)
		for q := range 4 {
			b.do(t, &work, q, late)
		}
		b.do(t, &work, 4, early)
		b.want(t, &sync.WaitGroup{})
		close(early)
		b.want(t, &work, 5)
		b.do(t, &work, 5, late)
		b.do(t, &work, 6, nil)
		b.want(t, &work, 5, 2)
	})
}

// TestBatchGivenUp: a question that was given up is not asked, a request ends when all of its callers have given up, and
// an error is for all of a request.
func TestBatchGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no")
		b := newAsked(func([]int) time.Duration { return time.Hour }, failed)
		b.Most = 1
		var work sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), slowAfter/2)
		defer cancel()
		for q := range 5 {
			work.Go(func() {
				if _, err := b.Do(ctx, q, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d: %v", q, err)
				}
			})
		}
		b.want(t, &work, 1, 1)
		synctest.Wait()
		b.Batch.mu.Lock()
		if b.busy != 0 || b.slow != 0 || b.due != 0 || len(b.queue) != 0 {
			t.Errorf("%d busy, %d slow, %d due, %d wait", b.busy, b.slow, b.due, len(b.queue))
		}
		b.Batch.mu.Unlock()
		if _, err := b.Do(t.Context(), 9, nil); !errors.Is(err, failed) {
			t.Errorf("%v; want the error of the request", err)
		}
	})
}

// TestBatchBound: requests that are not answered do not keep others from being made, up to a bound.
func TestBatchBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAsked(func(all []int) time.Duration {
			if all[0] == 0 {
				return time.Hour
			}
			return 0
		}, nil)
		b.Most = 1
		var hung, work sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for n := range 3 * mostUnderWay {
			hung.Go(func() { _, _ = b.Do(ctx, 0, nil) })
			<-time.After(slowAfter)
			synctest.Wait()
			if n+1 == mostUnderWay-1 { // there is room for one more
				begun := time.Now()
				b.do(t, &work, 1, nil)
				work.Wait()
				if took := time.Since(begun); took > slowAfter {
					t.Errorf("an answer after %v", took)
				}
			}
		}
		b.mu.Lock()
		if want := mostUnderWay + 1; len(b.all) != want {
			t.Errorf("%d requests; want %d", len(b.all), want)
		}
		b.mu.Unlock()
		cancel()
		hung.Wait()
		b.Wait()
	})
}

// TestBatchHeard: a request goes on while one of its callers waits, and ends with the last one, or with Life.
func TestBatchHeard(t *testing.T) {
	for name, last := range map[string]bool{"the last caller": true, "Life": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newAsked(func([]int) time.Duration { return time.Hour }, nil)
				var end context.CancelFunc
				b.Life, end = context.WithCancel(t.Context())
				defer end()
				soon := make(chan struct{})
				var ended [2]error
				var cancel [2]context.CancelFunc
				var work sync.WaitGroup
				for q := range 2 {
					var ctx context.Context
					ctx, cancel[q] = context.WithCancel(t.Context())
					defer cancel[q]()
					work.Go(func() { _, ended[q] = b.Do(ctx, q, soon) })
				}
				synctest.Wait()
				close(soon)
				synctest.Wait()
				cancel[0]()
				synctest.Wait()
				if ended[0] == nil || ended[1] != nil || b.under() != 1 {
					t.Errorf("%v, %v, %d requests are under way; want one that goes on", ended[0], ended[1], b.under())
				}
				if last {
					cancel[1]()
				} else {
					end()
				}
				b.Wait()
				work.Wait()
				if !errors.Is(ended[1], context.Canceled) {
					t.Errorf("%v; want the end", ended[1])
				}
			})
		})
	}
}

// TestBatchHalve: a caller whose question is refused does not disturb the others.
func TestBatchHalve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("no")
		b := newAsked(nil, nil)
		b.Halve = func(err error) bool { return errors.Is(err, refused) }
		b.Ask = func(_ context.Context, all []int) (answers []int, _ error) {
			for _, q := range all {
				if q == 7 {
					return nil, refused
				}
				answers = append(answers, -q)
			}
			return answers, nil
		}
		soon := make(chan struct{})
		var work sync.WaitGroup
		for q := range 10 {
			if q != 7 {
				b.do(t, &work, q, soon)
			}
		}
		work.Go(func() {
			if _, err := b.Do(t.Context(), 7, soon); !errors.Is(err, refused) {
				t.Errorf("%v; want that it is refused", err)
			}
		})
		synctest.Wait()
		close(soon)
		work.Wait()
	})
}

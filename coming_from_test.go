package elect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// The functions between the marks are the snippets of docs/coming-from.md, to the letter. The examples below run them.

// snippet: lead
func runs(ctx context.Context, election *elect.Election) error {
	return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		return work(ctx, term.Token()) // returns when ctx ends
	})
}

// end

// snippet: campaign
func once(ctx context.Context, election *elect.Election) error {
	term, err := election.Campaign(ctx)
	if err != nil {
		return err
	}
	err = work(term.Context(), term.Token()) // returns when its context ends
	return errors.Join(err, term.Release(ctx))
}

// end

// snippet: tick
func scheduled(ctx context.Context, election *elect.Election, ticks <-chan time.Time) error {
	return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		for {
			select {
			case <-ticks:
				if err := work(ctx, term.Token()); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// end

// snippet: elector
// Elector is what gocron calls one: a job runs where IsLeader returns nil.
type Elector struct{ term atomic.Pointer[elect.Term] }

func (e *Elector) IsLeader(context.Context) error {
	if term := e.term.Load(); term != nil {
		return term.Check() // by the clock, now: no I/O
	}
	return elect.ErrNotLeader
}

// Lead campaigns until ctx ends. stopJobs returns when no job runs any more.
func (e *Elector) Lead(ctx context.Context, election *elect.Election, stopJobs func() error) error {
	return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		e.term.Store(term)
		<-ctx.Done()
		e.term.Store(nil)
		return stopJobs()
	})
}

// end

// work is the work of the snippets.
func work(_ context.Context, token elect.Token) error {
	fmt.Println("works with token", token)
	return errors.New("done")
}

func Example_comingFrom() {
	ctx := context.Background()
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	fmt.Println(runs(ctx, election))
	fmt.Println(once(ctx, election))
	ticks := make(chan time.Time, 1)
	ticks <- time.Now()
	fmt.Println(scheduled(ctx, election, ticks))
	// Output:
	// works with token 1
	// done
	// works with token 2
	// done
	// works with token 3
	// done
}

// IsLeader of gocron's Elector, by Check.
func Example_gocron() {
	ctx, stop := context.WithCancel(context.Background())
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	var e Elector
	fmt.Println(errors.Is(e.IsLeader(ctx), elect.ErrNotLeader))
	ended := make(chan error)
	go func() {
		ended <- e.Lead(ctx, election, func() error { fmt.Println("the jobs have stopped"); return nil })
	}()
	for e.IsLeader(ctx) != nil {
		runtime.Gosched()
	}
	fmt.Println("leads")
	stop()
	fmt.Println(<-ended)
	fmt.Println(errors.Is(e.IsLeader(ctx), elect.ErrNotLeader))
	// Output:
	// true
	// leads
	// the jobs have stopped
	// context canceled
	// true
}

// TestComingFrom: the snippets of the page are those of this file, which are compiled and run.
func TestComingFrom(t *testing.T) {
	page, err := os.ReadFile("docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("coming_from_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Split(string(page), "```go\n")[1:]
	for _, text := range shown {
		if code, _, _ := strings.Cut(text, "```\n"); !strings.Contains(string(file), "\n"+code+"\n// end\n") {
			t.Errorf("docs/coming-from.md has a snippet that is not in coming_from_test.go:\n%s", code)
		}
	}
	if want := strings.Count(string(file), "\n// end\n"); len(shown) != want {
		t.Errorf("docs/coming-from.md has %d snippets; want the %d of coming_from_test.go", len(shown), want)
	}
}

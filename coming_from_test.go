package elect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/adapter"
	"github.com/electd/elect/store/memory"
)

// The functions between the marks are snippets of docs/coming-from.md, to the letter. The examples below run them.

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

// snippet: asks
func enqueues(leads func() bool, enqueue func() error) error {
	if !leads() { // Leads of an adapter.Elector: by the clock, now, without I/O
		return elect.ErrNotLeader
	}
	return enqueue()
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

// A callback of a scheduler, by the Leads of an adapter.Elector.
func Example_callback() {
	ctx, stop := context.WithCancel(context.Background())
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	var e adapter.Elector
	enqueue := func() error { fmt.Println("enqueued"); return nil }
	fmt.Println(enqueues(e.Leads, enqueue))
	ended := make(chan error)
	go func() {
		ended <- e.Lead(ctx, election, func() error { fmt.Println("the jobs have stopped"); return nil })
	}()
	for !e.Leads() {
		runtime.Gosched()
	}
	fmt.Println(enqueues(e.Leads, enqueue))
	stop()
	fmt.Println(<-ended)
	fmt.Println(enqueues(e.Leads, enqueue))
	// Output:
	// not the leader
	// enqueued
	// <nil>
	// the jobs have stopped
	// context canceled
	// not the leader
}

// TestComingFrom: the snippets of the page are those of these files, which are compiled and run: by this package, by the
// example, and by TestKubernetesOperator of test/fencing/leases.
func TestComingFrom(t *testing.T) {
	page, err := os.ReadFile("docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range []string{"coming_from_test.go", "examples/gocron/main.go", "test/fencing/server/testdata/adapters/operator/main.go"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(file)
	}
	shown := strings.Split(string(page), "```go\n")[1:]
	for _, text := range shown {
		if snippet, _, _ := strings.Cut(text, "```\n"); !strings.Contains(code.String(), "\n"+snippet+"\n// end\n") {
			t.Errorf("docs/coming-from.md has a snippet that is in no file of this test:\n%s", snippet)
		}
	}
	if want := strings.Count(code.String(), "\n// end\n"); len(shown) != want {
		t.Errorf("docs/coming-from.md has %d snippets; want the %d of these files", len(shown), want)
	}
}

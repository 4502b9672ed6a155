package elect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// The examples use the back end for tests, so that they run anywhere. A program
// lists others, such as file.Open under "file".
func open(store *memory.Store, id string) *elect.Election {
	openers := elect.Openers{"memory": store.Open}
	election, err := openers.Open(context.Background(), "memory:?lease=1m", "nightly", elect.Config{ID: id, StandAside: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	return election
}

func Example() {
	ctx := context.Background()
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	election, err := openers.Open(ctx, "memory:?lease=1m", "nightly", elect.Config{ID: "web-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer election.Close()

	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		fmt.Println("leading with token", term.Token())
		return nil // done: Lead releases, and returns this
	})
	fmt.Println(err)
	// Output:
	// leading with token 1
	// <nil>
}

func ExampleOpeners_Open() {
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	_, err := openers.Open(context.Background(), "memroy:", "nightly", elect.Config{})
	fmt.Println(err)
	// Output: election URL "memroy:": unknown scheme "memroy"; want one of: memory
}

func ExampleNew() {
	elector, err := memory.NewStore(0).New("nightly", "web-1", memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	election, err := elect.New(elector, elect.Config{Require: []elect.Ability{driver.AbilityTransfer}})
	if err != nil {
		log.Fatal(err)
	}
	defer election.Close()
	fmt.Println(election.Limits().Lease)
	// Output: 1s
}

func ExampleConfig() {
	_, err := elect.Openers{"memory": memory.NewStore(0).Open}.Open(context.Background(), "memory:", "nightly", elect.Config{
		ID:       "web-1",
		Metadata: map[string]string{"address": "10.0.0.1:8080"},
		Drain:    2 * time.Second, // what the work needs to stop, which must fit in the lease
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))
	// Output:
	// election "nightly" at memory:: elect.Config.Drain is 2s and the lease 1s: the work's context would end before it began;
	// want a drain below the lease
}

func ExampleDefaultID() {
	host, pid, ok := strings.Cut(elect.DefaultID(), ":")
	fmt.Println(host != "", pid != "", ok)
	// Output: true true true
}

// Lead goes on to campaign after a loss. It ends with its context.
func ExampleElection_Lead() {
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	ctx, stop := context.WithCancelCause(context.Background())
	err := election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		fmt.Println("leading with token", term.Token())
		if term.Token() == 1 {
			_ = election.Resign(ctx, 0) // an operator, say, asks it to go
		} else {
			stop(errors.New("SIGTERM"))
		}
		<-ctx.Done() // the work must return now: only then is leadership released
		lost, _ := errors.AsType[*elect.LostError](context.Cause(ctx))
		fmt.Println("lost:", lost.Reason)
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading with token 1
	// lost: resigned
	// leading with token 2
	// lost: shutdown
	// SIGTERM
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	term, err := election.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = election.Campaign(ctx)
	fmt.Println(err)
	// … work until term.Context() ends, and when the work has stopped:
	fmt.Println(term.Release(ctx))
	// Output:
	// this election already campaigns or leads; one at a time
	// <nil>
}

func ExampleElection_Leader() {
	ctx := context.Background()
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()

	_, err := election.Leader(ctx)
	fmt.Println(errors.Is(err, elect.ErrNoLeader))
	term, err := election.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release(ctx)
	leader, err := election.Leader(ctx)
	fmt.Println(leader.ID, leader.Token, err)
	// Output:
	// true
	// web-1 1 <nil>
}

func ExampleElection_Watch() {
	ctx := context.Background()
	store := memory.NewStore(0)
	leading, watching := open(store, "web-1"), open(store, "web-2")
	defer leading.Close()
	defer watching.Close()

	for state, err := range watching.Watch(ctx) {
		switch {
		case err != nil:
			fmt.Println("the end:", err)
		case state.Stale:
			fmt.Println("trouble:", state.Cause)
		case state.Leader != nil:
			fmt.Println(state.Leader.ID, "leads")
			watching.Close()
		default:
			fmt.Println("nobody leads")
			if _, err := leading.Campaign(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// nobody leads
	// web-1 leads
	// the end: elector closed
}

func ExampleElection_Resign() {
	ctx := context.Background()
	store := memory.NewStore(0)
	leading, operating := open(store, "web-1"), open(store, "operator")
	defer leading.Close()
	defer operating.Close()

	term, err := leading.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operating.Resign(ctx, 0)) // the present leader
	<-term.Context().Done()
	fmt.Println(context.Cause(term.Context()))
	_ = term.Release(ctx)
	// Output:
	// <nil>
	// leadership of term 1 lost: resigned: resigned: recalled
}

func ExampleElection_Limits() {
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()
	limits := election.Limits()
	fmt.Println(limits.Lease, limits.Takeover, limits.Abilities)
	fmt.Println("exclusive if", limits.Assumes)
	// Output:
	// 1m0s 1m0.01s [confirm transfer resign priority metadata]
	// exclusive if all participants are in one process
}

func ExampleElection_Close() {
	election := open(memory.NewStore(0), "web-1")
	fmt.Println(election.Close())
	_, err := election.Campaign(context.Background())
	fmt.Println(errors.Is(err, elect.ErrClosed))
	// Output:
	// <nil>
	// true
}

// lead runs work in the first term of an election of its own.
func lead(work func(context.Context, *elect.Term)) {
	election := open(memory.NewStore(0), "web-1")
	defer election.Close()
	ctx, cancel := context.WithCancel(context.Background())
	_ = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		defer cancel()
		work(ctx, term)
		return nil
	})
}

func ExampleTerm_Token() {
	lead(func(_ context.Context, term *elect.Term) {
		fmt.Println("UPDATE … WHERE fence <=", term.Token())
	})
	// Output: UPDATE … WHERE fence <= 1
}

func ExampleTerm_Check() {
	lead(func(_ context.Context, term *elect.Term) {
		if err := term.Check(); err == nil {
			fmt.Println("send the mail") // which no token can guard
		}
		term.Resign()
		fmt.Println(term.Check())
	})
	// Output:
	// send the mail
	// leadership of term 1 lost: resigned: resigned
}

func ExampleTerm_Remaining() {
	lead(func(_ context.Context, term *elect.Term) {
		left, bounded := term.Remaining()
		fmt.Println(left > 0 && left <= time.Minute, bounded)
	})
	// Output: true true
}

func ExampleTerm_Confirm() {
	lead(func(ctx context.Context, term *elect.Term) {
		switch err := term.Confirm(ctx); {
		case err == nil:
			fmt.Println("the store says so too")
		case errors.Is(err, elect.ErrNotLeader):
			fmt.Println("not any more")
		default:
			fmt.Println("cannot tell:", err)
		}
	})
	// Output: the store says so too
}

func ExampleTerm_Next() {
	lead(func(_ context.Context, term *elect.Term) {
		fmt.Println(term.Next(), term.Next(), term.Next())
	})
	// Output: 1/1 1/2 1/3
}

// Resign only asks: the work returns, and then Lead releases.
func ExampleTerm_Resign() {
	lead(func(ctx context.Context, term *elect.Term) {
		term.Resign()
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
	})
	// Output: leadership of term 1 lost: resigned: resigned
}

func ExampleTerm_Transfer() {
	ctx := context.Background()
	store := memory.NewStore(0)
	first, second := open(store, "web-1"), open(store, "web-2")
	defer first.Close()
	defer second.Close()

	term, err := first.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(term.Transfer("web-2")) // it does not stand yet: the term goes on
	won := make(chan *elect.Term)
	go func() {
		next, err := second.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		won <- next
	}()
	for errors.Is(err, elect.ErrIneligible) || err == nil && term.Check() == nil {
		<-time.After(time.Millisecond)
		err = term.Transfer("web-2")
	}
	fmt.Println(term.Check())      // its context has ended: stop the work
	fmt.Println(term.Release(ctx)) // and only then let the other lead
	next := <-won
	defer next.Release(ctx)
	fmt.Println(next.Token() > term.Token())
	// Output:
	// cannot take over: no candidate web-2 waits
	// leadership of term 1 lost: resigned: resigned
	// <nil>
	// true
}

func ExampleTerm_Context() {
	lead(func(ctx context.Context, term *elect.Term) {
		fmt.Println(ctx == term.Context(), ctx.Err())
	})
	// Output: true <nil>
}

func ExampleLostError() {
	lead(func(ctx context.Context, term *elect.Term) {
		term.Resign()
		err := term.Check()
		if lost, ok := errors.AsType[*elect.LostError](err); ok {
			fmt.Println(lost.Token, lost.Reason)
		}
		fmt.Println(errors.Is(err, elect.ErrLost), errors.Is(err, elect.ErrNotLeader))
	})
	// Output:
	// 1 resigned
	// true true
}

package elect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// What Config documents for zero.
const (
	releaseTimeout = 5 * time.Second
	standAside     = time.Second
	maxBackoff     = 5 * time.Second
)

// The tests of this package run in bubbles of testing/synctest: time is fake and
// exact, and a bubble fails if a goroutine outlives it.

// Every participant has this lease, and so a drain of a fifth of it.
const (
	lease = time.Second
	drain = lease / 5
)

// stand opens a participant on a store; it is closed when the test ends.
func stand(t testing.TB, store *memory.Store, id string, cfg elect.Config) (*elect.Election, *memory.Elector) {
	t.Helper()
	link, err := store.New("job", id, memory.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	e, err := elect.New(link, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, link
}

// win campaigns and gives up when the test ends.
func win(t testing.TB, e *elect.Election) *elect.Term {
	t.Helper()
	term, err := e.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.Release(context.Background()) })
	return term
}

// until is work that does nothing but wait for its end.
func until(ctx context.Context, _ *elect.Term) error {
	<-ctx.Done()
	return nil
}

// async calls f in a goroutine and returns where its error will be.
func async(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// diary writes down what a participant goes through.
type diary struct {
	mu     sync.Mutex
	events []elect.Event
}

func (d *diary) note(e elect.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

func (d *diary) all() []elect.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// find returns the first event of a kind.
func (d *diary) find(t testing.TB, kind elect.EventKind) elect.Event {
	t.Helper()
	for _, e := range d.all() {
		if e.Kind == kind {
			return e
		}
	}
	t.Fatalf("no event %q in %v", kind, d.all())
	return elect.Event{}
}

// is asserts the kinds of all events, in order.
func (d *diary) is(t testing.TB, want ...elect.EventKind) {
	t.Helper()
	var got []elect.EventKind
	for _, e := range d.all() {
		if e.Kind != elect.EventIll || slices.Contains(want, e.Kind) { // which comes at any time
			got = append(got, e.Kind)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %v;\nwant   %v", got, want)
	}
}

// lost asserts that err is the end of a term, and for which reason.
func lost(t testing.TB, err error, want elect.Reason) *elect.LostError {
	t.Helper()
	e, ok := errors.AsType[*elect.LostError](err)
	if !ok {
		t.Fatalf("%v is no *LostError", err)
	}
	if e.Reason != want || !errors.Is(err, elect.ErrLost) || !errors.Is(err, elect.ErrNotLeader) {
		t.Errorf("lost for %q (%v); want %q", e.Reason, err, want)
	}
	return e
}

// leader returns the token of who leads by the word of a participant, 0 for
// nobody.
func leader(t testing.TB, e *elect.Election) elect.Token {
	t.Helper()
	l, err := e.Leader(t.Context())
	if err != nil && !errors.Is(err, elect.ErrNoLeader) {
		t.Fatal(err)
	}
	return l.Token
}

var errWork = errors.New("the work's own error")

// failure is an error that is like no other.
func failure(text string) error { return fmt.Errorf("%s: %w", text, io.ErrUnexpectedEOF) }

package elect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// A term goes on when the candidate that it should go to cannot take over.
func TestTransferIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, link := stand(t, store, "a", elect.Config{})
		stand(t, store, "b", elect.Config{}) // does not campaign
		term := win(t, a)
		for _, to := range []string{"a", "b", "nobody"} {
			if err := term.Transfer(to); !errors.Is(err, elect.ErrIneligible) {
				t.Errorf("Transfer to %s returned %v; want ErrIneligible", to, err)
			}
		}
		if err := term.Check(); err != nil {
			t.Errorf("a transfer that was refused ended the term: %v", err)
		}
		link.Crash()
		<-term.Context().Done()
		lost(t, term.Transfer("b"), elect.ReasonShutdown)
	})
}

// An operator's transfer ends the work, and the one that was named leads when
// it has returned, whatever the priorities of others.
func TestAppoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		outside, _ := stand(t, store, "z", elect.Config{})
		if err := outside.Transfer(t.Context(), 0, "b"); !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("Transfer without a leader: %v; want ErrNoLeader", err)
		}
		if err := outside.Transfer(t.Context(), 0, "not an id"); err == nil || errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("Transfer of nonsense: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := make(chan string, 4)
		var ends []<-chan error
		lead := func(id string, e *elect.Election) {
			ends = append(ends, async(func() error {
				return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					began <- id
					return until(ctx, term)
				})
			}))
			synctest.Wait()
		}
		lead("a", a)
		for id, p := range map[string]int{"b": 1, "c": elect.MaxPriority} {
			e, _ := stand(t, store, id, elect.Config{Priority: p})
			lead(id, e)
		}
		if got := <-began; got != "a" {
			t.Fatalf("%s leads; want a", got)
		}
		l, err := outside.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := outside.Transfer(t.Context(), l.Token+1, "b"); !errors.Is(err, elect.ErrSuperseded) {
			t.Errorf("Transfer with another token: %v; want ErrSuperseded", err)
		}
		if err := outside.Transfer(t.Context(), l.Token, "a"); !errors.Is(err, elect.ErrIneligible) {
			t.Errorf("Transfer of the leader: %v; want ErrIneligible", err)
		}
		if err := outside.Transfer(t.Context(), l.Token, "b"); err != nil {
			t.Errorf("Transfer: %v", err)
		}
		if next := <-began; next != "b" {
			t.Errorf("%s took over; want b", next)
		}
		synctest.Wait()
		if err := outside.Transfer(t.Context(), 0, ""); err != nil { // to whom is best
			t.Errorf("Transfer of the best: %v", err)
		}
		if next := <-began; next != "c" {
			t.Errorf("%s took over; want c, which has the greatest priority", next)
		}
		cancel()
		for _, end := range ends {
			if err := <-end; !errors.Is(err, context.Canceled) {
				t.Errorf("Lead returned %v", err)
			}
		}
	})
}

// What a back end cannot do it refuses.
func TestAppointIsUnsupported(t *testing.T) {
	e, err := elect.New(newFake(), elect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Transfer(t.Context(), 0, ""); !errors.Is(err, elect.ErrUnsupported) {
		t.Errorf("Transfer: %v; want ErrUnsupported", err)
	}
}

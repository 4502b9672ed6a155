package adapter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/adapter"
	"github.com/electd/elect/store/memory"
)

// An Elector leads while its term is proven. A lost term ends by the clock, stop is called, and it leads again.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := memory.NewStore(0).New("jobs", "a", memory.Config{Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		election, err := elect.New(link, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer election.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var e adapter.Elector
		if err := e.IsLeader(ctx); !errors.Is(err, elect.ErrNotLeader) || e.Leads() || e.Term() != nil {
			t.Errorf("%v; want it not to lead before it has won", err)
		}
		stops, ended := make(chan bool), make(chan error)
		go func() {
			ended <- e.Lead(ctx, election, func() error { stops <- e.Leads(); return errors.New("a job failed") })
		}()
		synctest.Wait()
		first := e.Term()
		if err := e.IsLeader(ctx); err != nil || !e.Leads() || first == nil {
			t.Fatalf("%v; want it to lead", err)
		}
		link.Freeze(true)
		if <-stops {
			t.Error("it leads while its jobs are stopped")
		}
		link.Freeze(false)
		<-time.After(10 * time.Second)
		if second := e.Term(); second == nil || second.Token() <= first.Token() {
			t.Errorf("%v after %v; want it to lead again, with a greater token", second, first)
		}
		cancel()
		<-stops
		if err := <-ended; !errors.Is(err, context.Canceled) || e.Leads() {
			t.Error(err)
		}
	})
}

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

// TestReplicas: gocron runs a job in one replica at a time. Jobs that run are waited for before the next one leads.
func TestReplicas(t *testing.T) {
	store := memory.NewStore(0)
	type replica struct {
		tokens chan elect.Token
		stop   context.CancelFunc
		ended  chan error
	}
	var working atomic.Int32
	start := func(id string) replica {
		link, err := store.New("jobs", id, memory.Config{Lease: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		election, err := elect.New(link, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		r := replica{make(chan elect.Token), stop, make(chan error, 1)}
		go func() {
			r.ended <- run(ctx, election, time.Millisecond, func(token elect.Token) {
				working.Add(1)
				defer working.Add(-1)
				select {
				case r.tokens <- token:
				case <-ctx.Done():
				}
			})
			_ = election.Close()
		}()
		return r
	}
	a := start("a")
	first := <-a.tokens
	b := start("b")
	for range 20 {
		select {
		case token := <-b.tokens:
			t.Fatalf("b runs a job with token %v while a leads", token)
		case token := <-a.tokens:
			if token != first {
				t.Fatalf("a runs a job with token %v after %v", token, first)
			}
		}
	}
	a.stop()
	if err := <-a.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if token := <-b.tokens; token <= first {
		t.Errorf("token %v after %v", token, first)
	}
	b.stop()
	<-b.ended
	if n := working.Load(); n != 0 {
		t.Errorf("%d jobs run after the end", n)
	}
}

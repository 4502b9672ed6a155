//go:build linux

package redis_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// TestKill: the server is killed at random moments of guarded writes. The mark is never
// below what was confirmed, nor is a value older, and no value stands without its mark.
func TestKill(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	r := server.StartRedis(t)
	client := r.Client(t)
	g := installed(t, client, "orders")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	token, confirmed, writes := fence.Token(0), fence.Token(0), 0
	for range 25 {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var once sync.Once
		first := make(chan struct{})
		all.Go(func() {
			for ctx.Err() == nil {
				token++
				_, err := g.Write(ctx, token, fenceredis.Set(g.Key("value"), token.String()))
				if errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
				if err != nil {
					continue // a connection to the server before, or it is killed
				}
				confirmed = token
				writes++
				once.Do(func() { close(first) })
			}
		})
		select {
		case <-first:
		case <-time.After(30 * time.Second):
			t.Error("nothing is confirmed")
		}
		<-time.After(time.Duration(random.IntN(30_000)) * time.Microsecond)
		r.Kill(t)
		cancel()
		all.Wait()
		r.Start(t)
		s, err := g.Status(t.Context())
		if err != nil || s.Highest < confirmed || s.Highest > token {
			t.Fatalf("the mark is %v, %v; %v was confirmed, and %v shown last", s.Highest, err, confirmed, token)
		}
		if value := client.Get(t.Context(), g.Key("value")).Val(); s.Highest > 0 && value != s.Highest.String() {
			t.Fatalf("the value is %q, and the mark %v; they are one step", value, s.Highest)
		}
		if confirmed > 1 {
			if err := g.Claim(t.Context(), confirmed-1); !errors.Is(err, fence.ErrStale) {
				t.Fatalf("%v after %v was confirmed: %v", confirmed-1, confirmed, err)
			}
		}
	}
	if writes < 25 {
		t.Errorf("%d writes: nothing was tested", writes)
	}
	t.Logf("%d writes were confirmed", writes)
}

// TestSnapshotsAreNotEnough: without an append-only file the mark goes back to the last
// snapshot when the server is killed, and old leaders pass.
func TestSnapshotsAreNotEnough(t *testing.T) {
	r := server.StartRedis(t, "--appendonly", "no")
	client := r.Client(t)
	g := installed(t, client, "orders")
	if err := errors.Join(g.Claim(t.Context(), 5), client.Save(t.Context()).Err(), g.Claim(t.Context(), 6)); err != nil {
		t.Fatal(err)
	}
	r.Kill(t)
	r.Start(t)
	if err := g.Claim(t.Context(), 5); err != nil {
		t.Errorf("%v; if this is refused, the documentation is wrong", err)
	}
}

// TestNothingKeptIsRefused: without persistence the mark is lost, and the guard notices it: no
// write passes until it is installed anew.
func TestNothingKeptIsRefused(t *testing.T) {
	r := server.StartRedis(t, "--appendonly", "no")
	g := installed(t, r.Client(t), "orders")
	if err := g.Claim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	r.Kill(t)
	r.Start(t)
	for _, token := range []fence.Token{5, 6, 7} {
		if err := g.Claim(t.Context(), token); !errors.Is(err, fence.ErrResource) {
			t.Errorf("%v: %v; want ErrResource", token, err)
		}
	}
}

// TestNotSynced: with appendfsync everysec a claim is confirmed before it is on the disk. A killed
// server loses nothing, because the system has it; a loss of power leaves the file without its end.
// Redis accepts that, and the mark falls.
func TestNotSynced(t *testing.T) {
	r := server.StartRedis(t, "--appendfsync", "no")
	client := r.Client(t)
	g := installed(t, client, "orders")
	if err := g.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(r.Dir, "appendonlydir", "*.incr.aof"))
	if len(found) != 1 || err != nil {
		t.Skipf("the append-only files are %v, %v; want those of Redis 7", found, err)
	}
	before, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	r.Kill(t)
	r.Start(t)
	wantMark(t, g, 6)
	r.Kill(t)
	if err := os.Truncate(found[0], before.Size()); err != nil {
		t.Fatal(err)
	}
	r.Start(t)
	if err := g.Claim(t.Context(), 5); err != nil {
		t.Errorf("%v; if this is refused, the documentation is wrong", err)
	}
}

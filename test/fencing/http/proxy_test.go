//go:build linux

package http_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/zombie"
)

// TestProxy tests the finished command.
func TestProxy(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	elect := harness.Build(t, "../../../cmd/elect")
	t.Run("zombies", func(t *testing.T) { testZombies(t, elect) })
	t.Run("stream", func(t *testing.T) { testStream(t, elect) })
	t.Run("killed", func(t *testing.T) { testKilled(t, elect) })
	t.Run("settle", func(t *testing.T) { testSettle(t, elect) })
}

// testZombies: leaders frozen before each step of claim and write, over each protocol, in
// the middle of an upload, and with an open WebSocket.
func testZombies(t *testing.T, elect string) {
	for _, c := range []struct {
		opener, scheme string
	}{{"http1", "http"}, {"h2c", "h2c"}, {"upload", "http"}, {"upload", "h2c"}, {"websocket", "http"}} {
		t.Run(c.opener+" to "+c.scheme, func(t *testing.T) {
			upstream := startUpstream(t)
			_, at := startProxy(t, elect, c.scheme+strings.TrimPrefix(upstream, "http"), t.TempDir(), "--drain", "100ms", "--settle", "0")
			zombie.Prove(t, zombie.Config{Opener: c.opener, Where: at, Read: directly(upstream)})
		})
	}
}

// testStream: the WebSocket of an older leader is cut before a newer one is admitted, and
// the older one cannot open another.
func testStream(t *testing.T, elect string) {
	upstream := startUpstream(t)
	_, at := startProxy(t, elect, upstream, t.TempDir(), "--drain", "0", "--settle", "0")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	older, newer := fence.NewContext(ctx, 5), fence.NewContext(ctx, 6)
	client := leader(nil)
	claim(t, at, 5)
	conn, err := dialStream(older, client, at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for value := range int64(10) {
		if err := say(older, conn, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := claimBy(newer, client, at, secret, 6); err != nil {
		t.Fatal(err)
	}
	if err := say(older, conn, 100); err == nil {
		t.Error("the older leader's stream goes on")
	}
	if _, err := dialStream(older, client, at); !errors.Is(err, fence.ErrStale) {
		t.Errorf("another one of the older leader: %v", err)
	}
	next, err := dialStream(newer, client, at)
	if err != nil {
		t.Fatal(err)
	}
	defer next.CloseNow()
	if err := say(newer, next, 200); err != nil {
		t.Error(err)
	}
	if value, err := directly(upstream)(ctx); value != 200 || err != nil {
		t.Errorf("the register has %d, %v; want 200", value, err)
	}
}

// testKilled: kill -9 of the proxy at random moments, while leaders follow each other. An admitted
// token is never forgotten: no smaller one is admitted afterwards.
func testKilled(t *testing.T, elect string) {
	upstream, marks := startUpstream(t), t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	client := leader(&http.Transport{DisableKeepAlives: true})
	token, admitted, unknown := fence.Token(0), fence.Token(0), 0
	for range long.Or(25, 10) {
		p, at := startProxy(t, elect, upstream, marks, "--drain", "0", "--settle", "0")
		highest, err := highest(t.Context(), at)
		if err != nil || highest < admitted {
			t.Fatalf("the mark is %v, %v; %v was admitted before", highest, err, admitted)
		}
		if admitted > 1 {
			err := write(fence.NewContext(t.Context(), admitted-1), client, at+"/", -1, 0)
			if !errors.Is(err, fence.ErrStale) {
				t.Fatalf("%v is let in after %v: %v", admitted-1, admitted, err)
			}
		}
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			<-time.After(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
			harness.End(p.cmd)
		}()
		for alive := true; alive; {
			token++
			err := claimBy(t.Context(), client, at, secret, token)
			if err == nil {
				admitted = token
				err = write(fence.NewContext(t.Context(), token), client, at+"/", int64(token), 0)
			}
			if errors.Is(err, fence.ErrStale) {
				t.Fatalf("%v is refused: %v", token, err)
			}
			if errors.Is(err, fence.ErrUnknownOutcome) {
				unknown++
			}
			alive = err == nil
		}
		<-dead
	}
	t.Logf("%d tokens, %v was admitted last, %d outcomes unknown", token, admitted, unknown)
	if admitted < 10 {
		t.Errorf("%v tokens were admitted: nothing was tested", admitted)
	}
	if value, err := directly(upstream)(t.Context()); err != nil || value < 0 {
		t.Errorf("the register has %d, %v", value, err)
	}
}

// testSettle: a proxy is killed while the upstream is at work on a request of an older leader. The
// next proxy knows nothing of it; it admits a newer leader when the time of the longest request is
// over. Without that the older write lands last.
func testSettle(t *testing.T, elect string) {
	for settle, want := range map[string]int64{"0": 5, "4s": 6} {
		t.Run(settle, func(t *testing.T) {
			upstream, marks := startUpstream(t), t.TempDir()
			p, at := startProxy(t, elect, upstream, marks)
			claim(t, at, 5)
			done := make(chan error, 1)
			go func() { done <- write(fence.NewContext(t.Context(), 5), leader(nil), at+"/?after=2s", 5, 0) }()
			harness.Eventually(t, "the write is at the upstream", func() bool { return busy(t, upstream) == 1 })
			harness.End(p.cmd)
			if err := <-done; !errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("the older leader is told %v", err)
			}
			_, at = startProxy(t, elect, upstream, marks, "--settle", settle)
			claim(t, at, 6)
			if err := write(fence.NewContext(t.Context(), 6), leader(nil), at+"/", 6, 0); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, "the older write has landed", func() bool { return busy(t, upstream) == 0 })
			if value, err := directly(upstream)(t.Context()); value != want || err != nil {
				t.Errorf("the register has %d, %v; want %d", value, err, want)
			}
		})
	}
}

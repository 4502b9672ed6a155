package fenceredis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
)

func TestTag(t *testing.T) {
	for key, want := range map[string]string{
		"": "", "a": "", "{a": "", "a}": "", "{}": "", "{}{a}": "", "{a}": "a", "x{a}y{b}": "a", "{{a}}": "{a", "}{a}": "a",
	} {
		if got := tag(key); got != want {
			t.Errorf("%q: %q; want %q", key, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	good := map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
	if all := judge(good); len(all) != 0 {
		t.Errorf("%q", all)
	}
	if all := judge(nil); len(all) != 1 || !strings.Contains(all[0], "appendonly") {
		t.Errorf("%q", all)
	}
}

// TestExplain: only what Redis has answered is a refusal, and only one that makes sense.
func TestExplain(t *testing.T) {
	g, err := New(unconnected(t), "r", Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err   error
		want  error
		stale bool
	}{
		{answer("STALETOKEN 6"), fence.ErrStale, true},
		{answer("STALETOKEN 6 script: 0123, on @user_script:1."), fence.ErrStale, true},
		{answer("STALETOKEN 5"), answer("STALETOKEN 5"), false},
		{answer("STALETOKEN"), answer("STALETOKEN"), false},
		{answer("STALETOKEN x"), answer("STALETOKEN x"), false},
		{answer("UNGUARDED"), fence.ErrResource, false},
		{answer("READONLY You can't write against a read only replica."), answer("READONLY You can't write against a read only replica."), false},
		{errors.New("STALETOKEN 6"), fence.ErrUnknownOutcome, false},
		{context.DeadlineExceeded, fence.ErrUnknownOutcome, false},
		{net.ErrClosed, net.ErrClosed, false},
	} {
		got := g.explain(5, c.err)
		if !errors.Is(got, c.want) || errors.Is(got, fence.ErrStale) != c.stale {
			t.Errorf("%v: %v", c.err, got)
		}
		_, answered := errors.AsType[answer](c.err)
		if errors.Is(got, fence.ErrUnknownOutcome) == answered {
			t.Errorf("%v: %v; unknown is what was not answered", c.err, got)
		}
	}
}

// answer is an error of Redis.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// unconnected is a client that fails the test's write when it is used.
func unconnected(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("it was asked to connect")
	}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestNothingIsSent of what is wrong by itself.
func TestNothingIsSent(t *testing.T) {
	var counted []fence.Result
	var log strings.Builder
	g, err := New(unconnected(t), "r", Config{
		Observe: func(d fence.Decision) { counted = append(counted, d.Result) }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for i, got := range []error{
		first(g.Write(t.Context(), 0)),
		first(g.Write(t.Context(), fence.MaxToken+1)),
		first(g.Write(t.Context(), 5, Set("k", 1))),
		first(g.Write(t.Context(), 5, Set(g.Key("k"), 1), Del("{s}:k"))),
		first(g.Write(t.Context(), 5, HSet(g.Key("k"), make([]any, most)...))),
		g.Claim(ended, 5),
	} {
		want := []error{fence.ErrMissing, fence.ErrToken, fence.ErrResource, fence.ErrResource, nil, context.Canceled}[i]
		if got == nil || want != nil && !errors.Is(got, want) || errors.Is(got, fence.ErrUnknownOutcome) {
			t.Errorf("%d: %v; want %v", i, got, want)
		}
	}
	if err := g.Claim(t.Context(), 5); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want this to have asked", err)
	}
	want := []fence.Result{fence.Missing, fence.Malformed, fence.Foreign, fence.Foreign, fence.Failed, fence.Failed, fence.Failed}
	if !slices.Equal(counted, want) {
		t.Errorf("counted %v; want %v", counted, want)
	}
	for what, n := range map[string]int{"refused": 4, "failed": 2, `"outcome unknown"`: 1} {
		if got := strings.Count(log.String(), "msg="+what+" resource=r "); got != n {
			t.Errorf("%s is logged %d times; want %d:\n%s", what, got, n, &log)
		}
	}
}

func first(_ []any, err error) error { return err }

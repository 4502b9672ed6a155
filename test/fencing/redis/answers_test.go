//go:build linux

package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/test/fencing/server"
)

// TestReplica: a server that has become a replica writes nothing.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := server.StartRedis(t)
	g := installed(t, primary.Client(t), "orders")
	if err := g.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	client := server.StartRedis(t, "--replicaof", host+" "+port).Client(t)
	wait(t, "the replica hears of nothing", func() bool { return client.Get(t.Context(), g.Key("elect:fence")).Val() == "5" })
	at, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for token := fence.Token(5); token <= 6; token++ {
		_, err := at.Write(t.Context(), token, fenceredis.Set(g.Key("k"), 1))
		wantRefused(t, err, "READONLY")
	}
	_, err = at.Write(t.Context(), 4, fenceredis.Set(g.Key("k"), 1))
	wantStale(t, err, 4, 5)
	if n, err := client.Exists(t.Context(), g.Key("k")).Result(); n != 0 || err != nil {
		t.Errorf("it was written: %d, %v", n, err)
	}
	wantMark(t, g, 5)
}

// wantRefused checks that an error is an answer of Redis that says this, and not a refusal of
// the guard.
func wantRefused(t *testing.T, err error, text string) {
	t.Helper()
	if _, ok := errors.AsType[redis.Error](err); !ok || !strings.Contains(err.Error(), text) || errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrResource) {
		t.Errorf("%v; want %s", err, text)
	}
}

// TestFull: at the limit of the memory neither a mark is raised nor a value written, and no write
// is done in part: Redis checks the limit before the first write of a script, not later.
func TestFull(t *testing.T) {
	client, ctx := server.StartRedis(t).Client(t), t.Context()
	g := installed(t, client, "orders")
	k, other := g.Key("k"), g.Key("other")
	if _, err := g.Write(ctx, 5, fenceredis.Set(k, "old")); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes string) {
		t.Helper()
		if err := client.ConfigSet(ctx, "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	wantRefused(t, g.Claim(ctx, 6), "OOM")
	for token := fence.Token(5); token <= 6; token++ {
		_, err := g.Write(ctx, token, fenceredis.Set(other, "new"), fenceredis.Set(k, "new"))
		wantRefused(t, err, "OOM")
	}
	wantStale(t, g.Claim(ctx, 4), 4, 5)
	// A command that frees memory is admitted, with those after it in the same script.
	if _, err := g.Write(ctx, 5, fenceredis.Del(k), fenceredis.Set(other, "after")); err != nil {
		t.Error(err)
	}
	limit("0")
	wantMark(t, g, 5)
	if got := client.MGet(ctx, k, other).Val(); len(got) != 2 || got[0] != nil || got[1] != "after" {
		t.Errorf("%v; want the first one deleted and the other one written", got)
	}
}

// TestBusy: while a script does not end, writes are answered, and not applied later. A script that
// was killed before it wrote is known not to have been applied. One that has written ends with the
// server only: its writes are not kept, and its leader learns that the outcome is unknown.
func TestBusy(t *testing.T) {
	r := server.StartRedis(t, "--lua-time-limit", "20")
	client, ctx := r.Client(t), t.Context()
	g := installed(t, client, "orders")
	if err := g.Claim(ctx, 5); err != nil {
		t.Fatal(err)
	}
	patient := redis.NewClient(&redis.Options{Addr: client.Options().Addr, ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = patient.Close() })
	slow, err := fenceredis.New(patient, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loop := fenceredis.NewScript("while true do end")
	run := func(token fence.Token) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := slow.Eval(context.WithoutCancel(ctx), token, loop, nil)
			done <- err
		}()
		wait(t, "Redis is not busy", func() bool { return redis.HasErrorPrefix(client.Ping(ctx).Err(), "BUSY") })
		return done
	}
	done := run(5) // the mark is 5, so that the check writes nothing
	_, err = g.Write(ctx, 7, fenceredis.Set(g.Key("k"), 1))
	wantRefused(t, err, "BUSY")
	if err := client.ScriptKill(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, <-done, "killed by user")
	wantMark(t, g, 5)

	done = run(6) // it raises the mark, and loops
	if err := client.ScriptKill(ctx).Err(); !redis.HasErrorPrefix(err, "UNKILLABLE") {
		t.Errorf("%v; want UNKILLABLE", err)
	}
	r.Kill(t)
	if err := <-done; !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want an unknown outcome", err)
	}
	r.Start(t)
	wantMark(t, g, 5)
}

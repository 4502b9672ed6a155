//go:build linux

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/test/fencing/server"
)

func wantStale(t *testing.T, err error, shown, highest fence.Token) {
	t.Helper()
	s, ok := errors.AsType[*fence.StaleError](err)
	if !ok || *s != (fence.StaleError{Shown: shown, Highest: highest}) || !errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v; want stale: %v shown, %v highest", err, shown, highest)
	}
}

func wantMark(t *testing.T, g *fenceredis.Guard, want fence.Token) {
	t.Helper()
	if s, err := g.Status(t.Context()); err != nil || s.Highest != want {
		t.Errorf("the mark is %v, %v; want %v", s.Highest, err, want)
	}
}

func TestGuard(t *testing.T) {
	r := server.StartRedis(t)
	client, ctx := r.Client(t), t.Context()
	g, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{g.Claim(ctx, 5), g.Uninstall(ctx)} {
		if !errors.Is(err, fence.ErrResource) {
			t.Errorf("before it is installed: %v; want ErrResource", err)
		}
	}
	if err := g.Install(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := g.Status(ctx)
	if err != nil || s.Highest != 0 || len(s.Warnings) > 0 {
		t.Errorf("%+v, %v; want no mark and no warnings", s, err)
	}
	if err := g.Claim(ctx, 5); err != nil {
		t.Fatal(err)
	}
	again := g.Install(ctx)
	if s, err := g.Status(ctx); errors.Join(again, err) != nil || s.Highest != 5 {
		t.Errorf("installed again: %+v, %v; want 5 still", s, err)
	}
	name, table := g.Key("name"), g.Key("table")
	replies, err := g.Write(ctx, 6, fenceredis.Set(name, "x"), fenceredis.HSet(table, "a", 1, "b", 2), fenceredis.Command{Name: "HGET", Key: table, Args: []any{"no"}}, fenceredis.Del(name))
	if got := fmt.Sprint(replies); err != nil || got != "[OK 2 <nil> 1]" {
		t.Errorf("%s, %v", got, err)
	}
	wantMark(t, g, 6)
	_, err = g.Write(ctx, 5, fenceredis.Set(name, "stale"))
	wantStale(t, err, 5, 6)
	wantStale(t, g.Claim(ctx, 5), 5, 6)
	if n, err := client.Exists(ctx, name).Result(); n != 0 || err != nil {
		t.Errorf("what was refused has been written: %d, %v", n, err)
	}
	// Redis forgets the scripts, as in a restart: they are sent again.
	if err := client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	add := fenceredis.NewScript("return {redis.call('INCRBY', KEYS[1], ARGV[1]), #KEYS, #ARGV}")
	for want := 1; want < 3; want++ {
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := g.Eval(ctx, 6, add, []string{name}, 1); fmt.Sprint(got) != fmt.Sprintf("[%d 1 1]", want) || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err = g.Eval(ctx, 5, add, []string{name}, 1); err == nil {
		t.Error("a stale script was run")
	}
	wantStale(t, err, 5, 6)
	if got, err := g.Eval(ctx, 6, fenceredis.NewScript("return nil"), nil); got != nil || err != nil {
		t.Errorf("%v, %v; want nothing", got, err)
	}
	// A command that fails is no refusal and is not unknown, and raises the mark.
	_, err = g.Write(ctx, 7, fenceredis.HSet(name, "a", 1))
	if _, ok := errors.AsType[redis.Error](err); !ok || !strings.Contains(err.Error(), "WRONGTYPE") || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want WRONGTYPE", err)
	}
	wantMark(t, g, 7)
	if err := g.Uninstall(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(ctx, 9, fenceredis.Set(name, "x")); !errors.Is(err, fence.ErrResource) {
		t.Errorf("%v; want ErrResource", err)
	}
}

func TestRefuses(t *testing.T) {
	r := server.StartRedis(t)
	client, ctx := r.Client(t), t.Context()
	g := installed(t, client, "orders")
	for token, want := range map[fence.Token]error{0: fence.ErrMissing, 1 << 48: fence.ErrToken, fence.MaxToken + 1: fence.ErrToken} {
		if _, err := g.Write(ctx, token, fenceredis.Set(g.Key("k"), 1)); !errors.Is(err, want) {
			t.Errorf("%d: %v; want %v", token, err, want)
		}
	}
	for _, key := range []string{"", "k", "orders", "{orders", "{Orders}:k", "{}{orders}", "{o}{orders}", "{orders }", "{{orders}}", "{orders}:elect:fence"} {
		if _, err := g.Write(ctx, 5, fenceredis.Set(key, 1)); !errors.Is(err, fence.ErrResource) {
			t.Errorf("the key %q: %v; want ErrResource", key, err)
		}
	}
	if keys, err := client.Keys(ctx, "*").Result(); len(keys) != 1 || err != nil {
		t.Errorf("what was refused has left %v, %v", keys, err)
	}
	if _, err := g.Write(ctx, 5, fenceredis.Set("before{orders}after", 1)); err != nil {
		t.Error(err)
	}
	if _, err := fenceredis.New(client, "{orders}", fenceredis.Config{}); !errors.Is(err, fence.ErrResource) {
		t.Errorf("%v; want ErrResource", err)
	}
	for _, mark := range []string{"", "x", "007", "-1", "1e3", "6 ", "99999999999999999999"} {
		if err := client.Set(ctx, g.Key("elect:fence"), mark, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := g.Claim(ctx, fence.MaxToken); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("the mark %q: %v; want an error", mark, err)
		}
		if _, err := g.Status(ctx); err == nil {
			t.Errorf("the mark %q is taken", mark)
		}
	}
}

// TestExact: tokens are compared exactly, also where the numbers of Lua are not.
func TestExact(t *testing.T) {
	r := server.StartRedis(t)
	client, ctx := r.Client(t), t.Context()
	unsafe := redis.NewScript(`if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`)
	for i, c := range []struct {
		greater, smaller fence.Token
		unsafe           bool // the result with tonumber
	}{
		{10, 9, false},
		{1<<52 + 2, 1<<52 + 1, false},
		{1<<53 + 1, 1<<53 - 1, false},
		{1<<53 + 4, 1<<53 + 3, true}, // both are 2^53+4
		{1<<60 + 9, 1<<60 + 8, true},
		{fence.MaxToken, fence.MaxToken - 1, true},
		{1_000_000_000_000_000_000, 999_999_999_999_999_999, true},
	} {
		g := installed(t, client, fence.Resource(fmt.Sprintf("r%d", i)))
		if err := errors.Join(g.Claim(ctx, c.smaller), g.Claim(ctx, c.greater), g.Claim(ctx, c.greater)); err != nil {
			t.Fatal(err)
		}
		_, err := g.Write(ctx, c.smaller, fenceredis.Set(g.Key("k"), 1))
		wantStale(t, err, c.smaller, c.greater)
		wantMark(t, g, c.greater)

		key := g.Key("unsafe")
		for _, token := range []fence.Token{c.greater, c.smaller} {
			if err := unsafe.Run(ctx, client, []string{key}, token.String()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if got := client.Get(ctx, key).Val(); (got == c.smaller.String()) != c.unsafe {
			t.Errorf("tonumber, %v after %v: the mark is %s", c.smaller, c.greater, got)
		}
	}
}

// TestUnknown: a write without an answer is not repeated, and counts neither as refused nor as
// applied.
func TestUnknown(t *testing.T) {
	r := server.StartRedis(t)
	g := installed(t, r.Client(t), "orders")
	var deaf sync.Map
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: 5, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lossy{conn, &deaf}, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	lost, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	deaf.Store("now", true)
	_, err = lost.Write(t.Context(), 5, fenceredis.Command{Name: "INCR", Key: g.Key("n")})
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("%v; want fence.ErrUnknownOutcome", err)
	}
	deaf.Delete("now")
	replies, err := g.Write(t.Context(), 5, fenceredis.Command{Name: "GET", Key: g.Key("n")})
	if err != nil || fmt.Sprint(replies) != "[1]" {
		t.Errorf("%v, %v; want it applied once", replies, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller's"))
	if err := lost.Claim(ctx, 6); err == nil || err.Error() != "the caller's" {
		t.Errorf("%v; want the cause of the end of its context", err)
	}
	wantMark(t, g, 5)
}

// lossy is a connection that breaks when the answer has come.
type lossy struct {
	net.Conn
	deaf *sync.Map
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if _, ok := l.deaf.Load("now"); ok && err == nil {
		_ = l.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"--appendonly", "no"}, "appendonly"},
		{[]string{"--appendfsync", "everysec"}, "appendfsync is everysec"},
		{[]string{"--appendfsync", "no"}, "appendfsync is no"},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, "evicted"},
		{[]string{"--rename-command", "CONFIG", ""}, "cannot be read"},
	} {
		r := server.StartRedis(t, c.settings...)
		s, err := installed(t, r.Client(t), "orders").Status(t.Context())
		if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], c.want) {
			t.Errorf("%v: %q, %v; want one of %q", c.settings, s.Warnings, err, c.want)
		}
	}
}

// TestFailover: a replica that has not received the last claim takes an old leader's writes when it
// becomes the primary. No guard in Redis can prevent that.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := server.StartRedis(t)
	g := installed(t, primary.Client(t), "orders")
	if err := g.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := server.StartRedis(t, "--replicaof", host+" "+port)
	client := replica.Client(t)
	for deadline := time.Now().Add(30 * time.Second); client.Get(t.Context(), g.Key("elect:fence")).Val() != "5"; {
		if time.Now().After(deadline) {
			t.Fatal("the replica hears of nothing")
		}
		<-time.After(10 * time.Millisecond)
	}
	if s, err := g.Status(t.Context()); err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "failover") {
		t.Errorf("%+v, %v; want a warning", s, err)
	}
	// It is cut off, the mark is raised, and the primary dies.
	if err := client.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	primary.Kill(t)
	after, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := after.Write(t.Context(), 5, fenceredis.Set(g.Key("k"), "stale")); err != nil {
		t.Errorf("%v; if this is refused, the documentation is wrong", err)
	}
}

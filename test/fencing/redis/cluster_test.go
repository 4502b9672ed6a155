//go:build linux

package redis_test

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/test/fencing/server"
)

// startNode starts one of a cluster, and returns the port of its bus.
func startNode(t *testing.T) (node *server.Redis, bus int) {
	t.Helper()
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil && (strings.Contains(string(out), " v=5.") || strings.Contains(string(out), " v=6.")) {
		t.Skipf("the port of a cluster's bus cannot be chosen before Redis 7; this is %s", out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bus = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return server.StartRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(bus)), bus
}

// cluster is two primaries, of which the first one has all slots.
func cluster(t *testing.T) (from, to *redis.Client, all *redis.ClusterClient) {
	t.Helper()
	ctx := t.Context()
	first, _ := startNode(t)
	second, bus := startNode(t)
	from, to = first.Client(t), second.Client(t)
	host, port, _ := net.SplitHostPort(second.Addr)
	for _, err := range []error{
		from.ClusterAddSlotsRange(ctx, 0, 16383).Err(),
		from.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "the two do not know each other", func() bool {
		for _, node := range []*redis.Client{from, to} {
			info := node.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:2") || !strings.Contains(info, "cluster_slots_assigned:16384") {
				return false
			}
		}
		return true
	})
	all = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{first.Addr, second.Addr}})
	t.Cleanup(func() { _ = all.Close() })
	return from, to, all
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestCluster moves the keys of a resource to another node of a cluster, one by one, while a leader
// writes. A redirect is an answer: the request was not applied, and is sent to the other node.
// Where the mark and a key are at different nodes, nothing is written. A stale token is refused
// everywhere.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to, all := cluster(t)
	g, err := fenceredis.New(all, "orders", fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Install(ctx); err != nil {
		t.Fatal(err)
	}
	state, err := g.Status(ctx)
	if err != nil || len(state.Warnings) == 0 || !strings.Contains(state.Warnings[0], "failover of the cluster") {
		t.Fatalf("%+v, %v; want a warning", state, err)
	}
	mark, old := g.Key("elect:fence"), g.Key("old")
	slot, err := from.ClusterKeySlot(ctx, mark).Result()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, node := range []*redis.Client{from, to} {
		id, err := node.ClusterMyID(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	set := func(node *redis.Client, args ...any) {
		t.Helper()
		if err := node.Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	move := func(key string) {
		t.Helper()
		host, port, _ := net.SplitHostPort(to.Options().Addr)
		if err := from.Migrate(ctx, host, port, key, 0, 10*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	incr := func(key string) fenceredis.Command { return fenceredis.Command{Name: "INCR", Key: key} }
	token, counted := fence.Token(5), map[string]int64{}
	if err := g.Claim(ctx, token); err != nil {
		t.Fatal(err)
	}
	// at checks one moment of the move: which leader may write which key, and that a stale token never
	// does. The scripts are forgotten before each, so that redirects meet unknown ones.
	at := func(moment, key string, passes bool) {
		t.Helper()
		for _, node := range []*redis.Client{from, to} {
			if err := node.ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
		token++
		if err := g.Claim(ctx, token); err != nil {
			t.Errorf("%s: a claim: %v", moment, err)
		}
		wantMark(t, g, token)
		wantStale(t, g.Claim(ctx, token-1), token-1, token)
		replies, err := g.Write(ctx, token, incr(key))
		switch {
		case passes && err == nil:
			counted[key]++
			if n, ok := replies[0].(int64); !ok || n != counted[key] {
				t.Errorf("%s: %s was counted to %v; want %d", moment, key, replies, counted[key])
			}
		case passes || !redis.HasErrorPrefix(err, "TRYAGAIN") || errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale):
			t.Errorf("%s: a write of %s: %v, %v; want %v", moment, key, replies, err, map[bool]string{true: "it done", false: "TRYAGAIN"}[passes])
		}
		replies, err = g.Write(ctx, token-1, incr(key))
		if !errors.Is(err, fence.ErrStale) && (passes || !redis.HasErrorPrefix(err, "TRYAGAIN")) {
			t.Errorf("%s: a stale write of %s: %v, %v", moment, key, replies, err)
		}
	}
	at("before", old, true)
	set(to, "IMPORTING", ids[0])
	set(from, "MIGRATING", ids[1])
	at("nothing has moved", old, true)
	at("nothing has moved", g.Key("new"), false)
	move(mark)
	at("the mark has moved", old, false)
	at("the mark has moved", g.Key("new"), false)
	move(old)
	at("all keys have moved", old, true)
	at("all keys have moved", g.Key("new"), false)
	for _, node := range []*redis.Client{to, from} {
		set(node, "NODE", ids[1])
	}
	at("it has ended", old, true)
	at("it has ended", g.Key("new"), true)
	if n, err := to.Get(ctx, old).Int64(); n != counted[old] || err != nil {
		t.Errorf("%s was counted to %d, %v; want %d", old, n, err, counted[old])
	}
}

//go:build linux && cgo

package leases_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/store/redis"
	"github.com/electd/elect/test/fencing/server"
)

// slot is the key of one case, and the era that its operator has given.
type slot struct {
	server *server.Redis
	client *goredis.Client // of an administrator
	key    string
	query  string // of the URL, in addition; begins with &
	era    int
}

var slots atomic.Int64

func newSlot(t testing.TB, r *server.Redis) *slot {
	t.Helper()
	return &slot{server: r, client: r.Client(t), key: fmt.Sprintf("test%d", slots.Add(1))}
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (s *slot) url(addr string) string {
	if addr == "" {
		addr = s.server.Addr
	}
	return fmt.Sprintf("redis://%s/0?key=%s&%s&era=%d%s", addr, s.key, times, s.era, s.query)
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (s *slot) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, s.server.Addr, s.url, name, id)
}

// do executes a command of an administrator.
func (s *slot) do(t testing.TB, command ...any) {
	t.Helper()
	if err := s.client.Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// soon is a context for what takes some leases.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestRedisConformance has each participant in a process of its own, at a real Redis.
func TestRedisConformance(t *testing.T) {
	long.Full(t, "it takes minutes; databases are asked by the same suite")
	r := server.StartRedis(t)
	of := perCase(func(t testing.TB) *slot { return newSlot(t, r) })
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the register's own tests do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(r),
		Recreate: func(t testing.TB) {
			s := of(t)
			s.do(t, "DEL", s.key)
			s.era++
		},
	})
}

// TestRedisAgreement: Redis answers as the simulator's register does.
func TestRedisAgreement(t *testing.T) {
	t.Parallel()
	r := server.StartRedis(t)
	agrees(t, storetest.Register, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		s := newSlot(t, r)
		participant := func(id string, l *loss) driver.Elector {
			client := r.Client(t)
			client.AddHook(lossyHook{l})
			e, err := redis.New(t.Context(), client, "e", id, redis.Config{Key: s.key, Lease: time.Hour, MaxLease: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return participant, func(protocol.Entry) { s.do(t, "DEL", s.key) }
	})
}

// lossyHook loses answers to writes.
type lossyHook struct{ loss *loss }

func (lossyHook) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (lossyHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (h lossyHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") && len(cmd.Args()) > 4 {
			if err = h.loss.of(err); err != nil {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// TestRedisTraps has a leader, and what can befall its server or its key. The leader that ends does so before the next
// one is proven.
func TestRedisTraps(t *testing.T) {
	long.Full(t, "it waits for leases")
	t.Parallel()
	ends := func(t *testing.T, ctx context.Context, s *slot, was driver.Mandate, why ...error) {
		t.Helper()
		b := opened(t, s.url(""), "b")
		won := make(chan driver.Mandate, 1)
		go func() {
			n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if n != nil && was.Check() == nil {
				t.Error("two are proven")
			}
			won <- n
		}()
		lost(t, ctx, was, why...)
		released(t, was)
		n := <-won
		if n == nil {
			t.Fatal("the next one does not win")
		}
		released(t, n)
	}
	r := server.StartRedis(t)
	t.Run("FLUSHALL", func(t *testing.T) {
		s, ctx := newSlot(t, server.StartRedis(t)), soon(t)
		a, b := opened(t, s.url(""), "a"), opened(t, s.url(""), "b")
		was := a.campaign(ctx)
		for state := range b.Watch(ctx) { // it has seen the token
			if state.Leader != nil {
				break
			}
		}
		s.do(t, "FLUSHALL")
		begun := time.Now()
		is := b.campaign(ctx)
		if was.Check() == nil {
			t.Error("two are proven")
		}
		if took := time.Since(begun); took < 1900*time.Millisecond {
			t.Errorf("the next one leads after %v; want max_lease", took)
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v, which the candidate had seen", is.Token(), was.Token())
		}
		lost(t, ctx, was, driver.ErrSuperseded, driver.ErrExpired)
		released(t, was)
		released(t, is)
	})
	t.Run("SCRIPT FLUSH", func(t *testing.T) {
		s, ctx := newSlot(t, r), soon(t)
		m := opened(t, s.url(""), "a").campaign(ctx)
		for range 3 {
			s.do(t, "SCRIPT", "FLUSH")
			if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
				t.Error(err)
			}
		}
		released(t, m)
	})
	t.Run("an expiry", func(t *testing.T) {
		s, ctx := newSlot(t, r), soon(t)
		m := opened(t, s.url(""), "a").campaign(ctx)
		s.do(t, "EXPIRE", s.key, 100)
		if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
			t.Error(err)
		}
		if ttl := s.client.TTL(ctx, s.key).Val(); ttl != -1 {
			t.Errorf("the key expires in %v; want a renewal to have mended that", ttl)
		}
		released(t, m)
	})
	t.Run("an old record", func(t *testing.T) {
		s, ctx := newSlot(t, r), soon(t)
		a := opened(t, s.url(""), "a")
		m := a.campaign(ctx)
		old := s.client.Get(ctx, s.key).Val()
		released(t, m)
		m = a.campaign(ctx)
		s.do(t, "SET", s.key, old)
		ends(t, ctx, s, m, driver.ErrSuperseded, driver.ErrExpired)
	})
	t.Run("nonsense", func(t *testing.T) {
		s, ctx := newSlot(t, r), soon(t)
		m := opened(t, s.url(""), "a").campaign(ctx)
		s.do(t, "SET", s.key, "")
		lost(t, ctx, m, driver.ErrExpired)
		s.do(t, "DEL", s.key)
		s.do(t, "LPUSH", s.key, "1")
		refuses(t, s.url(""), "want another key, or one that holds a string: "+s.key)
		s.do(t, "DEL", s.key)
		released(t, m)
		released(t, opened(t, s.url(""), "b").campaign(ctx))
	})
	t.Run("memory is full", func(t *testing.T) {
		s, ctx := newSlot(t, server.StartRedis(t)), soon(t)
		a := opened(t, s.url(""), "a")
		m := a.campaign(ctx)
		s.do(t, "CONFIG", "SET", "maxmemory", 1)
		lost(t, ctx, m, driver.ErrExpired)
		s.do(t, "CONFIG", "SET", "maxmemory", 0)
		released(t, m)
		released(t, a.campaign(ctx))
	})
	t.Run("a restart", func(t *testing.T) {
		s, ctx := newSlot(t, server.StartRedis(t)), soon(t)
		m := opened(t, s.url(""), "a").campaign(ctx)
		s.server.Kill(t)
		s.server.Start(t)
		if err := m.(driver.Confirmer).Confirm(ctx); err != nil && m.Check() == nil {
			t.Errorf("%v; want a leader whose lease has not lapsed to lead on after a restart that has lost nothing", err)
		}
		n := m.Token()
		released(t, m)
		if m = opened(t, s.url(""), "b").campaign(ctx); m.Token() <= n {
			t.Errorf("token %v after %v", m.Token(), n)
		}
		released(t, m)
	})
	t.Run("a restart that forgets", func(t *testing.T) {
		s, ctx := newSlot(t, server.StartRedis(t, "--appendonly", "no")), soon(t)
		s.query = "&volatile=on"
		a := opened(t, s.url(""), "a")
		m := a.campaign(ctx)
		released(t, m)
		m = a.campaign(ctx)
		s.server.Kill(t)
		s.server.Start(t)
		is := opened(t, s.url(""), "b").campaign(ctx)
		if m.Check() == nil {
			t.Error("two are proven")
		}
		if is.Token() > m.Token() {
			t.Errorf("token %v after %v, which nothing has kept; say in docs/redis.md why it rises", is.Token(), m.Token())
		}
		released(t, is)
		s.era++
		if is = opened(t, s.url(""), "c").campaign(ctx); is.Token() <= m.Token() {
			t.Errorf("token %v of the next era after %v", is.Token(), m.Token())
		}
		released(t, is)
		lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
		released(t, m)
	})
	t.Run("a master becomes a replica", func(t *testing.T) {
		s, ctx := newSlot(t, server.StartRedis(t)), soon(t)
		other := server.StartRedis(t)
		a := opened(t, s.url(""), "a")
		m := a.campaign(ctx)
		host, port, _ := net.SplitHostPort(other.Addr)
		s.do(t, "REPLICAOF", host, port)
		lost(t, ctx, m, driver.ErrExpired, driver.ErrSuperseded)
		released(t, m)
		a.nobody(ctx)
		s.do(t, "REPLICAOF", "NO", "ONE")
		released(t, a.campaign(ctx))
	})
}

// TestRedisNotifies: a candidate that hardly polls leads soon after a release.
func TestRedisNotifies(t *testing.T) {
	long.Full(t, "it waits for a lease")
	t.Parallel()
	s, ctx := newSlot(t, server.StartRedis(t)), soon(t)
	m := opened(t, s.url(""), "a").campaign(ctx)
	b := opened(t, strings.Replace(s.url(""), "poll=200ms", "poll=30s", 1), "b")
	won := make(chan driver.Mandate, 1)
	go func() {
		n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
		won <- n
	}()
	harness.Eventually(t, "it listens", func() bool { return s.client.PubSubNumSub(ctx, s.key).Val()[s.key] > 0 })
	for state := range b.Watch(ctx) {
		if state.Leader != nil {
			break
		}
	}
	begun := time.Now()
	released(t, m)
	n := <-won
	if n == nil {
		t.Fatal("it does not win")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it leads %v after the release; want at once", took)
	}
	released(t, n)
}

// TestRedisRefused: a server that could forget or evict what it has acknowledged, and a user without the rights, are
// refused with one line that says what would be right.
func TestRedisRefused(t *testing.T) {
	t.Parallel()
	r := server.StartRedis(t)
	s := newSlot(t, r)
	refuses(t, newSlot(t, server.StartRedis(t, "--appendonly", "no")).url(""), "appendonly is no: a restart forgets")
	refuses(t, newSlot(t, server.StartRedis(t, "--cluster-enabled", "yes")).url(""), "want a server outside a cluster")
	set := func(name, value, back, want string) {
		t.Helper()
		s.do(t, "CONFIG", "SET", name, value)
		refuses(t, s.url(""), want)
		s.do(t, "CONFIG", "SET", name, back)
	}
	set("appendfsync", "everysec", "always", "appendfsync is everysec: a loss of power forgets")
	set("maxmemory-policy", "allkeys-lru", "noeviction", "maxmemory-policy is allkeys-lru: the election can be evicted")
	refuses(t, strings.Replace(s.url(""), "/0?", "/99?", 1), "want a database that the server has")
	as := func(user string) string { return strings.Replace(s.url(""), "://", "://"+user+"@", 1) }
	refuses(t, as("nobody:x"), "want a user that exists, and the right password")
	s.do(t, "ACL", "SETUSER", "reader", "on", ">x", "~*", "+info", "+config|get", "+eval", "+evalsha", "+get")
	s.do(t, "ACL", "SETUSER", "nothing", "on", ">x")
	s.do(t, "ACL", "SETUSER", "job", "on", ">x", "~"+s.key, "&"+s.key, "+info", "+config|get", "+eval", "+evalsha", "+get", "+set", "+publish", "+subscribe", "+unsubscribe", "+ping", "+wait", "+select")
	refuses(t, as("nothing:x"), "want a user with these rights: +info +config|get")
	e := opened(t, as("reader:x"), "reader")
	if _, err := e.Campaign(soon(t), driver.Candidacy{Exclusive: true}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want a user with these rights") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v; want a permanent error that names the rights", err)
	}
	released(t, opened(t, as("job:x"), "job").campaign(soon(t)))
	s.do(t, "CONFIG", "SET", "requirepass", "secret")
	refuses(t, s.url(""), "want a user and a password: in the URL")
	released(t, opened(t, as(":secret"), "a").campaign(soon(t)))
	replica := server.StartRedis(t)
	host, port, _ := net.SplitHostPort(replica.Addr)
	other := newSlot(t, server.StartRedis(t, "--replicaof", host, port))
	if e := opened(t, other.url(""), "a"); e.Elector == nil { // it may be promoted
		t.Error("a replica is refused for good")
	}
	harness.Eventually(t, "the replica is connected", func() bool {
		return strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "connected_slaves:1")
	})
	refuses(t, newSlot(t, replica).url(""), "want replicas=1, which waits for them, or replicas=any")
	refuses(t, newSlot(t, server.StartSentinel(t, replica.Addr)).url(""), "want the name of its master in the URL")
}

// TestRedisTLS: with the right certificates a candidate leads. Otherwise one line says at once what would be right.
func TestRedisTLS(t *testing.T) {
	long.Full(t, "it starts a real server")
	dir, other := issued(t, certs.Options{}), issued(t, certs.Options{})
	_, port, _ := net.SplitHostPort(harness.FreeAddr(t))
	s := newSlot(t, server.StartRedis(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "server.crt"),
		"--tls-key-file", filepath.Join(dir, "server.key"), "--tls-ca-cert-file", filepath.Join(dir, "ca.crt")))
	with := func(scheme, addr, authority string, parameters string) string {
		return scheme + strings.TrimPrefix(s.url(addr), "redis") + "&cacert=" + filepath.Join(authority, "ca.crt") + parameters
	}
	cert := func(dir string) string {
		return "&cert=" + filepath.Join(dir, "client.crt") + "&cert_key=" + filepath.Join(dir, "client.key")
	}
	const name = "&server_name=etcd.internal" // as the certificates have it
	secure := "127.0.0.1:" + port
	released(t, opened(t, with("rediss", secure, dir, name+cert(dir)), "a").campaign(soon(t)))
	refuses(t, with("rediss", secure, other, name+cert(dir)), "want cacert=FILE")
	refuses(t, with("rediss", secure, dir, cert(dir)), "want server_name=NAME")
	for _, own := range []string{"", cert(other)} {
		harness.Eventually(t, "it is refused", func() bool { // the connection may end before the client has read why
			e, err := redis.Open(t.Context(), driver.Target{URL: parse(t, with("rediss", secure, dir, name+own)), Name: "e", ID: "a"})
			if err == nil {
				_ = e.Close()
			}
			return driver.IsPermanent(err) && strings.Contains(err.Error(), "want cert=FILE and cert_key=FILE")
		})
	}
}

// redisPair is a master with a replica and a Sentinel that see it through cables, so that it can live on alone.
type redisPair struct {
	*slot
	master, replica, sentinel *server.Redis
	cut                       func(on bool)
}

func newRedisPair(t *testing.T, query string) *redisPair {
	t.Helper()
	p := &redisPair{master: server.StartRedis(t)}
	toReplica, toSentinel := cableTo(t, p.master.Addr), cableTo(t, p.master.Addr)
	host, port, _ := net.SplitHostPort(toReplica.Addr())
	p.replica = server.StartRedis(t, "--replicaof", host, port)
	harness.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(p.replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	p.sentinel = server.StartSentinel(t, toSentinel.Addr())
	client := p.sentinel.Client(t)
	harness.Eventually(t, "Sentinel knows the replica", func() bool {
		n, err := client.Do(t.Context(), "SENTINEL", "REPLICAS", "jobs").Slice()
		return err == nil && len(n) == 1
	})
	p.cut = func(on bool) {
		for _, c := range []*cable.Cable{toReplica, toSentinel} {
			if on {
				c.Cut()
			} else {
				c.Heal()
			}
		}
	}
	p.slot = newSlot(t, p.master)
	p.query = query
	return p
}

// followed is the place as the Sentinel knows it.
func (p *redisPair) followed() string { return p.url(p.sentinel.Addr) + "&master_name=jobs" }

// promoted waits until the replica is the master.
func (p *redisPair) promoted(t *testing.T) {
	t.Helper()
	client := p.replica.Client(t)
	harness.Eventually(t, "the replica takes over", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "role:master")
	})
}

// TestRedisFailover has Sentinel promote a replica in the middle of a term.
func TestRedisFailover(t *testing.T) {
	long.Full(t, "it starts servers, and waits for leases")
	// The old master lives on, and its leader still reaches it. Nothing that it writes there counts, so it is proven no
	// more when the next one leads, and tokens rise, because the replica has all that counts.
	t.Run("replicas=1, and the old master lives on", func(t *testing.T) {
		t.Parallel()
		p, ctx := newRedisPair(t, "&replicas=1"), soon(t)
		was := opened(t, p.url(""), "a").campaign(ctx)
		b := opened(t, p.followed(), "b")
		won := make(chan driver.Mandate, 1)
		go func() {
			m, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if m != nil && was.Check() == nil {
				t.Error("two are proven")
			}
			won <- m
		}()
		p.cut(true)
		p.promoted(t)
		lost(t, ctx, was, driver.ErrExpired)
		released(t, was)
		p.cut(false) // Sentinel makes the old master a replica, without which nothing counts
		is := <-won
		if is == nil {
			t.Fatal("nobody is elected at the new master")
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
		released(t, is)
	})
	// The same without waiting for the replica, which is what docs/redis.md warns of: two leaders, with one token.
	t.Run("replicas=any, and the old master lives on", func(t *testing.T) {
		t.Parallel()
		p, ctx := newRedisPair(t, "&replicas=any"), soon(t)
		a := opened(t, p.url(""), "a")
		released(t, a.campaign(ctx))
		p.do(t, "WAIT", 1, 10_000)
		p.cut(true)
		was := a.campaign(ctx)
		p.promoted(t)
		is := opened(t, p.followed(), "b").campaign(ctx)
		if was.Check() != nil || is.Token() > was.Token() {
			t.Errorf("%v, token %v after %v: that is safe; say in docs/redis.md why", was.Check(), is.Token(), was.Token())
		}
		p.cut(false)
		lost(t, ctx, was, driver.ErrExpired, driver.ErrSuperseded) // Sentinel makes its server a replica
		released(t, was)
		released(t, is)
		p.era++
		if n := opened(t, p.followed(), "c").campaign(ctx); n.Token() <= was.Token() {
			t.Errorf("token %v of the next era after %v", n.Token(), was.Token())
		}
	})
	t.Run("replicas=any, and the master dies", func(t *testing.T) {
		t.Parallel()
		p, ctx := newRedisPair(t, "&replicas=any"), soon(t)
		a, b := opened(t, p.followed(), "a"), opened(t, p.followed(), "b")
		was := a.campaign(ctx)
		p.do(t, "WAIT", 1, 10_000)
		p.master.Kill(t)
		won := make(chan driver.Mandate, 1)
		go func() {
			m, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if m != nil && was.Check() == nil {
				t.Error("two are proven")
			}
			won <- m
		}()
		p.promoted(t)
		select { // it may lead on at the new master
		case <-was.Context().Done():
		case <-time.After(10 * time.Second):
			if err := was.(driver.Confirmer).Confirm(ctx); err != nil {
				t.Errorf("it leads on, and %v", err)
			}
		}
		released(t, was)
		is := <-won
		if is == nil {
			t.Fatal("nobody is elected at the new master")
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
		released(t, is)
	})
}

// TestRedisShared: the participants of a process at one URL share a client and a connection that listens.
func TestRedisShared(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	s := newSlot(t, server.StartRedis(t))
	var all []driver.Elector
	for i := range 20 {
		u := parse(t, s.url(""))
		e, err := redis.Open(t.Context(), driver.Target{URL: u, Name: fmt.Sprint("e", i), ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	harness.Eventually(t, "all listen", func() bool { return s.client.PubSubNumSub(t.Context(), s.key).Val()[s.key] == 1 })
	for _, e := range all {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	harness.Eventually(t, "nothing is left", func() bool {
		list, err := s.client.ClientList(t.Context()).Result()
		return err == nil && strings.Count(list, "\n") == 1 // the administrator's
	})
}

//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/peer/certs"
	store "github.com/electd/elect/store/nats"
	"github.com/electd/elect/test/fencing/server"
)

// bucket is where the elections of one case are in NATS, and the era that its operator has given.
type bucket struct {
	server *server.NATS
	client jetstream.JetStream
	name   string
	times  string // of the elections
	era    int
}

var buckets atomic.Int64

func newBucket(t testing.TB, n *server.NATS) *bucket {
	t.Helper()
	return &bucket{server: n, client: n.Client(t), name: fmt.Sprintf("test%d", buckets.Add(1)), times: times}
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (b *bucket) url(addr string) string {
	if addr == "" {
		addr = b.server.Addr
	}
	return fmt.Sprintf("nats://%s/%s?%s&era=%d", addr, b.name, b.times, b.era)
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (b *bucket) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, b.server.Addr, b.url, name, id)
}

// elector is a participant of the election "e" in this process.
func (b *bucket) elector(t *testing.T, id string) local {
	t.Helper()
	return opened(t, b.url(""), id)
}

func (b *bucket) remove(t testing.TB) {
	t.Helper()
	if err := b.client.DeleteKeyValue(t.Context(), b.name); err != nil {
		t.Fatal(err)
	}
}

// values is the bucket as NATS users have it.
func (b *bucket) values(t testing.TB) jetstream.KeyValue {
	t.Helper()
	kv, err := b.client.KeyValue(t.Context(), b.name)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// key is the only key of the bucket.
func (b *bucket) key(t testing.TB) string {
	t.Helper()
	keys, err := b.values(t).Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v; want one", keys, err)
	}
	return keys[0]
}

// TestNATSConformance has each participant in a process of its own, at a real NATS.
func TestNATSConformance(t *testing.T) {
	long.Full(t, "it takes minutes; databases are asked by the same suite")
	n := server.StartNATS(t)
	of := perCase(func(t testing.TB) *bucket { return newBucket(t, n) })
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the tests of store/internal/register do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(n),
		Recreate: func(t testing.TB) {
			of(t).remove(t)
			of(t).era++
		},
	})
}

// lossyNATS is a connection that garbles answers to writes, so that they tell as little as lost ones.
type lossyNATS struct {
	net.Conn
	loss *loss
}

func (c lossyNATS) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for _, begins := range []string{"\r\n{\"stream\":", "\r\n{\"error\":"} { // answers to others have a type first
		if at := bytes.Index(b[:n], []byte(begins)); at >= 0 && c.loss.of(err) != nil {
			b[at+2] = '!'
		}
	}
	return n, err
}

// Dial makes such a connection.
func (l *loss) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return lossyNATS{c, l}, err
}

// TestNATSAgreement: the store answers as the simulator's register does.
func TestNATSAgreement(t *testing.T) {
	long.Test(t, "it starts a server")
	n := server.StartNATS(t)
	agrees(t, storetest.Register, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		b := newBucket(t, n)
		participant := func(id string, l *loss) driver.Elector {
			c, err := nats.Connect("nats://"+n.Addr, nats.SetCustomDialer(l), nats.ReconnectBufSize(-1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			e, err := store.New(t.Context(), c, "e", id, store.Config{Bucket: b.name, Lease: time.Hour, MaxLease: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return participant, func(protocol.Entry) {
			if err := b.values(t).Delete(t.Context(), b.key(t)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNATSByHand has a leader whose key or bucket is deleted or purged by hand. It ends, the next one is not proven
// before it has, and tokens rise, but for a bucket that was made again: that needs another era.
func TestNATSByHand(t *testing.T) {
	long.Test(t, "it starts a server, and waits for leases")
	t.Parallel()
	n := server.StartNATS(t)
	for name, do := range map[string]func(t *testing.T, b *bucket) error{
		"key deleted": func(t *testing.T, b *bucket) error { return b.values(t).Delete(t.Context(), b.key(t)) },
		"key purged":  func(t *testing.T, b *bucket) error { return b.values(t).Purge(t.Context(), b.key(t)) },
		"bucket purged": func(t *testing.T, b *bucket) error {
			s, err := b.client.Stream(t.Context(), "KV_"+b.name)
			if err != nil {
				return err
			}
			return s.Purge(t.Context())
		},
		"bucket made again": func(t *testing.T, b *bucket) error {
			b.remove(t)
			_, err := b.client.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: b.name})
			if errors.Is(err, jetstream.ErrBucketExists) {
				return nil // a candidate was earlier
			}
			return err
		},
		"bucket deleted": func(t *testing.T, b *bucket) error { b.remove(t); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t, n)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, id := range []string{"x", "y", "z"} { // so that tokens are above those of a new bucket
				e := b.elector(t, id)
				released(t, e.campaign(ctx))
			}
			m := b.elector(t, "a").campaign(ctx)
			next := make(chan driver.Mandate, 1)
			second := b.elector(t, "b")
			shows(t, ctx, second, "a") // a token that it has not seen does not bind it in another bucket
			go func() {
				n, _ := second.Campaign(ctx, driver.Candidacy{Exclusive: true})
				if n != nil && m.Check() == nil {
					t.Error("two are proven")
				}
				next <- n
			}()
			if err := do(t, b); err != nil {
				t.Fatal(err)
			}
			lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
			released(t, m)
			is := <-next
			if is == nil {
				t.Fatal("the next one does not win")
			}
			if is.Token() <= m.Token() {
				t.Errorf("token %v after %v, which it has seen", is.Token(), m.Token())
			}
			released(t, is)

			// One that has seen nothing.
			fresh := b.elector(t, "c")
			again := fresh.campaign(ctx)
			if again.Token() <= is.Token() {
				t.Errorf("token %v after %v", again.Token(), is.Token())
			}
			released(t, again)
		})
	}
}

// TestNATSTokens: a participant that has seen nothing before has a greater token after a key was deleted, because
// revisions go on; after a bucket was made again the token comes again, which a raised era prevents.
func TestNATSTokens(t *testing.T) {
	long.Test(t, "it starts a server, and waits for leases")
	t.Parallel()
	b := newBucket(t, server.StartNATS(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lead := func(id string) (token uint64) {
		e := b.elector(t, id)
		m := e.campaign(ctx)
		released(t, m)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		return uint64(m.Token())
	}
	lead("a")
	was := lead("b")
	if err := b.values(t).Purge(ctx, b.key(t)); err != nil {
		t.Fatal(err)
	}
	is := lead("c")
	if is <= was {
		t.Errorf("token %v after %v, whose key was purged", is, was)
	}
	b.remove(t)
	if again := lead("d"); again > is {
		t.Errorf("token %v after %v, of which a new bucket knows nothing; say in docs/nats.md why it rises", again, is)
	}
	b.era++
	if again := lead("e"); again <= is {
		t.Errorf("token %v of the next era after %v", again, is)
	}
}

// TestNATSNonsense: a value that is not elect's elects nobody, and takes the lease of a leader that cannot renew it.
func TestNATSNonsense(t *testing.T) {
	long.Test(t, "it starts a server, and waits for leases")
	t.Parallel()
	b := newBucket(t, server.StartNATS(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := b.elector(t, "a").campaign(ctx)
	if _, err := b.values(t).PutString(ctx, b.key(t), "nonsense"); err != nil {
		t.Fatal(err)
	}
	lost(t, ctx, m, driver.ErrExpired)
	released(t, m)
	for s, err := range b.elector(t, "b").Watch(ctx) {
		if err != nil || s.Stale {
			if s.Cause == nil || !strings.Contains(s.Cause.Error(), "not one of elect's") {
				t.Errorf("%+v, %v; want what is wrong with the record", s, err)
			}
			break
		}
	}
	if err := b.values(t).Delete(ctx, b.key(t)); err != nil {
		t.Fatal(err)
	}
	n := b.elector(t, "c").campaign(ctx)
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v", n.Token(), m.Token())
	}
	released(t, n)
}

// TestNATSRefused: a bucket that may drop what it has acknowledged is refused, and so are users without the rights.
func TestNATSRefused(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	n := server.StartNATS(t, `no_auth_user: all`, `accounts: { A: { jetstream: enabled, users: [`,
		`  {user: all, password: all},`,
		`  {user: reader, password: reader, permissions: {publish: {deny: ["$KV.>"]}}},`,
		`  {user: nobody, password: nobody, permissions: {publish: {deny: ["$JS.API.>"]}}},`,
		`] }, B: { users: [{user: without, password: without}] } }`)
	of := newBucket(t, n)
	if _, err := of.client.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: of.name}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*jetstream.StreamConfig){
		"it is a mirror": func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "KV_" + of.name}, nil
		},
		"takes messages of other streams": func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_" + of.name}} },
		"it is in memory":                 func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode is async":           func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"its retention":                   func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"max_age":                         func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"allow_msg_ttl":                   func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"discard is old":                  func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"no_ack":                          func(c *jetstream.StreamConfig) { c.NoAck = true },
		"a subject_transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: c.Subjects[0], Destination: "other.>"}
		},
		"it keeps all revisions": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
		"max_msg_size is 1000":   func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
	} {
		b := newBucket(t, n)
		c := jetstream.StreamConfig{
			Name: "KV_" + b.name, Subjects: []string{"$KV." + b.name + ".>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
		}
		change(&c)
		if _, err := of.client.CreateStream(t.Context(), c); err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		refuses(t, b.url(""), want)
	}
	for _, refused := range []struct{ at, want string }{
		{"nats://all:wrong@" + n.Addr, "want a user that may connect"},
		{"nats://nobody:nobody@" + n.Addr + "/" + of.name, `want a user that may publish to "$JS.API.>"`},
		{"nats://without:without@" + n.Addr + "/" + of.name, "want a user whose account has JetStream"},
		{"nats://" + n.Addr + "/" + of.name + "?tls=on", "want tls=off"},
	} {
		refuses(t, refused.at, refused.want)
	}
	u := parse(t, "nats://reader:reader@"+n.Addr+"/"+of.name)
	e, err := openers[u.Scheme](t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `"$KV.BUCKET.>"`) {
		t.Errorf("%v; want a permanent error about the right to write", err)
	}
}

// TestNATSTLS: with the right certificates a candidate leads. Otherwise one line says at once what would be right.
func TestNATSTLS(t *testing.T) {
	long.Full(t, "it starts a real server")
	dir, other := issued(t, certs.Options{}), issued(t, certs.Options{})
	n := server.StartNATS(t, fmt.Sprintf("tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true}",
		filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"), filepath.Join(dir, "ca.crt")))
	with := func(authority, parameters string) string {
		return "nats://" + n.Addr + "/elect?" + times + "&cacert=" + filepath.Join(authority, "ca.crt") + parameters
	}
	cert := func(dir string) string {
		return "&cert=" + filepath.Join(dir, "client.crt") + "&cert_key=" + filepath.Join(dir, "client.key")
	}
	const name = "&server_name=etcd.internal" // as the certificates have it
	released(t, opened(t, with(dir, name+cert(dir)), "a").campaign(soon(t)))
	refuses(t, with(other, name+cert(dir)), "want cacert=FILE")
	refuses(t, with(dir, cert(dir)), "want server_name=NAME")
	for _, own := range []string{"", cert(other)} {
		refuses(t, with(dir, name+own), "want cert=FILE and cert_key=FILE")
	}
}

// leadNATS leads as programs that use NATS do: with a key that expires 2 s after its last renewal.
func leadNATS(ctx context.Context, at string) (func(), error) {
	c, err := nats.Connect(at)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "native", TTL: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "standing by")
	revision, err := kv.Create(ctx, "leader", nil)
	for errors.Is(err, jetstream.ErrKeyExists) {
		<-time.After(100 * time.Millisecond) // an expiry is not told
		revision, err = kv.Create(ctx, "leader", nil)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for err == nil {
			<-time.After(500 * time.Millisecond)
			revision, err = kv.Update(ctx, "leader", nil, revision)
		}
	}()
	return func() { _ = kv.Delete(context.Background(), "leader") }, nil
}

// bucketLeader returns the server that leads a bucket, another, and what is known of all; nil if none tells it.
func bucketLeader(t *testing.T, members []*server.NATS, bucket string) (leader, follower *server.NATS, all *jetstream.ClusterInfo) {
	t.Helper()
	for _, m := range members {
		c, err := nats.Connect("nats://" + m.Addr)
		if err != nil {
			continue
		}
		js, err := jetstream.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		s, err := js.Stream(ctx, "KV_"+bucket)
		cancel()
		c.Close()
		if err != nil || s.CachedInfo().Cluster == nil {
			continue
		}
		for i, m := range members {
			if all = s.CachedInfo().Cluster; m.Name == all.Leader {
				return m, members[(i+1)%len(members)], all
			}
		}
	}
	return nil, nil, nil
}

// TestNATSCluster: elections go on over faults of a cluster of NATS and of the way to it. Its servers wait 4 to 9 s
// before they elect another leader of the bucket, which a lease of 18 s outlives.
func TestNATSCluster(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy")
	w := newWorkers(t)
	members := server.StartNATSCluster(t, 3)
	var cables [3][3]*cable.Cable // by worker
	for node := range cables {
		var places []string
		for i, m := range members {
			k := cableTo(t, m.Addr)
			cables[node][i], places = k, append(places, k.Addr())
		}
		w.start(node, fmt.Sprintf("nats://%s/cluster?lease=18s&max_lease=18s&poll=2s", strings.Join(places, ",")))
	}
	leads := func() (leader, follower *server.NATS) {
		t.Helper()
		harness.Eventually(t, "the bucket has a leader, and all follow", func() bool {
			var c *jetstream.ClusterInfo
			leader, follower, c = bucketLeader(t, members, "cluster")
			return leader != nil && !slices.ContainsFunc(c.Replicas, func(r *jetstream.PeerInfo) bool {
				return r.Offline || !r.Current // the fault before is not over
			})
		})
		return leader, follower
	}
	w.leader()
	kept := func(fault string, begin, end func(), lasts time.Duration) {
		t.Helper()
		if before, after := w.during(fault, begin, end, lasts); before.Token != after.Token {
			t.Errorf("%s: the term %d has ended; want it to go on", fault, before.Token)
		}
	}
	leader, follower := leads()
	created := func() time.Time {
		t.Helper()
		leads()
		s, err := follower.Client(t).Stream(t.Context(), "KV_cluster")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Created
	}
	was := created()
	kept("a follower is killed", func() { follower.Kill(t) }, func() { follower.Start(t) }, 10*time.Second)
	kept("the bucket's leader is killed", func() { leader.Kill(t) }, nil, 20*time.Second)
	leader.Start(t)
	if is := created(); !is.Equal(was) {
		t.Errorf("the bucket was made at %v, after another leader was elected; want %v, because that is its incarnation", is, was)
	}
	leader, follower = leads()
	kept("the bucket's leader is paused", func() { leader.Pause(t, true) }, func() { leader.Pause(t, false) }, 20*time.Second)
	leader, follower = leads()
	// It answers its clients for a while, so the term may end. Then somebody leads at the others.
	w.during("the bucket's leader is cut from the other servers", func() { leader.Cut(true) }, func() {
		if l := w.last(); w.ledger.Now()-l.Last > int64(time.Second) {
			t.Error("nobody leads while the bucket's leader is cut from the other servers; want somebody at the others")
		}
		leader.Cut(false)
	}, 40*time.Second)
	leader, follower = leads()
	kept("a follower is cut from the other servers", func() { follower.Cut(true) }, func() { follower.Cut(false) }, 30*time.Second)
	for i := range members {
		k := cables[w.leader().Node][i]
		kept(fmt.Sprintf("the client is cut from server %d", i+1), k.Cut, k.Heal, 10*time.Second)
	}
	at := w.leader()
	before, after := w.during("the client is cut from all servers", func() {
		for _, k := range cables[at.Node] {
			k.Cut()
		}
	}, nil, 30*time.Second)
	if before.Node == after.Node {
		t.Errorf("n%d leads on, and reaches no server", before.Node)
	}
	for _, k := range cables[at.Node] {
		k.Heal()
	}
	_, _ = w.during("two servers are killed", func() { members[0].Kill(t); members[1].Kill(t) }, func() {
		if l := w.last(); w.ledger.Now()-l.Last < int64(time.Second) {
			t.Errorf("n%d leads without a majority of the bucket's servers", l.Node)
		}
		server.StartNATSServers(t, members[:2]...)
	}, 25*time.Second)
}

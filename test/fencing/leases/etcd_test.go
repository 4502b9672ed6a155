//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/test/fencing/server"
)

// startEtcd starts a server that leaves the syncing to the kernel: it is killed, and its computer is
// not. A disk that is busy with other tests delays no renewal then. A password costs it little.
func startEtcd(t testing.TB) *server.Etcd {
	t.Helper()
	return server.StartEtcd(t, "--unsafe-no-fsync", "--bcrypt-cost", "4")
}

// keys is where the elections of one case are in etcd, and the era that its operator has given.
type keys struct {
	etcd   *server.Etcd
	client *clientv3.Client
	prefix string
	times  string // of the elections
	era    int
}

// slow has proofs that last for 5 s, so that no pause of a busy machine ends a term; quick is for
// cases that can do with such an end.
const (
	slow  = "lease=12s&max_hold=6s&poll=3s"
	quick = "lease=6s&max_hold=3s&poll=3s"
)

var prefixes atomic.Int64

func newKeys(t testing.TB, e *server.Etcd) *keys {
	t.Helper()
	return &keys{etcd: e, client: e.Client(t), prefix: fmt.Sprintf("/test%d", prefixes.Add(1)), times: slow}
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (k *keys) url(addr string) string {
	if addr == "" {
		addr = strings.TrimPrefix(k.etcd.URL, "http://")
	}
	return fmt.Sprintf("etcd://%s%s?%s&era=%d", addr, k.prefix, k.times, k.era)
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (k *keys) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, strings.TrimPrefix(k.etcd.URL, "http://"), k.url, name, id)
}

func (k *keys) delete(t testing.TB) {
	t.Helper()
	if _, err := k.client.Delete(t.Context(), k.prefix+"/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

// elector is a participant of the election "e" in this process.
func (k *keys) elector(t *testing.T, id string, log *slog.Logger) local {
	t.Helper()
	return logged(t, k.url(""), id, log)
}

// first is the first key of the election "e".
func (k *keys) first(t *testing.T) (key string, lease clientv3.LeaseID) {
	t.Helper()
	r, err := k.client.Get(t.Context(), k.prefix+"/e/", clientv3.WithFirstCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		t.Fatal("the election has no key")
	}
	return string(r.Kvs[0].Key), clientv3.LeaseID(r.Kvs[0].Lease)
}

// lost waits until a mandate has ended for that reason.
func lost(t *testing.T, ctx context.Context, m driver.Mandate, why ...error) {
	t.Helper()
	select {
	case <-m.Context().Done():
	case <-ctx.Done():
		t.Fatal("it leads on")
	}
	for _, w := range why {
		if errors.Is(m.Check(), w) {
			return
		}
	}
	t.Errorf("it has ended with %v; want one of %v", m.Check(), why)
}

func released(t *testing.T, m driver.Mandate) {
	t.Helper()
	if err := m.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEtcdConformance has each participant in a process of its own, at a real etcd.
func TestEtcdConformance(t *testing.T) {
	long.Full(t, "it takes minutes; databases are asked by the same suite")
	e := startEtcd(t)
	of := perCase(func(t testing.TB) *keys {
		p := newKeys(t, e)
		p.times = quick
		return p
	})
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the tests of store/internal/queue do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(e),
		Recreate: func(t testing.TB) {
			of(t).delete(t)
			of(t).era++
		},
	})
}

// TestEtcdByHand has a leader whose lease is revoked, or whose key is deleted or written over, by
// hand. It ends, and the next one is not proven before it has.
func TestEtcdByHand(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	e := startEtcd(t)
	for name, do := range map[string]func(t *testing.T, k *keys, key string, lease clientv3.LeaseID) error{
		"lease revoked": func(t *testing.T, k *keys, _ string, lease clientv3.LeaseID) error {
			_, err := k.client.Revoke(t.Context(), lease)
			return err
		},
		"key deleted": func(t *testing.T, k *keys, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Delete(t.Context(), key)
			return err
		},
		"key without its lease": func(t *testing.T, k *keys, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Put(t.Context(), key, "mine")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t, e)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			m := k.elector(t, "a", nil).campaign(ctx)
			key, lease := k.first(t)
			if err := do(t, k, key, lease); err != nil {
				t.Fatal(err)
			}
			next := make(chan driver.Mandate, 1)
			b := k.elector(t, "b", nil)
			go func() {
				n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
				if n != nil && m.Check() == nil {
					t.Error("two are proven")
				}
				next <- n
			}()
			lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
			released(t, m)
			n := <-next
			if n == nil {
				t.Fatal("the next one does not win")
			}
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			released(t, n)
		})
	}
}

// TestEtcdNonsense: values that are not elect's neither stop an election nor end a term. A mark that
// is not elect's is said, and makes the next leader wait.
func TestEtcdNonsense(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m := k.elector(t, "a", nil).campaign(ctx)
	key, lease := k.first(t)
	if _, err := k.client.Put(ctx, key, "\xff nonsense", clientv3.WithLease(lease)); err != nil {
		t.Fatal(err)
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("%v; want a leader whose text was written over to lead on", err)
	}
	log := &bytes.Buffer{}
	b := k.elector(t, "b", slog.New(slog.NewTextHandler(log, nil)))
	for s, err := range b.Watch(ctx) {
		if err != nil || s.Leader == nil || s.Leader.ID != "foreign-"+strconv.FormatInt(int64(lease), 16) || s.Leader.Token != m.Token() {
			t.Errorf("%+v, %v; want a foreign leader with token %v", s, err, m.Token())
		}
		break
	}
	released(t, m)
	if _, err := k.client.Put(ctx, k.prefix+"/e.elect", "nonsense"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	n := b.campaign(ctx)
	if took := time.Since(start); took < 6*time.Second {
		t.Errorf("it leads after %v, while nothing tells of the leader before it; want max_hold", took)
	}
	released(t, n)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "not one of elect's") {
		t.Errorf("nothing says that the mark is foreign: %s", log)
	}
}

// TestEtcdRestored: after a restore from a backup tokens come again, which a raised era prevents.
func TestEtcdRestored(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	lead := func(id string) fence.Token {
		l := k.elector(t, id, nil)
		m := l.campaign(ctx)
		released(t, m)
		if err := l.Close(); err != nil { // participants are stopped before a restore
			t.Error(err)
		}
		return m.Token()
	}
	lead("a")
	k.etcd.Kill(t)
	restore := k.etcd.Backup(t)
	k.etcd.Start(t)
	lead("b")
	was := lead("c")
	k.etcd.Kill(t)
	restore()
	k.etcd.Start(t)
	if is := lead("d"); is > was {
		t.Errorf("token %v after %v, of which the backup knows nothing; say in docs/etcd.md why it rises", is, was)
	}
	k.era++
	if is := lead("e"); is <= was {
		t.Errorf("token %v of the next era after %v", is, was)
	}
}

// TestEtcdRights: a user who may not do what an election needs is refused at the start, and the
// rights that docs/etcd.md asks for are enough.
func TestEtcdRights(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, may := k.client, clientv3.PermissionType(clientv3.PermReadWrite)
	for _, do := range []func() error{
		func() error { _, err := c.RoleAdd(ctx, "job"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "job", k.prefix+"/e", clientv3.GetPrefixRangeEnd(k.prefix+"/e"), may)
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "root", "all"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "job", "se:cret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "job", "job"); return err },
		func() error { _, err := c.UserAdd(ctx, "stranger", "se:cret"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	open := func(user string) (driver.Elector, error) {
		u, err := url.Parse(strings.Replace(k.url(""), "://", "://"+user, 1))
		if err != nil {
			t.Fatal(err)
		}
		for {
			e, err := etcd.Open(ctx, driver.Target{URL: u, Name: "e", ID: "a"})
			if err == nil || driver.IsPermanent(err) || ctx.Err() != nil {
				return e, err
			}
		}
	}
	for user, want := range map[string]string{"": "want a user with the right", "stranger:se%3Acret@": "role grant-permission ROLE readwrite --prefix " + k.prefix, "job:wrong@": "authentication failed"} {
		e, err := open(user)
		if err == nil {
			_ = e.Close()
		}
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("user %q: %v; want a permanent error with %q", user, err, want)
		}
	}
	e, err := open("job:se%3Acret@")
	if err != nil {
		t.Fatal(err)
	}
	l := local{e, t}
	released(t, l.campaign(ctx))
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	k.etcd.Kill(t)
	if e, err = open("job:se%3Acret@"); err != nil {
		t.Fatalf("while no server answers: %v", err)
	}
	k.etcd.Start(t)
	released(t, local{e, t}.campaign(ctx))
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

//go:build linux && cgo

package leases_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// byHand is the time for a change by hand. A server that is down does not answer in it.
const byHand = time.Second

// hand does something by hand, in its time.
func hand(t *testing.T, do func(ctx context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(t.Context(), byHand)
		defer cancel()
		return do(ctx)
	}
}

// once is what is done by hand, and has an end that may be nil.
func once(t *testing.T, name string, do func(ctx context.Context) error, end func() error) fault {
	return fault{name, func(*rand.Rand) (func() error, error) { return end, hand(t, do)() }}
}

// edits returns the fault that replaces an election's record by nonsense, which elect never overwrites, and what puts the
// record back. replace replaces a record that is still there, and reports whether it was.
func edits(t *testing.T, read func(context.Context) (string, error), replace func(ctx context.Context, old, with string) (bool, error)) (fault, func(context.Context) error) {
	was := map[string]string{} // by the nonsense in its place
	heal := func(ctx context.Context) (err error) {
		for nonsense, record := range was {
			_, failed := replace(ctx, nonsense, record)
			err = errors.Join(err, failed)
		}
		return err
	}
	return fault{"edited to nonsense, and back", func(r *rand.Rand) (func() error, error) {
		nonsense := []string{"nonsense", `{"format":2}`, ""}[r.IntN(3)] + strings.Repeat(" ", len(was))
		return hand(t, heal), hand(t, func(ctx context.Context) error {
			for {
				record, err := read(ctx)
				if err != nil {
					return err
				}
				was[nonsense] = cmp.Or(was[record], record) // the last end may have failed, and a write that fails may land yet
				if done, err := replace(ctx, record, nonsense); done || err != nil {
					return err
				}
			}
		})()
	}}, heal
}

// hurts are the faults of a server's process.
func hurts(t *testing.T, name string, p func() process) victim {
	return victim{name, []fault{
		{"killed", func(*rand.Rand) (func() error, error) {
			p := p()
			p.Kill(t)
			return func() error { p.Start(t); return nil }, nil
		}},
		{"paused", func(*rand.Rand) (func() error, error) {
			p := p()
			p.Pause(t, true)
			return func() error { p.Pause(t, false); return nil }, nil
		}},
	}}
}

// site has an election in a database of its own.
func (d *database) site(t *testing.T) *site {
	p := d.place(t)
	s := &site{url: func(addrs []string) string { return p.url(strings.Join(addrs, ",")) }}
	if d.server != nil {
		s.addrs = []string{p.at.Host}
		s.victims = []victim{hurts(t, "server", func() process { return d.server })}
	}
	row, heal := rows(t, func() *place { return p })
	s.victims, s.heal = append(s.victims, row), heal
	return s
}

// rows returns what is done to an election's row by hand, and what undoes it: elect never
// overwrites nonsense.
func rows(t *testing.T, at func() *place) (victim, func(context.Context) error) {
	dbs := map[*place]*sql.DB{}
	db := func() *sql.DB {
		p := at()
		if dbs[p] == nil {
			dbs[p] = p.open(t)
		}
		return dbs[p]
	}
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	edited, restore := edits(t, func(ctx context.Context) (record string, err error) {
		return record, db().QueryRowContext(ctx, "SELECT record FROM elect_leases WHERE name = 'e'").Scan(&record)
	}, func(ctx context.Context, old, with string) (bool, error) {
		done, err := db().ExecContext(ctx, "UPDATE elect_leases SET record = "+quoted(with)+" WHERE name = 'e' AND record = "+quoted(old))
		if err != nil {
			return false, err
		}
		n, err := done.RowsAffected()
		return n == 1, err
	})
	heal := func(ctx context.Context) error {
		_, err := db().ExecContext(ctx, "DELETE FROM elect_leases WHERE name <> 'e'")
		return errors.Join(err, restore(ctx))
	}
	return victim{"row", []fault{
		edited,
		once(t, "beside another program's", func(ctx context.Context) error {
			_, err := db().ExecContext(ctx, "INSERT INTO elect_leases (name, record) VALUES ('other', 'mine')")
			return err
		}, hand(t, heal)),
		{"locked by another program", func(*rand.Rand) (func() error, error) {
			ctx, cancel := context.WithCancel(t.Context()) // its end rolls back, and waits for nothing
			end := func() error { cancel(); return nil }
			timer := time.AfterFunc(byHand, cancel)
			defer timer.Stop()
			tx, err := db().BeginTx(ctx, nil)
			if err != nil {
				return end, err
			}
			statement := "SELECT record FROM elect_leases WHERE name = 'e' FOR UPDATE"
			if at().dialect == sqlstore.SQLite {
				statement = "DELETE FROM elect_leases WHERE name = 'none'"
			}
			_, err = tx.ExecContext(ctx, statement)
			return end, err
		}},
	}}, heal
}

// newPairSite has a PostgreSQL with a synchronous standby, which is promoted once.
func newPairSite(t *testing.T) *site {
	p := newPair(t)
	p.synchronous()
	after := p.after.open(t)
	harness.Eventually(t, "the standby has the table", func() bool { // a database that does not exist is refused for good
		_, err := after.ExecContext(t.Context(), "SELECT FROM elect_leases")
		return err == nil
	})
	primary, at, standby := p.primary, p.at, p.standby
	s := &site{
		addrs: []string{p.at.at.Host, p.after.at.Host},
		url: func(addrs []string) string {
			return p.at.url(strings.Join(addrs, ",")) + "&target_session_attrs=read-write"
		},
	}
	servers := hurts(t, "primary", func() process { return primary })
	other := hurts(t, "standby", func() process { return p.standby })
	for _, f := range other.faults {
		servers.faults = append(servers.faults, fault{"of which the standby is " + f.name, func(r *rand.Rand) (func() error, error) {
			if standby == nil {
				return nil, errors.New("it was promoted")
			}
			return f.begin(r)
		}})
	}
	servers.faults = append(servers.faults, fault{"replaced by its standby, while it lives on", func(*rand.Rand) (func() error, error) {
		if standby == nil {
			return nil, errors.New("it was promoted")
		}
		old := primary
		standby.Promote(t)
		primary, at, standby = standby, p.after, nil
		return func() error { old.Kill(t); return nil }, nil
	}}, fault{"killed, and replaced by its standby", func(*rand.Rand) (func() error, error) {
		if standby == nil {
			return nil, errors.New("it was promoted")
		}
		primary.Kill(t)
		standby.Promote(t)
		primary, at, standby = standby, p.after, nil
		return nil, nil
	}})
	row, heal := rows(t, func() *place { return at })
	s.victims, s.heal = []victim{servers, row}, heal
	return s
}

// newEtcdSites starts an etcd of three members.
func newEtcdSites(t *testing.T) func(t *testing.T) *site {
	members := server.StartEtcdCluster(t, 3, "--unsafe-no-fsync")
	var addrs, urls []string
	for _, m := range members {
		urls, addrs = append(urls, m.URL), append(addrs, strings.TrimPrefix(m.URL, "http://"))
	}
	return func(t *testing.T) *site {
		client, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		prefix := fmt.Sprintf("/storm%d", prefixes.Add(1))
		s := &site{addrs: addrs, url: func(addrs []string) string {
			return "etcd://" + strings.Join(addrs, ",") + prefix + "?" + quick
		}}
		key, servers := keysByHand{t, client, prefix + "/e"}, memberFaults(t, "etcd", members, server.StartEtcds, func() (*server.Etcd, error) {
			leader, _ := etcdLeader(t, members)
			return leader, nil
		})
		servers.faults = append(servers.faults, once(t, "leader changed", func(ctx context.Context) error {
			leader, other := etcdLeader(t, members)
			to, err := other.Client(t).Status(ctx, other.URL)
			if err == nil {
				_, err = leader.Client(t).MoveLeader(ctx, to.Header.MemberId)
			}
			return err
		}, nil))
		s.victims, s.heal = []victim{servers, key.victim()}, key.heal
		return s
	}
}

// newRedisSites starts a Redis.
func newRedisSites(t *testing.T) func(t *testing.T) *site {
	r := server.StartRedis(t)
	return func(t *testing.T) *site {
		s := newSlot(t, r)
		v, heal := s.byHand(t)
		return &site{
			addrs: []string{r.Addr}, url: func(addrs []string) string { return s.url(addrs[0]) },
			victims: []victim{hurts(t, "server", func() process { return r }), v}, heal: heal,
		}
	}
}

// newRedisPairSite has a Redis whose replica must have each write. Sentinel promotes the replica when the ways to the
// master are cut, while all workers can reach it, and makes the old master a replica when they are healed.
func newRedisPairSite(t *testing.T) *site {
	p := newRedisPair(t, "&replicas=1")
	return &site{
		addrs: []string{p.sentinel.Addr}, url: func(addrs []string) string { return p.url(addrs[0]) + "&master_name=jobs" },
		victims: []victim{hurts(t, "replica", func() process { return p.replica }), {"master", []fault{
			{"cut off from replica and Sentinel", func(*rand.Rand) (func() error, error) {
				p.cut(true)
				return func() error { p.cut(false); return nil }, nil
			}},
		}}},
		heal: func(ctx context.Context) error { // Sentinel takes its time to make the old master a replica
			for _, r := range []*server.Redis{p.master, p.replica} {
				info, err := r.Client(t).Info(ctx, "replication").Result()
				if err == nil && strings.Contains(info, "role:master") && strings.Contains(info, "connected_slaves:1") {
					return nil
				}
			}
			return errors.New("no master has a replica")
		},
	}
}

// byHand is what is done to an election's key by hand, and what undoes it.
func (s *slot) byHand(t *testing.T) (victim, func(context.Context) error) {
	replace := goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0`)
	edited, heal := edits(t, func(ctx context.Context) (string, error) { return s.client.Get(ctx, s.key).Result() },
		func(ctx context.Context, old, with string) (bool, error) {
			return replace.Run(ctx, s.client, []string{s.key}, old, with).Bool()
		})
	do := func(name string, command ...any) fault {
		return once(t, name, func(ctx context.Context) error { return s.client.Do(ctx, command...).Err() }, nil)
	}
	return victim{"key", []fault{
		edited,
		do("given an expiry", "EXPIRE", s.key, 60),
		do("without the scripts", "SCRIPT", "FLUSH"),
		do("in a server that is paused for writes", "CLIENT", "PAUSE", 1500, "WRITE"),
		do("in a server that ends all connections", "CLIENT", "KILL", "TYPE", "normal"),
	}}, heal
}

// memberFaults are those of servers that elect a leader among them. Each ends before the next one. start starts some that
// were killed.
func memberFaults[S process](t *testing.T, name string, members []S, start func(testing.TB, ...S), leader func() (S, error)) victim {
	killed := func(of ...S) func() error {
		for _, m := range of {
			m.Kill(t)
		}
		return func() error { start(t, of...); return nil }
	}
	paused := func(of ...S) func() error {
		for _, m := range of {
			m.Pause(t, true)
		}
		return func() error {
			for _, m := range of {
				m.Pause(t, false)
			}
			return nil
		}
	}
	faults := func(what string, hurt func(...S) func() error) []fault {
		some := func(name string, n int) fault {
			return fault{name + what, func(r *rand.Rand) (func() error, error) {
				var of []S
				for _, i := range r.Perm(len(members))[:n] {
					of = append(of, members[i])
				}
				return hurt(of...), nil
			}}
		}
		return []fault{some("one member ", 1), some("two members ", 2), {"leader " + what, func(*rand.Rand) (func() error, error) {
			m, err := leader()
			if err != nil {
				return nil, err
			}
			return hurt(m), nil
		}}}
	}
	return victim{name, slices.Concat(faults("killed", killed), faults("paused", paused))}
}

// keysByHand is an election whose keys are changed by hand.
type keysByHand struct {
	t      *testing.T
	client *clientv3.Client
	key    string
}

// heal deletes keys without a lease, which are candidates that never leave.
func (k *keysByHand) heal(ctx context.Context) error {
	r, err := k.client.Get(ctx, k.key+"/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range r.Kvs {
		if kv.Lease == 0 {
			_, failed := k.client.Delete(ctx, string(kv.Key))
			err = errors.Join(err, failed)
		}
	}
	return err
}

func (k *keysByHand) victim() victim {
	first := func(name string, do func(ctx context.Context, key string, lease clientv3.LeaseID) error) fault {
		return once(k.t, name, func(ctx context.Context) error {
			r, err := k.client.Get(ctx, k.key+"/", clientv3.WithFirstCreate()...)
			if err == nil && len(r.Kvs) == 0 {
				err = errors.New("the election has no key")
			}
			if err == nil {
				err = do(ctx, string(r.Kvs[0].Key), clientv3.LeaseID(r.Kvs[0].Lease))
			}
			return err
		}, hand(k.t, k.heal))
	}
	return victim{"keys", []fault{
		first("the leader's lease revoked", func(ctx context.Context, _ string, lease clientv3.LeaseID) error {
			_, err := k.client.Revoke(ctx, lease)
			return err
		}),
		first("the leader's deleted", func(ctx context.Context, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Delete(ctx, key)
			return err
		}),
		first("the leader's written without its lease", func(ctx context.Context, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, key, "mine")
			return err
		}),
		first("the leader's edited to nonsense", func(ctx context.Context, key string, lease clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, key, "\xff nonsense", clientv3.WithLease(lease))
			return err
		}),
		first("the mark edited to nonsense", func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, k.key+".elect", "nonsense")
			return err
		}),
		first("the mark deleted", func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			_, err := k.client.Delete(ctx, k.key+".elect")
			return err
		}),
		first("beside another program's, which stands and dies", func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			lease, err := k.client.Grant(ctx, 4)
			if err == nil {
				_, err = k.client.Put(ctx, fmt.Sprintf("%s/%x", k.key, lease.ID), "mine", clientv3.WithLease(lease.ID))
			}
			return err
		}),
	}}
}

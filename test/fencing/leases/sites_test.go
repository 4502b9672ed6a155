//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// byHand is the time for a change by hand. A server that is down does not answer in it.
const byHand = time.Second

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
	was := map[string]string{} // by the nonsense in its place
	heal := func(ctx context.Context) error {
		_, err := db().ExecContext(ctx, "DELETE FROM elect_leases WHERE name <> 'e'")
		for nonsense, record := range was {
			_, failed := db().ExecContext(ctx, "UPDATE elect_leases SET record = "+quoted(record)+" WHERE name = 'e' AND record = "+quoted(nonsense))
			err = errors.Join(err, failed)
		}
		return err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), byHand)
		defer cancel()
		return heal(ctx)
	}
	return victim{"row", []fault{
		{"edited to nonsense, and back", func(r *rand.Rand) (func() error, error) {
			ctx, cancel := context.WithTimeout(t.Context(), byHand)
			defer cancel()
			nonsense := []string{"nonsense", `{"format":2}`, ""}[r.IntN(3)] + strings.Repeat(" ", len(was))
			for {
				var record string
				if err := db().QueryRowContext(ctx, "SELECT record FROM elect_leases WHERE name = 'e'").Scan(&record); err != nil {
					return nil, err
				}
				was[nonsense] = record
				done, err := db().ExecContext(ctx, "UPDATE elect_leases SET record = "+quoted(nonsense)+" WHERE name = 'e' AND record = "+quoted(record))
				if err != nil {
					return end, err // it may land yet
				}
				if n, err := done.RowsAffected(); n == 1 || err != nil {
					return end, err
				}
			}
		}},
		{"beside another program's", func(*rand.Rand) (func() error, error) {
			ctx, cancel := context.WithTimeout(t.Context(), byHand)
			defer cancel()
			_, err := db().ExecContext(ctx, "INSERT INTO elect_leases (name, record) VALUES ('other', 'mine')")
			return end, err
		}},
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
		key := keysByHand{t, client, prefix + "/e"}
		s.victims, s.heal = []victim{memberFaults(t, members), key.victim()}, key.heal
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
	was := map[string]string{} // by the nonsense in its place
	replace := goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return redis.status_reply('OK')`)
	heal := func(ctx context.Context) (err error) {
		for nonsense, record := range was {
			err = errors.Join(err, replace.Run(ctx, s.client, []string{s.key}, nonsense, record).Err())
		}
		return err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), byHand)
		defer cancel()
		return heal(ctx)
	}
	do := func(name string, command ...any) fault {
		return fault{name, func(*rand.Rand) (func() error, error) {
			ctx, cancel := context.WithTimeout(t.Context(), byHand)
			defer cancel()
			return nil, s.client.Do(ctx, command...).Err()
		}}
	}
	return victim{"key", []fault{
		{"edited to nonsense, and back", func(r *rand.Rand) (func() error, error) {
			ctx, cancel := context.WithTimeout(t.Context(), byHand)
			defer cancel()
			nonsense := []string{"nonsense", `{"format":2}`, ""}[r.IntN(3)] + strings.Repeat(" ", len(was))
			record, err := s.client.Get(ctx, s.key).Result()
			if err != nil {
				return nil, err
			}
			was[nonsense] = record
			return end, replace.Run(ctx, s.client, []string{s.key}, record, nonsense).Err()
		}},
		do("given an expiry", "EXPIRE", s.key, 60),
		do("without the scripts", "SCRIPT", "FLUSH"),
		do("in a server that is paused for writes", "CLIENT", "PAUSE", 1500, "WRITE"),
		do("in a server that ends all connections", "CLIENT", "KILL", "TYPE", "normal"),
	}}, heal
}

// memberFaults are those of the members of an etcd. Each ends before the next one.
func memberFaults(t *testing.T, members []*server.Etcd) victim {
	some := func(r *rand.Rand, n int) (of []*server.Etcd) {
		for _, i := range r.Perm(len(members))[:n] {
			of = append(of, members[i])
		}
		return of
	}
	killed := func(of []*server.Etcd) func() error {
		for _, m := range of {
			m.Kill(t)
		}
		return func() error { server.StartEtcds(t, of...); return nil }
	}
	paused := func(of []*server.Etcd) func() error {
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
	leading := func(do func(leader, other *server.Etcd) (func() error, error)) func(*rand.Rand) (func() error, error) {
		return func(*rand.Rand) (func() error, error) { return do(etcdLeader(t, members)) }
	}
	return victim{"etcd", []fault{
		{"one member killed", func(r *rand.Rand) (func() error, error) { return killed(some(r, 1)), nil }},
		{"two members killed", func(r *rand.Rand) (func() error, error) { return killed(some(r, 2)), nil }},
		{"one member paused", func(r *rand.Rand) (func() error, error) { return paused(some(r, 1)), nil }},
		{"two members paused", func(r *rand.Rand) (func() error, error) { return paused(some(r, 2)), nil }},
		{"leader killed", leading(func(m, _ *server.Etcd) (func() error, error) { return killed([]*server.Etcd{m}), nil })},
		{"leader paused", leading(func(m, _ *server.Etcd) (func() error, error) { return paused([]*server.Etcd{m}), nil })},
		{"leader changed", leading(func(m, other *server.Etcd) (func() error, error) {
			ctx, cancel := context.WithTimeout(t.Context(), byHand)
			defer cancel()
			to, err := other.Client(t).Status(ctx, other.URL)
			if err == nil {
				_, err = m.Client(t).MoveLeader(ctx, to.Header.MemberId)
			}
			return nil, err
		})},
	}}
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
	first := func(do func(ctx context.Context, key string, lease clientv3.LeaseID) error) func(*rand.Rand) (func() error, error) {
		return func(*rand.Rand) (func() error, error) {
			ctx, cancel := context.WithTimeout(k.t.Context(), byHand)
			defer cancel()
			r, err := k.client.Get(ctx, k.key+"/", clientv3.WithFirstCreate()...)
			if err == nil && len(r.Kvs) == 0 {
				err = errors.New("the election has no key")
			}
			if err == nil {
				err = do(ctx, string(r.Kvs[0].Key), clientv3.LeaseID(r.Kvs[0].Lease))
			}
			return func() error {
				ctx, cancel := context.WithTimeout(k.t.Context(), byHand)
				defer cancel()
				return k.heal(ctx)
			}, err
		}
	}
	return victim{"keys", []fault{
		{"the leader's lease revoked", first(func(ctx context.Context, _ string, lease clientv3.LeaseID) error {
			_, err := k.client.Revoke(ctx, lease)
			return err
		})},
		{"the leader's deleted", first(func(ctx context.Context, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Delete(ctx, key)
			return err
		})},
		{"the leader's written without its lease", first(func(ctx context.Context, key string, _ clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, key, "mine")
			return err
		})},
		{"the leader's edited to nonsense", first(func(ctx context.Context, key string, lease clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, key, "\xff nonsense", clientv3.WithLease(lease))
			return err
		})},
		{"the mark edited to nonsense", first(func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			_, err := k.client.Put(ctx, k.key+".elect", "nonsense")
			return err
		})},
		{"the mark deleted", first(func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			_, err := k.client.Delete(ctx, k.key+".elect")
			return err
		})},
		{"beside another program's, which stands and dies", first(func(ctx context.Context, _ string, _ clientv3.LeaseID) error {
			lease, err := k.client.Grant(ctx, 4)
			if err == nil {
				_, err = k.client.Put(ctx, fmt.Sprintf("%s/%x", k.key, lease.ID), "mine", clientv3.WithLease(lease.ID))
			}
			return err
		})},
	}}
}

//go:build linux && cgo

package leases_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/zombie"
)

// The tests of this file break locks that are in common use, each by a schedule that is played with elect, too. Their
// clients are processes. docs/unsafe-locks.md has the schedules in words.

// ttl is that of naive locks. elect's leases are longer: a busy machine must not end them before their time.
const ttl, leases = 2 * time.Second, 4 * time.Second

// gets waits until a client has its lock.
func (c *client) gets() {
	c.t.Helper()
	if d := c.does(deed{Do: "acquire"}); !d.Yes {
		c.t.Fatalf("%s has not got the lock: %s", c.id, d.Error)
	}
}

// writes has a client write, if it believes that it leads.
func (c *client) writes(value string) bool {
	c.t.Helper()
	return c.does(deed{Do: "write", Value: value}).Yes
}

// paused stops the process of a leader between its look at the lock and its write. Meanwhile, after what befalls the
// lock, another one leads and writes. What is left on the ledger at the end shows whether the late write was refused.
func paused(t *testing.T, log *ledger, a, b *client, befalls func(), guarded bool) {
	t.Helper()
	a.gets()
	if d := a.does(deed{Do: "write", Value: "a1"}); guarded && d.Error == "" && !d.Yes {
		t.Skip("the machine was too slow: elect's leader has lost its lease")
	} else if !d.Yes {
		t.Fatalf("a does not write: %+v", d)
	}
	a.begin(deed{Do: "write", Value: "a2", Pause: true})
	harness.Eventually(t, "a is stopped", func() bool { return zombie.Stopped(a.cmd.Process.Pid) })
	b.begin(deed{Do: "acquire"})
	if befalls != nil {
		befalls()
	}
	if d := b.ends(time.Minute); !d.Yes {
		t.Fatalf("b does not lead: %s", d.Error)
	}
	if d := b.does(deed{Do: "write", Value: "b1"}); guarded && d.Error == "" && !d.Yes {
		t.Skip("the machine was too slow: elect's leader has lost its lease")
	} else if !d.Yes {
		t.Fatalf("b does not write: %+v", d)
	}
	a.resume()
	late := a.ends(time.Minute)
	all, err := log.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a1", "b1", "a2"}
	if guarded {
		want = want[:2]
		if !late.Stale || a.believes() {
			t.Errorf("the late write: %+v; want it refused, and a leader that knows", late)
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("writes %v; want %v", all, want)
	}
}

// beside lets a lead, and b wait, while something befalls the lock. Naive, both believe then that they lead, and write.
// Of elect's, b leads when a does not, if at all.
func beside(t *testing.T, log *ledger, a, b *client, befalls func(), naive bool) {
	t.Helper()
	a.gets()
	overlap(t, log, a, b, befalls, naive)
}

// overlap is what follows when a leads, or is about to.
func overlap(t *testing.T, log *ledger, a, b *client, befalls func(), naive bool) {
	t.Helper()
	b.begin(deed{Do: "acquire"})
	if befalls != nil {
		befalls()
	}
	if naive {
		if d := b.ends(time.Minute); !d.Yes {
			t.Fatalf("b does not lead: %s; want the form to be unsafe", d.Error)
		}
		if !a.believes() || !b.believes() {
			t.Error("only one believes that it leads; want the form to be unsafe")
		}
		if !b.writes("b") || !a.writes("a") {
			t.Error("only one writes")
		}
		if all, err := log.read(t.Context()); err != nil || !slices.Equal(all, []string{"b", "a"}) {
			t.Errorf("writes %v, %v; want that of b and then that of a", all, err)
		}
		return
	}
	never(t, a, b, b)
}

// never waits until the last client leads, or has waited for two leases while another one leads. It fails the test if
// two lead at one time.
func never(t *testing.T, a, b, waits *client) {
	t.Helper()
	for end, last := time.Now().Add(time.Minute), time.Now().Add(2*leases); ; {
		select {
		case d := <-waits.done:
			if !d.Yes {
				t.Fatalf("%s does not lead: %s", waits.id, d.Error)
			}
			if a.believes() && b.believes() {
				t.Error("two are proven")
			}
			return
		case <-time.After(leases / 8):
		}
		other := a
		if waits == a {
			other = b
		}
		switch {
		case time.Now().After(end):
			t.Fatal("nobody leads")
		case time.Now().After(last) && other.believes():
			return
		}
	}
}

// besideOthers runs a test at the same time as others.
func besideOthers(t *testing.T, lock string) {
	t.Helper()
	if lock == "elect" {
		long.Full(t, "it waits for leases; other tests show that elect's do not overlap")
	}
	t.Parallel()
}

// longer is a URL of an election with such leases.
func longer(url string) string {
	return strings.NewReplacer("max_lease=2s", "max_lease=4s", "lease=2s", "lease=4s").Replace(url)
}

// ledgerAt is an installed one.
func ledgerAt(t *testing.T, at string) *ledger {
	t.Helper()
	l, err := openLedger(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l.client != nil {
			_ = l.client.Close()
		} else {
			_ = l.db.Close()
		}
	})
	if err := l.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// slowly makes answers late: a client learns that it has the lock when the lock is another's.
func slowly(c *cable.Cable, naive bool) {
	d := leases
	if naive {
		d = ttl
	}
	c.Set(cable.Way{}, cable.Way{Delay: d + d/4})
}

// TestUnsafeRedis breaks SET NX PX, renewed by a script that looks whose the lock is.
func TestUnsafeRedis(t *testing.T) {
	long.Test(t, "it starts servers, and waits for leases")
	t.Parallel()
	each := func(name string, play func(t *testing.T, s *slot, job func(addr string) job, naive bool)) {
		for _, lock := range []string{"set-nx", "elect"} {
			t.Run(name+"/"+lock, func(t *testing.T) {
				besideOthers(t, lock)
				s := newSlot(t, server.StartRedis(t))
				play(t, s, func(addr string) job {
					if lock == "elect" {
						addr = longer(s.url(addr))
					}
					return job{Lock: lock, At: []string{addr}, TTL: ttl, Log: s.server.Addr}
				}, lock != "elect")
			})
		}
	}
	each("pause", func(t *testing.T, s *slot, job func(string) job, naive bool) {
		j := job(s.server.Addr)
		paused(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), nil, !naive)
	})
	// What a asks is not answered for a time, as when the network drops packets. Nothing has told it.
	each("cut off", func(t *testing.T, s *slot, job func(string) job, naive bool) {
		way := cableTo(t, s.server.Addr)
		a, b := job(way.Addr()).start(t, "a"), job(s.server.Addr).start(t, "b")
		beside(t, ledgerAt(t, s.server.Addr), a, b, way.Cut, naive)
	})
	each("late answer", func(t *testing.T, s *slot, job func(string) job, naive bool) {
		way := cableTo(t, s.server.Addr)
		slowly(way, naive)
		a, b := job(way.Addr()).start(t, "a"), job(s.server.Addr).start(t, "b")
		log := ledgerAt(t, s.server.Addr)
		a.begin(deed{Do: "acquire"})
		if !naive {
			b.gets() // and a has not led before, or does not lead now
			never(t, a, b, a)
			return
		}
		harness.Eventually(t, "a holds the lock", func() bool { return s.client.Get(t.Context(), "lock").Val() == "a" })
		overlap(t, log, a, b, func() { a.ends(time.Minute) }, naive)
	})
}

// TestUnsafeFailover has Sentinel promote a replica that lacks the lock.
func TestUnsafeFailover(t *testing.T) {
	long.Full(t, "it starts a Sentinel, and waits for it")
	t.Parallel()
	for _, lock := range []string{"set-nx", "elect"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			p := newRedisPair(t, "&replicas=1")
			log := server.StartRedis(t).Addr
			at := func(addr string) job {
				if lock == "elect" {
					addr = longer(p.url(addr))
				}
				return job{Lock: lock, At: []string{addr}, TTL: 10 * ttl, Log: log}
			}
			a, b := at(p.master.Addr).start(t, "a"), at(p.replica.Addr).start(t, "b")
			l := ledgerAt(t, log)
			p.cut(true)
			if lock != "elect" {
				beside(t, l, a, b, func() { p.promoted(t) }, true)
				return
			}
			a.begin(deed{Do: "acquire"})
			b.begin(deed{Do: "acquire"})
			p.promoted(t)
			select {
			case <-a.done:
				t.Error("a leads by what no replica has")
			case <-time.After(leases):
			}
		})
	}
}

// TestUnsafeRedlock breaks Redlock over five servers, of which a reaches three.
func TestUnsafeRedlock(t *testing.T) {
	long.Test(t, "it starts servers, and waits for leases")
	t.Parallel()
	const valid = 30 * time.Second // it is not over while both believe
	five := func(t *testing.T) (all []*server.Redis, a, b job) {
		b = job{Lock: "redlock", TTL: valid}
		for range 5 {
			r := server.StartRedis(t, "--appendonly", "no")
			all, b.At = append(all, r), append(b.At, r.Addr)
		}
		b.Log = b.At[0]
		a = b
		a.At = append(slices.Clone(b.At[:3]), harness.FreeAddr(t), harness.FreeAddr(t)) // connections are refused there
		return all, a, b
	}
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		_, _, j := five(t)
		j.TTL = ttl
		paused(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), nil, false)
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		all, a, b := five(t)
		beside(t, ledgerAt(t, b.Log), a.start(t, "a"), b.start(t, "b"), func() { all[2].Kill(t); all[2].Start(t) }, true)
	})
	// A server's clock that jumps ends what expires there. PEXPIRE stands for the jump.
	t.Run("clock", func(t *testing.T) {
		t.Parallel()
		all, a, b := five(t)
		beside(t, ledgerAt(t, b.Log), a.start(t, "a"), b.start(t, "b"), func() { all[2].Client(t).PExpire(t.Context(), "lock", time.Millisecond) }, true)
	})
	// The same befalls the one server of elect, which takes one that forgets with volatile=on only.
	for name, befalls := range map[string]func(*testing.T, *slot){
		"restart": func(t *testing.T, s *slot) { s.server.Kill(t); s.server.Start(t) },
		"clock":   func(t *testing.T, s *slot) { s.do(t, "PEXPIRE", s.key, 1) },
	} {
		t.Run(name+"/elect", func(t *testing.T) {
			besideOthers(t, "elect")
			s := newSlot(t, server.StartRedis(t, "--appendonly", "no"))
			s.query = "&volatile=on"
			j := job{Lock: "elect", At: []string{longer(s.url(""))}, Log: server.StartRedis(t).Addr}
			beside(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), func() { befalls(t, s) }, false)
		})
	}
}

// TestUnsafePostgres breaks the UPDATE of the textbook, and the advisory lock behind a pool.
func TestUnsafePostgres(t *testing.T) {
	long.Test(t, "it starts a PostgreSQL, and waits for leases")
	pg := server.StartPostgres(t)
	plays(t, pg, []string{"update", "elect"}, "pause", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(p.at.String())
		paused(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), nil, !naive)
	})
	plays(t, pg, []string{"update", "elect"}, "late answer", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		way, far := cableTo(t, p.at.Host), *p.at
		far.Host = way.Addr()
		slowly(way, naive)
		a, b := job(far.String()).start(t, "a"), job(p.at.String()).start(t, "b")
		log := ledgerAt(t, p.at.String())
		a.begin(deed{Do: "acquire"})
		if !naive {
			b.gets()
			never(t, a, b, a)
			return
		}
		p.until(t, "SELECT holder FROM leader", "a")
		overlap(t, log, a, b, func() { a.ends(time.Minute) }, naive)
	})
	// The application of b has a clock that is an hour fast. elect reads no wall clock.
	plays(t, pg, []string{"update"}, "clock", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(p.at.String())
		j.TTL, j.Skew = 10*ttl, time.Nanosecond
		a := j.start(t, "a")
		j.Skew = time.Hour
		beside(t, ledgerAt(t, j.Log), a, j.start(t, "b"), nil, naive)
	})
	// The server ends the session, as after idle_session_timeout, or a firewall does.
	end := func(t *testing.T, p *place) {
		p.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
	}
	plays(t, pg, []string{"advisory"}, "pause", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(p.at.String())
		paused(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), func() { end(t, p) }, !naive)
	})
	plays(t, pg, []string{"advisory", "elect"}, "session", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(p.at.String())
		beside(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), func() {
			if naive {
				end(t, p)
				return
			}
			for range 5 {
				p.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%"+sqlstore.DefaultTable+"%'")
				<-time.After(ttl / 4)
			}
		}, naive)
	})
	// The pool of database/sql closes a connection that is old enough, and the lock with it.
	plays(t, pg, []string{"advisory"}, "pool", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(p.at.String())
		b := j.start(t, "b")
		j.Life = time.Second
		beside(t, ledgerAt(t, j.Log), j.start(t, "a"), b, nil, naive)
	})
	// Two of one process ask by one pool: the lock is granted to a session as often as it asks.
	t.Run("one pool/advisory", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("pgx", pg.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		for _, who := range []string{"a", "b"} {
			var won bool
			if err := db.QueryRowContext(t.Context(), "SELECT pg_try_advisory_lock(1)").Scan(&won); err != nil || !won {
				t.Errorf("%s: %t, %v; want both to be told that they have it", who, won, err)
			}
		}
	})
}

// TestUnsafePgBouncer has two processes ask for an advisory lock through a pooler in transaction mode, which gives them
// one session.
func TestUnsafePgBouncer(t *testing.T) {
	long.Full(t, "it needs PgBouncer")
	pg := server.StartPostgres(t)
	behind := server.StartPgBouncer(t, pg)
	plays(t, pg, []string{"advisory", "elect"}, "pooler", func(t *testing.T, p *place, job func(at string) job, naive bool) {
		j := job(behind(p.at.Path[1:]) + "&default_query_exec_mode=exec")
		j.Log = p.at.String()
		beside(t, ledgerAt(t, j.Log), j.start(t, "a"), j.start(t, "b"), nil, naive)
	})
}

// plays a schedule with each lock in a database of its own.
func plays(t *testing.T, pg *server.Postgres, all []string, name string, play func(t *testing.T, p *place, job func(at string) job, naive bool)) {
	for _, lock := range all {
		t.Run(name+"/"+lock, func(t *testing.T) {
			besideOthers(t, lock)
			d := &database{dialect: sqlstore.PostgreSQL, server: pg}
			p := &place{database: d, at: parse(t, pg.Database(t))}
			switch lock {
			case "elect":
				p.install(t)
			case "update":
				p.exec(t, rowOfTheTextbook)
			}
			play(t, p, func(at string) job {
				if lock == "elect" {
					q := *p
					q.at = parse(t, at)
					at = longer(q.url(""))
				}
				return job{Lock: lock, At: []string{at}, TTL: ttl, Log: p.at.String()}
			}, lock != "elect")
		})
	}
}

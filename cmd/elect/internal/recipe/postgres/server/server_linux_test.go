package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

const bin = "/usr/lib/postgresql/15/bin"

// unprivileged gives up the rights of root for the rest of the process, because PostgreSQL does not run as root.
var unprivileged = sync.OnceValue(func() error {
	const other = 65534
	if os.Getuid() != 0 {
		return nil
	}
	for _, set := range []func() error{func() error { return syscall.Setgroups(nil) }, func() error { return syscall.Setgid(other) }, func() error { return syscall.Setuid(other) }} {
		if err := set(); err != nil {
			return err
		}
	}
	return nil
})

// node is a Server for a test, and what it is called by others.
type node struct {
	*Server
	log *harness.Buffer
}

func (n *node) upstream(token uint64, p Position) Upstream {
	cfg := n.config()
	return Upstream{ID: cfg.ID, Address: cfg.Listen, Token: token, Timeline: p.Timeline, History: p.History}
}

// nodes are servers that have no data yet, one of whose others confirms.
func nodes(t *testing.T, n int) []*node {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		harness.Absent(t, err.Error()+"; on Debian: apt-get install postgresql")
	}
	if err := unprivileged(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "elect-pg-") // short: it is in a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	addrs := harness.FreeAddrs(t, n)
	all := make([]*node, n)
	for i := range all {
		home := filepath.Join(dir, fmt.Sprint("n", i+1))
		if err := os.MkdirAll(filepath.Join(home, "s"), 0o700); err != nil {
			t.Fatal(err)
		}
		log := &harness.Buffer{}
		cfg := Config{Bin: bin, Data: filepath.Join(home, "data"), Socket: filepath.Join(home, "s"), Listen: addrs[i], ID: fmt.Sprint("n", i+1), Confirm: 1,
			Password: "it's se\\cret", Parameters: map[string]string{"shared_buffers": "16MB"}, HBA: []string{"host all all 127.0.0.1/32 scram-sha-256"}, Output: log}
		for j := range n {
			if j != i {
				cfg.Nodes = append(cfg.Nodes, Upstream{ID: fmt.Sprint("n", j+1), Address: addrs[j]})
			}
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = &node{s, log}
		t.Cleanup(func() {
			if err := s.Stop(context.Background(), Immediate); err != nil {
				t.Error(err)
			}
			_ = s.Close()
			if t.Failed() {
				text := log.String()
				t.Logf("%s:\n%s", cfg.ID, text[max(0, len(text)-6000):])
			}
		})
	}
	return all
}

// must fails the test unless err is nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) position(t *testing.T) Position {
	t.Helper()
	p, err := n.Position(t.Context())
	must(t, err)
	return p
}

// streams waits until a standby streams on a timeline.
func (n *node) streams(t *testing.T, timeline uint32) (p Position) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s streams on timeline %d", n.config().ID, timeline), func() bool {
		var err error
		p, err = n.Position(t.Context())
		return err == nil && p.Streaming && p.Timeline == timeline
	})
	return p
}

// client is a connection of a client over TCP.
func (n *node) client(t *testing.T) *sql.DB {
	t.Helper()
	cfg := n.config()
	host, port, _ := strings.Cut(cfg.Listen, ":")
	db, err := sql.Open("postgres", conninfo("host", host, "port", port, "user", cfg.Superuser, "password", cfg.Password, "dbname", "postgres", "sslmode", "disable"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// waits executes a statement that is not answered while its commit waits. It is not cancelled: PostgreSQL answers the
// commit of a cancelled one with success, and a warning.
func waits(t *testing.T, db *sql.DB, query string) chan error {
	t.Helper()
	answered := make(chan error, 1)
	go func() {
		_, err := db.Exec(query)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("%s: answered (%v) although no standby confirmed it", query, err)
		answered <- errors.New("see above")
	case <-time.After(300 * time.Millisecond):
	}
	return answered
}

func do(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	must(t, err)
}

// founded are nodes of which the first is the primary of token 1, marked, and the others follow it.
func founded(t *testing.T, n int) []*node {
	t.Helper()
	all := nodes(t, n)
	ctx := t.Context()
	if empty, err := all[0].Empty(); err != nil || !empty {
		t.Fatalf("Empty is %t, %v; want true", empty, err)
	}
	must(t, all[0].Init(ctx))
	if empty, err := all[0].Empty(); err != nil || empty {
		t.Fatalf("Empty is %t, %v; want false", empty, err)
	}
	must(t, all[0].StartPrimary(ctx, 1))
	var ids []string
	for _, n := range all[1:] {
		ids = append(ids, n.config().ID)
	}
	must(t, all[0].Slots(ctx, ids))
	p := all[0].position(t)
	for _, n := range all[1:] {
		from := all[0].upstream(1, p)
		must(t, n.Rebuild(ctx, from, func() error { return nil }))
		must(t, n.StartStandby(ctx, &from))
	}
	must(t, all[0].Mark(ctx, 1, "n1", p.Timeline))
	for _, n := range all[1:] {
		n.streams(t, 1)
	}
	return all
}

// promote promotes a node for a token, marks that when the others follow, and has them follow.
func promote(t *testing.T, n *node, token uint64, followers ...*node) Position {
	t.Helper()
	ctx := t.Context()
	_, err := n.Detach(ctx)
	must(t, err)
	p, err := n.Promote(ctx, token)
	must(t, err)
	var ids []string
	for _, f := range followers {
		ids = append(ids, f.config().ID)
	}
	must(t, n.Slots(ctx, ids))
	for _, f := range followers {
		must(t, f.Follow(ctx, n.upstream(token, p)))
	}
	must(t, n.Mark(ctx, token, n.config().ID, p.Timeline))
	return p
}

// TestFailover: a cluster from nothing; a primary that is killed; its follower has all that was acknowledged, promotes,
// and the old one is rewound and follows.
func TestFailover(t *testing.T) {
	all := founded(t, 3)
	a, b, c := all[0], all[1], all[2]
	ctx := t.Context()
	db := a.client(t)
	do(t, db, "CREATE TABLE rows (id int PRIMARY KEY)")
	do(t, db, "INSERT INTO rows SELECT generate_series(1, 1000)")
	do(t, db, "CHECKPOINT")
	for range 2 {
		do(t, db, "SELECT pg_switch_wal()")
		do(t, db, "INSERT INTO rows SELECT max(id) + 1 FROM rows")
	}
	do(t, db, "DELETE FROM rows WHERE id > 1000")
	if err := a.Probe(ctx); err != nil {
		t.Error(err)
	}
	if err := b.Probe(ctx); err != nil {
		t.Error(err)
	}

	// Both follow nobody: nothing is confirmed any more, and what is written is not acknowledged.
	before := map[*node]Position{}
	for _, n := range []*node{b, c} {
		p, err := n.Detach(ctx)
		must(t, err)
		before[n] = p
	}
	answered := waits(t, db, "INSERT INTO rows VALUES (2000)")
	// The primary's postmaster is killed, and its backends are left.
	must(t, syscall.Kill(a.main.pid, syscall.SIGKILL))
	<-a.Done()
	must(t, a.Stop(ctx, Immediate))
	if err := <-answered; err == nil {
		t.Error("a commit was acknowledged that no standby has")
	}
	if left := a.processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	old := a.position(t)
	// A segment that was made in advance has zeros only.
	const segment = 16 << 20
	for _, lsn := range []uint64{0, old.LSN + segment, old.LSN + 2*segment} {
		must(t, os.WriteFile(filepath.Join(a.data, "pg_wal", segmentFile(1, lsn, segment)), make([]byte, segment), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(a.data, "pg_wal", segmentFile(1, old.LSN+3*segment, segment)), nil, 0o600)) // of a full disk
	if again := a.position(t); again != old {
		t.Errorf("with segments that were made in advance it is at %+v; want %+v", again, old)
	}
	if end, err := a.valid(ctx, segment, 1, (old.LSN/segment+1)*segment, portion); err != nil || end != (old.LSN/segment+1)*segment {
		t.Errorf("the WAL of a segment that was made in advance ends at %X, %v; want its beginning", end, err)
	}
	// What was read once is not read again, or a caller with little time would never see the end of much WAL.
	k, err := a.known(ctx)
	must(t, err)
	a.forgetWAL()
	if end, err := a.valid(ctx, segment, 1, k.lsn, 1); err != nil || end != old.LSN || a.extent != (extent{1, k.lsn, end}) {
		t.Errorf("in small portions the WAL ends at %X, %v, and %+v is remembered; want %X", end, err, a.extent, old.LSN)
	}
	first := filepath.Join(a.data, "pg_wal", segmentFile(1, k.lsn, segment))
	must(t, os.Rename(first, first+".away"))
	if again := a.position(t); again != old {
		t.Errorf("without the segment that was read it is at %+v; want %+v", again, old)
	}
	must(t, os.Rename(first+".away", first))
	if p := before[b]; p.LSN < 1 || p.LSN >= old.LSN || p.Timeline != 1 || p.SystemID != old.SystemID {
		t.Errorf("a standby is at %+v, and the primary, which has written more, at %+v", p, old)
	}
	winner, other := b, c
	if before[c].LSN > before[b].LSN {
		winner, other = c, b
	}
	p := promote(t, winner, 2, other)
	if p.Timeline != 2 || p.Begin < before[winner].LSN || p.InRecovery {
		t.Errorf("promoted: %+v; want timeline 2, beginning at %X or later", p, before[winner].LSN)
	}
	if s := other.streams(t, 2); s.LSN < p.Begin {
		t.Errorf("it streams on timeline 2 and is at %X; want %X at least, where that begins", s.LSN, p.Begin)
	}
	must(t, winner.Slots(ctx, []string{"n1", other.config().ID}))

	// The old primary has WAL that nobody else has.
	must(t, a.Rewind(ctx, winner.upstream(2, p), func() error { return nil }))
	from := winner.upstream(2, p)
	must(t, a.StartStandby(ctx, &from))
	a.streams(t, 2)
	db = winner.client(t)
	do(t, db, "INSERT INTO rows VALUES (1001)")
	harness.Eventually(t, "all have the same rows", func() bool {
		for _, n := range all {
			got, err := value[string](ctx, n.Server, "SELECT count(*) || ' ' || max(id) FROM rows")
			if err != nil || got != "1001 1001" {
				return false
			}
		}
		return true
	})
	terms, err := value[string](ctx, a.Server, "SELECT string_agg(concat_ws(' ', token, id, timeline), ', ' ORDER BY token) FROM elect.terms")
	if want := fmt.Sprintf("1 n1 1, 2 %s 2", winner.config().ID); err != nil || terms != want {
		t.Errorf("terms are %q, %v; want %q", terms, err, want)
	}
	cfg := winner.config()
	cfg.Parameters = map[string]string{"shared_buffers": "17MB", "work_mem": "5MB"}
	if restart, err := winner.Reload(ctx, cfg); err != nil || !slices.Equal(restart, []string{"shared_buffers"}) {
		t.Errorf("parameters %v need a restart, %v; want shared_buffers", restart, err)
	}
	if lsn, err := winner.Flushed(ctx, "n1"); err != nil || lsn < p.Begin {
		t.Errorf("n1 has flushed %X, %v; want %X at least", lsn, err, p.Begin)
	}
}

// TestConfirmation: a standby that streams under another token confirms nothing.
func TestConfirmation(t *testing.T) {
	long.Test(t, "it starts two servers")
	all := founded(t, 2)
	a, b := all[0], all[1]
	db := a.client(t)
	do(t, db, "CREATE TABLE rows (id int PRIMARY KEY)")
	p := a.position(t)
	// A superuser who changes the server's configuration cannot have it acknowledge what no standby has.
	do(t, db, "ALTER SYSTEM SET synchronous_commit = 'local'")
	before, err := a.loaded(t.Context())
	must(t, err)
	do(t, db, "SELECT pg_reload_conf()")
	harness.Eventually(t, "the configuration is read again", func() bool {
		now, err := a.loaded(t.Context())
		return err == nil && now != before
	})
	var waiting []chan error
	for _, token := range []uint64{0, 2} {
		must(t, b.Follow(t.Context(), a.upstream(token, p)))
		harness.Eventually(t, "it streams under the other name", func() bool {
			name, err := value[string](t.Context(), a.Server, "SELECT coalesce(max(application_name), '') FROM pg_stat_replication WHERE state = 'streaming'")
			return err == nil && name == Name("n2", token)
		})
		waiting = append(waiting, waits(t, db, fmt.Sprintf("INSERT INTO rows VALUES (%d)", token)))
	}
	// A mark that nobody confirms is none, the second time either.
	for range 2 {
		late, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := a.Mark(late, 5, "n1", 1); err == nil {
			t.Error("a mark that nobody confirmed succeeded")
		}
		cancel()
	}
	must(t, b.Follow(t.Context(), a.upstream(1, p)))
	must(t, a.Mark(t.Context(), 5, "n1", 1))
	if of, replica := a.Recovery(), b.Recovery(); of != 0 || replica == 0 {
		t.Errorf("the recovery of a primary has done %d, and that of a replica %d; want 0, and more", of, replica)
	}
	for _, answered := range waiting {
		must(t, <-answered)
	}
}

// TestAlterSystem: what a superuser sets by ALTER SYSTEM, and users cannot set, is undone by the next probe, and no
// commit is acknowledged that no standby has; the rest stays.
func TestAlterSystem(t *testing.T) {
	long.Test(t, "it starts two servers")
	all := founded(t, 2)
	a, b := all[0], all[1]
	db := a.client(t)
	do(t, db, "CREATE TABLE rows (id int PRIMARY KEY)")
	for _, n := range all {
		for _, setting := range []string{
			"restore_command = 'cp /archive/''%f'' %p'", "synchronous_standby_names = ''", "synchronous_commit = local", "primary_conninfo = 'host=elsewhere'",
			"fsync = off", "work_mem = '5MB'", "application_name = 'it''s'",
		} {
			must(t, n.exec(t.Context(), "ALTER SYSTEM SET "+setting))
		}
		must(t, n.exec(t.Context(), "SELECT pg_reload_conf()"))
	}
	for _, n := range all {
		harness.Eventually(t, "the settings are undone, and the others are in force", func() bool {
			if err := n.Probe(t.Context()); err != nil {
				t.Log(err) // until the server has read its files
				return false
			}
			got, err := value[string](t.Context(), n.Server, `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
				WHERE name IN ('restore_command', 'primary_conninfo', 'fsync', 'work_mem')`)
			return err == nil && got == "fsync=on primary_conninfo=service=elect restore_command= work_mem=5120"
		})
		text, err := os.ReadFile(filepath.Join(n.data, "postgresql.auto.conf"))
		must(t, err)
		if kept := string(text); strings.Contains(kept, "synchronous") || strings.Contains(kept, "restore_command") || !strings.Contains(kept, "it''s") {
			t.Errorf("%s is left of what ALTER SYSTEM has written; want only what users can set", kept)
		}
	}
	_, err := b.Detach(t.Context())
	must(t, err)
	answered := waits(t, db, "INSERT INTO rows VALUES (1)")
	must(t, b.Follow(t.Context(), a.upstream(1, a.position(t))))
	must(t, <-answered)
}

// A slot whose WAL is gone is made anew.
func TestLostSlot(t *testing.T) {
	long.Test(t, "it starts two servers")
	all := founded(t, 2)
	a, b := all[0], all[1]
	must(t, b.Stop(t.Context(), Fast))
	cfg := a.config()
	cfg.Parameters = map[string]string{"max_slot_wal_keep_size": "1MB", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "32MB"}
	_, err := a.Reload(t.Context(), cfg)
	must(t, err)
	must(t, a.Slots(t.Context(), []string{"n2"}))
	status := func() string {
		s, err := value[string](t.Context(), a.Server, "SELECT coalesce(string_agg(slot_name || ' ' || wal_status, ', '), '') FROM pg_replication_slots")
		must(t, err)
		return s
	}
	harness.Eventually(t, "the WAL of the slot is gone", func() bool {
		must(t, a.exec(t.Context(), "SELECT pg_create_restore_point('x'), pg_switch_wal()"))
		must(t, a.Checkpoint(t.Context()))
		return status() == "elect_n2 lost"
	})
	must(t, a.Slots(t.Context(), []string{"n2"}))
	if s := status(); s != "elect_n2 reserved" {
		t.Errorf("the slots are: %s; want that it is reserved again", s)
	}
}

// What PostgreSQL does not start with is found before, or at least not taken for a fault of the data.
func TestSettings(t *testing.T) {
	a := founded(t, 2)[0]
	for _, c := range []struct{ name, value, want string }{
		{"shared_bufers", "16MB", `unrecognized configuration parameter "shared_bufers"`}, {"shared_buffers", "lots", `invalid value for parameter "shared_buffers": "lots"`},
		{"work_mem", "4MB", ""}, {"pg_stat_statements.max", "1000", ""}, {"archive_command", `cp "%p" '/tmp/x'`, ""},
	} {
		if err := Try(bin, c.name, c.value); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s = %s: %v; want %q", c.name, c.value, err, c.want)
		}
	}
	// What it refuses when it runs changes nothing.
	former := a.config()
	for want, change := range map[string]func(*Config){
		"hba: PostgreSQL refuses line 9 of ": func(c *Config) {
			const right, wrong = "host all all 127.0.0.1/32 trust", "host all all 127.0.0.1/33 trust"
			c.HBA = []string{right, right, right, right, wrong, wrong}
		},
		"PostgreSQL has not taken its files; ": func(*Config) {
			must(t, os.WriteFile(filepath.Join(a.data, "postgresql.conf"), []byte("work_men = 1\n"), 0o600))
		},
	} {
		cfg := former
		cfg.Parameters = map[string]string{"work_mem": "7MB"}
		change(&cfg)
		if _, err := a.Reload(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
		if a.config().Parameters["work_mem"] != former.Parameters["work_mem"] {
			t.Errorf("work_mem is configured as %s; want the former value", a.config().Parameters["work_mem"])
		}
		harness.Eventually(t, "the former work_mem is in force", func() bool { // the postmaster may just read its files for the reload before
			got, err := value[string](t.Context(), a.Server, "SHOW work_mem")
			return err == nil && got != "7MB"
		})
		must(t, os.WriteFile(filepath.Join(a.data, "postgresql.conf"), nil, 0o600))
	}
	must(t, a.Stop(t.Context(), Fast))
	a.cfg.HBA = []string{"host all all 127.0.0.1/32 scram"}
	if err := a.StartStandby(t.Context(), nil); !errors.Is(err, ErrElsewhere) {
		t.Errorf("with a wrong line of pg_hba.conf: %v; want ErrElsewhere", err)
	}
	a.cfg.HBA, a.cfg.Parameters = nil, map[string]string{"shared_buffers": "lots"}
	if err := a.StartStandby(t.Context(), nil); !errors.Is(err, ErrElsewhere) {
		t.Errorf("with a wrong parameter: %v; want ErrElsewhere", err)
	}
	a.cfg.Parameters = map[string]string{"shared_preload_libraries": "nothing"}
	if err := a.StartStandby(t.Context(), nil); !errors.Is(err, ErrElsewhere) {
		t.Errorf("without a library: %v; want ErrElsewhere", err)
	}
}

//go:build linux

package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	zombie.Main(m, map[string]zombie.Opener{"register": open})
}

// where is what a leader's process is told.
type where struct {
	URL       string
	Form      string // how it writes: tx, trigger, or one of the unsafe ones
	Isolation sql.IsolationLevel
	Terminate bool
	Timeout   time.Duration
}

func (w where) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// register is one number in one row.
type register struct {
	where
	db *sql.DB
	f  *fencesql.Fence
}

func open(_ context.Context, text string, steps *zombie.Steps) (zombie.Resource, error) {
	var r register
	if err := json.Unmarshal([]byte(text), &r.where); err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(r.URL)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = steps.Dial
	r.db = stdlib.OpenDB(*cfg)
	r.f, err = fencesql.New(r.db, fencesql.PostgreSQL, fencesql.Config{Terminate: r.Terminate, LockTimeout: r.Timeout})
	return &r, err
}

func (r *register) Close() error { return r.db.Close() }

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	return r.f.Claim(ctx, "register", token)
}

func (r *register) Read(ctx context.Context) (value int64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value FROM register`).Scan(&value)
	return value, err
}

const set = `UPDATE register SET value = $1`

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	opts := &sql.TxOptions{Isolation: r.Isolation}
	if r.Form == "tx" {
		return r.f.Tx(ctx, "register", token, opts, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, set, value)
			return err
		})
	}
	tx, err := r.db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if r.Form == "trigger" {
		if err := r.f.SetToken(ctx, tx, token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, set, value); err != nil {
			return fencesql.Refusal(err)
		}
		return tx.Commit()
	}
	if err := r.unsafe(ctx, tx, token, value); err != nil {
		return err
	}
	return tx.Commit()
}

// unsafe writes as one would who had not heard of fencing.md.
func (r *register) unsafe(ctx context.Context, tx *sql.Tx, token fence.Token, value int64) error {
	guard := map[string]string{
		"key share": ` FOR KEY SHARE`,
		"asks":      ``,
	}
	if lock, ok := guard[r.Form]; ok {
		var one int
		err := tx.QueryRowContext(ctx, `SELECT 1 FROM elect_fence WHERE resource = 'register' AND token <= $1`+lock, int64(token)).Scan(&one)
		if err == sql.ErrNoRows {
			return fence.ErrStale
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, set, value)
		return err
	}
	result, err := tx.ExecContext(ctx, set+` WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'register' AND token <= $2)`, value, int64(token))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return fence.ErrStale
	}
	return nil
}

// prepare makes the register in a database of its own.
func prepare(t *testing.T, pg *server.Postgres, guarded bool) (url string, read func(context.Context) (int64, error)) {
	t.Helper()
	url = pg.Database(t)
	db := connect(t, url)
	f := installed(t, db, fencesql.Config{}, "register")
	execute(t, db, `CREATE TABLE register (value bigint NOT NULL)`, `INSERT INTO register VALUES (0)`)
	if guarded {
		if err := f.Guard(t.Context(), "register", "register"); err != nil {
			t.Fatal(err)
		}
	}
	return url, (&register{db: db}).Read
}

func connect(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func installed(t testing.TB, db *sql.DB, cfg fencesql.Config, resources ...fence.Resource) *fencesql.Fence {
	t.Helper()
	f, err := fencesql.New(db, fencesql.PostgreSQL, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if err := f.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestZombies freezes an older leader before every step of its claim and its write.
func TestZombies(t *testing.T) {
	race.Alone(t)
	pg := server.StartPostgres(t)
	const patience = 10 * time.Second // of a claim; the older leader goes on earlier
	for _, tt := range []struct {
		name string
		where
	}{
		{"read committed", where{Form: "tx", Isolation: sql.LevelReadCommitted, Timeout: patience}},
		{"repeatable read", where{Form: "tx", Isolation: sql.LevelRepeatableRead, Timeout: patience}},
		{"serializable", where{Form: "tx", Isolation: sql.LevelSerializable, Timeout: patience}},
		{"terminating", where{Form: "tx", Isolation: sql.LevelReadCommitted, Timeout: 2 * time.Second, Terminate: true}},
		{"trigger", where{Form: "trigger", Isolation: sql.LevelReadCommitted, Timeout: patience}},
		{"trigger at repeatable read", where{Form: "trigger", Isolation: sql.LevelRepeatableRead, Timeout: patience}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && (tt.Isolation == sql.LevelRepeatableRead || tt.Isolation == sql.LevelSerializable) {
				t.Skip("as at read committed, and longer")
			}
			w := tt.where
			url, read := prepare(t, pg, w.Form == "trigger")
			w.URL = url
			wait := 500 * time.Millisecond
			if w.Terminate {
				wait = 10 * time.Second
			}
			r := zombie.Prove(t, zombie.Config{Opener: "register", Where: w.String(), Read: read, Wait: wait})
			if w.Terminate && r.Waited > 0 {
				t.Errorf("the newer leader waited for the older one to go on in %d plays; want it to end its transactions", r.Waited)
			}
			for _, o := range r.History {
				if w.Terminate && strings.Contains(o.Error, fence.ErrBusy.Error()) {
					t.Errorf("a newer leader did not end what was in its way: %v", o)
				}
			}
			if !w.Terminate && r.Waited == 0 {
				t.Error("the newer leader never waited: the older one had no transaction open in any play")
			}
			if t.Failed() {
				t.Log("the history:\n" + r.Text())
			}
		})
	}
}

// TestUnsafeZombies: the same leaders, with shapes that look as good.
func TestUnsafeZombies(t *testing.T) {
	race.Alone(t)
	pg := server.StartPostgres(t)
	for _, tt := range []struct {
		name string
		where
	}{
		{"a bare predicate", where{Form: "predicate", Isolation: sql.LevelReadCommitted}},
		{"a bare predicate at repeatable read", where{Form: "predicate", Isolation: sql.LevelRepeatableRead}},
		{"asks first, and holds nothing", where{Form: "asks", Isolation: sql.LevelReadCommitted}},
		{"FOR KEY SHARE", where{Form: "key share", Isolation: sql.LevelReadCommitted}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.where
			url, read := prepare(t, pg, false)
			w.URL, w.Timeout = url, 10*time.Second
			// The newer leader waits for the row of the register, which the older one has
			// written: it must go on for the newer one to write.
			if r := zombie.Play(t, zombie.Config{Opener: "register", Where: w.String(), Read: read, Wait: 500 * time.Millisecond}); !r.Violated() {
				t.Errorf("%d plays, and nothing stale was applied:\n%s", r.Plays, r.Text())
			}
		})
	}
}

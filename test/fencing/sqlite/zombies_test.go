//go:build linux

package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	zombie.Main(m, map[string]zombie.Opener{"register": open})
}

// where is what a leader's process is told.
type where struct {
	File    string
	Journal string // a journal mode
	Lock    string // how the driver begins transactions
	Form    string // how the leader writes: tx, or one of the unsafe ones
}

func (w where) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (w where) dsn() string {
	return "file:" + w.File + "?_journal_mode=" + w.Journal + "&_txlock=" + w.Lock + "&_synchronous=FULL&_busy_timeout=10000&_foreign_keys=on"
}

// register is one number in one row.
type register struct {
	where
	db *sql.DB
	f  *fencesql.Fence
}

func open(_ context.Context, text string, steps *zombie.Steps) (zombie.Resource, error) {
	var w where
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return nil, err
	}
	return use(w, steps.Step)
}

func use(w where, step func()) (*register, error) {
	r := &register{where: w, db: sql.OpenDB(connector{w.dsn(), step})}
	var err error
	r.f, err = fencesql.New(r.db, fencesql.SQLite, fencesql.Config{})
	return r, err
}

func (r *register) Close() error { return r.db.Close() }

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	return r.f.Claim(ctx, "register", token)
}

func (r *register) Read(ctx context.Context) (value int64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value FROM register`).Scan(&value)
	return value, err
}

const set = `UPDATE register SET value = ?`

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	if r.Form == "tx" {
		return r.f.Tx(ctx, "register", token, nil, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, set, value)
			return err
		})
	}
	// It asks, and then writes, which is a transaction of its own.
	var one int
	err := r.db.QueryRowContext(ctx, `SELECT 1 FROM elect_fence WHERE resource = 'register' AND token <= ?`, int64(token)).Scan(&one)
	if err == sql.ErrNoRows {
		return fence.ErrStale
	}
	if err != nil {
		return err
	}
	_, err = r.db.ExecContext(ctx, set, value)
	return err
}

// prepare makes the register in a file of its own.
func prepare(t testing.TB, w where) *register {
	t.Helper()
	w.File = filepath.Join(t.TempDir(), "register.db")
	r, err := use(w, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.f.Add(t.Context(), "register"); err != nil {
		t.Fatal(err)
	}
	execute(t, r.db, `CREATE TABLE register (value INTEGER NOT NULL)`, `INSERT INTO register VALUES (0)`)
	return r
}

// TestZombies freezes an older leader before every step of its claim and its write.
func TestZombies(t *testing.T) {
	race.Alone(t)
	for _, w := range []where{
		{Journal: "WAL", Lock: "deferred", Form: "tx"},
		{Journal: "DELETE", Lock: "deferred", Form: "tx"},
		{Journal: "WAL", Lock: "immediate", Form: "tx"},
	} {
		t.Run(w.Journal+" "+w.Lock, func(t *testing.T) {
			r := prepare(t, w)
			result := zombie.Prove(t, zombie.Config{Opener: "register", Where: r.where.String(), Read: r.Read, Wait: 500 * time.Millisecond})
			if result.Waited == 0 {
				t.Error("the newer leader never waited: the older one had no transaction open in any play")
			}
		})
	}
}

// TestUnsafeZombies: the same leaders, who ask in one transaction and write in another.
func TestUnsafeZombies(t *testing.T) {
	race.Alone(t)
	r := prepare(t, where{Journal: "WAL", Lock: "deferred", Form: "asks"})
	if result := zombie.Play(t, zombie.Config{Opener: "register", Where: r.where.String(), Read: r.Read, Wait: 500 * time.Millisecond}); !result.Violated() {
		t.Errorf("%d plays, and nothing stale was applied:\n%s", result.Plays, result.Text())
	}
}

//go:build linux

package sqltest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/zombie"
)

// Form is how a leader writes.
type Form string

// The forms. Those beneath Connection are what a programmer would write without knowledge of
// fence/fencesql, or of its rules.
const (
	Tx         Form = "tx"         // Fence.Write
	Trigger    Form = "trigger"    // shows its token to the trigger of the table
	Connection Form = "connection" // the same, by what its connections begin with: a pool for each term

	ReadsFirst Form = "reads first" // as Tx, but a new leader claims when it has read
	Predicate  Form = "predicate"   // the mark is compared in the write itself
	Asks       Form = "asks"        // reads the mark, then writes, in one transaction
	AsksBefore Form = "asks before" // the same, in a transaction before that of the write
	KeyShare   Form = "asks, locks" // as Asks, with PostgreSQL's FOR KEY SHARE
)

// Play is a play of two leaders.
type Play struct {
	Name      string
	Form      Form
	Isolation sql.IsolationLevel
	Timeout   time.Duration // how long a claim waits; 0 is that of fencesql.Config
	Terminate bool
}

// where is the configuration of a leader's process.
type where struct {
	At string
	Play
}

// Main is what TestMain has to call, for [Zombies] and [UnsafeZombies]. Only the dialect
// and Open are asked for.
func Main(m *testing.M, d Database) {
	zombie.Main(m, map[string]zombie.Opener{"register": func(_ context.Context, text string, steps *zombie.Steps) (zombie.Resource, error) {
		r := &register{database: d, steps: steps, terms: map[fence.Token]*sql.DB{}}
		if err := json.Unmarshal([]byte(text), &r.where); err != nil {
			return nil, err
		}
		var err error
		if r.db, err = d.Open(r.At, steps); err != nil {
			return nil, err
		}
		r.fence, err = fencesql.New(r.db, d.Dialect, "register", fencesql.Config{Terminate: r.Terminate, LockTimeout: r.Timeout})
		return r, err
	}})
}

// register is one number in one row.
type register struct {
	where
	database Database
	steps    *zombie.Steps
	db       *sql.DB
	fence    *fencesql.Guard
	terms    map[fence.Token]*sql.DB // of Connection
	later    fence.Token             // of ReadsFirst: what is to be claimed when it has read
}

func (r *register) Close() error {
	err := r.db.Close()
	for _, db := range r.terms {
		err = errors.Join(err, db.Close())
	}
	return err
}

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	if r.Form == ReadsFirst {
		r.later = token
		return nil
	}
	return r.fence.Claim(ctx, token)
}

func (r *register) Read(ctx context.Context) (value int64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value FROM register`).Scan(&value)
	if err == nil && r.later != 0 {
		err = r.fence.Claim(ctx, r.later)
	}
	return value, err
}

// of is the pool of a term.
func (r *register) of(token fence.Token) (*sql.DB, error) {
	if db := r.terms[token]; db != nil {
		return db, nil
	}
	at, err := url.Parse(r.At)
	if err != nil {
		return nil, err
	}
	q := at.Query()
	q.Set("options", "-celect.token="+token.String()) // a space would be a plus, which pgx leaves as it is
	at.RawQuery = q.Encode()
	db, err := r.database.Open(at.String(), r.steps)
	if err == nil {
		r.terms[token] = db
	}
	return db, err
}

const update = `UPDATE register SET value = ?`

func (r *register) set(ctx context.Context, q Querier, value int64) error {
	_, err := q.ExecContext(ctx, r.database.bind(update), value)
	return err
}

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	opts, db := &sql.TxOptions{Isolation: r.Isolation}, r.db
	switch r.Form {
	case Tx, ReadsFirst:
		return r.fence.Write(ctx, token, opts, func(tx *sql.Tx) error { return r.set(ctx, tx, value) })
	case AsksBefore:
		return r.ask(ctx, r.db, token, value, "")
	}
	if r.Form == Connection {
		var err error
		if db, err = r.of(token); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	switch r.Form {
	case Connection:
		err = fencesql.Refusal(r.set(ctx, tx, value))
	case Trigger:
		if err = r.fence.SetToken(ctx, tx, token); err == nil {
			err = fencesql.Refusal(r.set(ctx, tx, value))
		}
	case Asks:
		err = r.ask(ctx, tx, token, value, "")
	case KeyShare:
		err = r.ask(ctx, tx, token, value, " FOR KEY SHARE")
	case Predicate:
		err = r.compare(ctx, tx, token, value)
	default:
		err = fmt.Errorf("no such form: %q", r.Form)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// ask reads the mark, and writes if it is not greater.
func (r *register) ask(ctx context.Context, q Querier, token fence.Token, value int64, lock string) error {
	var one int
	err := q.QueryRowContext(ctx, r.database.bind(`SELECT 1 FROM elect_fence WHERE resource = 'register' AND token <= ?`+lock), int64(token)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fence.ErrStale
	}
	if err != nil {
		return err
	}
	return r.set(ctx, q, value)
}

// compare writes if the mark is not greater, in one statement.
func (r *register) compare(ctx context.Context, tx *sql.Tx, token fence.Token, value int64) error {
	result, err := tx.ExecContext(ctx, r.database.bind(update+` WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'register' AND token <= ?)`), value, int64(token))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return fence.ErrStale
	}
	return nil
}

// stage makes the register in a database of its own.
func stage(t *testing.T, d Database, play Play) zombie.Config {
	t.Helper()
	w := where{At: d.Make(t), Play: play}
	db := d.Connect(t, w.At)
	f := d.Installed(t, db, fencesql.Config{}, "register")
	Execute(t, db, `CREATE TABLE register (value BIGINT NOT NULL)`, `INSERT INTO register VALUES (0)`)
	if play.Form == Trigger || play.Form == Connection {
		if err := f.InstallTriggers(t.Context(), "register"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	// The newer leader waits for a lock of the older one, which resumes before the claim's patience
	// has ended.
	return zombie.Config{Opener: "register", Where: string(text), Read: (&register{db: db}).Read, Wait: 500 * time.Millisecond}
}

// Zombies freezes an older leader before every step of its claim and its write.
func Zombies(t *testing.T, d Database, plays ...Play) {
	t.Helper()
	for _, play := range plays {
		t.Run(play.Name, func(t *testing.T) {
			if play.Isolation == sql.LevelRepeatableRead || play.Isolation == sql.LevelSerializable {
				long.Full(t, "as at read committed, and longer")
			}
			cfg := stage(t, d, play)
			if play.Terminate {
				cfg.Wait = 10 * time.Second // to end what is in its way
			}
			r := zombie.Prove(t, cfg)
			if play.Terminate && r.Waited > 0 {
				t.Errorf("the newer leader waited for the older one to go on in %d plays; want it to end its transactions", r.Waited)
			}
			for _, o := range r.History {
				if play.Terminate && strings.Contains(o.Error, fence.ErrBusy.Error()) {
					t.Errorf("a newer leader did not end what was in its way: %v", o)
				}
			}
			if !play.Terminate && r.Waited == 0 {
				t.Error("the newer leader never waited: the older one had no transaction open in any play")
			}
			if t.Failed() {
				t.Log("the history:\n" + r.Text())
			}
		})
	}
}

// UnsafeZombies plays the same with unsafe designs, and requires that they are caught.
func UnsafeZombies(t *testing.T, d Database, plays ...Play) {
	t.Helper()
	for _, play := range plays {
		t.Run(play.Name, func(t *testing.T) {
			zombie.Disprove(t, stage(t, d, play))
		})
	}
}

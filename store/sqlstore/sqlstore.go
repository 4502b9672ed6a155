// Package sqlstore elects over a row of an SQL database: PostgreSQL, MySQL, MariaDB or
// SQLite. It imports no driver, and works with any of database/sql.
//
// [Install] makes the table, once; [Schema] is the statement that it executes, for roles
// that may not create tables. [New] returns a participant of one election, which is one
// row. A leader writes its row again four times a lease. A candidate reads the row as
// often, and takes it when it has not changed for a whole lease, by its own clock: no
// clock is compared with another, such as the database's. Each write is conditional on the
// whole content of the row.
//
// # Guarantee
//
// At most one participant has a proven lease at a time, and tokens rise, while the rates
// of clocks are true within 5 % and the database keeps what it has acknowledged. A
// database that is restored from a backup, or whose asynchronous standby has taken over,
// has not kept that: stop the participants, or raise the era, before they begin again.
// Settings by which the database acknowledges what it may forget are refused. What it shows
// and has not acknowledged proves nothing. A server that was replaced, does not know it,
// and still acknowledges writes breaks the guarantee, too: use synchronous standbys that
// must agree.
//
// The first leader of a new row waits for the longest lease ([Config].MaxLease), as does
// any candidate that finds the row deleted.
package sqlstore

import (
	"cmp"
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql" // from 12 on
	MySQL      Dialect = "mysql"      // and MariaDB; InnoDB
	SQLite     Dialect = "sqlite"     // from 3.35 on
)

// Bounds and defaults of [Config].
const (
	DefaultTable    = "elect_leases"
	DefaultLease    = register.DefaultLease
	DefaultMaxLease = register.DefaultMaxLease
	MinLease        = register.MinLease
	MaxLease        = register.MaxLease
)

// Config configures a participant. The zero value of each field is its documented default.
type Config struct {
	// Table holds the elections, a row each: a name, or schema.name, of small letters,
	// digits and underscores. "" means elect_leases.
	Table string

	// Lease is how long the others wait for a leader that has fallen silent, 100 ms to 1 h.
	// It may differ between participants. 0 means 5 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to
	// be the same at all of them. 0 means 15 s, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two reads of a candidate that waits: without a Listener,
	// how soon it sees a release. 0 means a quarter of Lease.
	Poll time.Duration

	// Listener makes a candidate read at once when the leader leaves. It is for PostgreSQL
	// only. Nil: the candidate only polls.
	Listener *Listener

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. If it cannot, as when another candidate records there, it logs that, and
	// the election goes on. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

// New returns the participant id in the election called name. The caller keeps db, and
// closes it after the Elector. It reads the row from then on, and creates nothing before
// the first campaign. It asks the database for the table, the right to read it, and the
// settings that the guarantee needs, and returns an error marked by [driver.Permanent] that
// matches [ErrRefused] if something is missing. So does a campaign if the right to write is
// missing. A database that does not answer within 5 s is asked again, before anything else.
func New(ctx context.Context, db *sql.DB, d Dialect, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	e, err := newElector(ctx, db, d, name, id, cfg, nil, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ErrRefused is what an error of [New] matches if it refuses the database, its settings, its table or the rights of the
// user, and not the arguments.
var ErrRefused = drive.ErrRefused

// newElector is New. source is for witnesses; nil: there are none. with is what makes requests with those of other
// elections; nil: nothing does.
func newElector(ctx context.Context, db *sql.DB, d Dialect, name, id string, cfg Config, source *url.URL, with *together) (*register.Elector, error) {
	t, err := tableOf(db, d, cfg.Table)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	if l := cfg.Listener; l != nil && d != PostgreSQL {
		return nil, driver.Permanent(fmt.Errorf("sqlstore: Config.Listener for %s; want none: only PostgreSQL notifies", d))
	} else if l != nil && l.db == db && db.Stats().MaxOpenConnections == 1 {
		return nil, driver.Permanent(errors.New("sqlstore: a pool of one connection, which the Listener may keep; want two or more (SetMaxOpenConns)"))
	}
	r := &row{table: t, election: name, together: with, renewal: cmp.Or(cfg.Lease, DefaultLease) / 500}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch _, err := drive.Within(ctx, func() error { return r.ready(ctx) }); {
	case driver.IsPermanent(err):
		return nil, fmt.Errorf("sqlstore: %w", err)
	case err != nil && cfg.Logger != nil:
		cfg.Logger.Warn("the database is not ready yet", "error", err)
	}
	var store register.Register = r
	if cfg.Listener != nil {
		store = listening{r, cfg.Listener}
	}
	return register.New(store, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight}, Lease: cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll,
		Assumes: "the database keeps every write that it has acknowledged, also when a standby takes over",
	})
}

// Install makes the table, unless it is there. table is as [Config].Table.
func Install(ctx context.Context, db *sql.DB, d Dialect, table string) error {
	t, err := tableOf(db, d, table)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, t.expand(t.dialect.schema())); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	return nil
}

// Schema is the statement that makes the table.
func Schema(d Dialect, table string) (string, error) {
	t, err := tableOf(nil, d, table)
	if err != nil {
		return "", err
	}
	return t.expand(t.dialect.schema()), nil
}

// dialect is what differs between databases. In statements {table} is the table.
type dialect interface {
	schema() string
	quote(name string) string
	// check examines the table, the rights of the user, and the settings that the guarantee needs. It asks for rights
	// to write only if writes is set.
	check(ctx context.Context, t *table, writes bool) error
	// examine returns what the server is and how it is set.
	examine(ctx context.Context, t *table) ([]driver.Finding, error)
	read(ctx context.Context, t *table, name string) (content, error)
	// write replaces old, or creates the row.
	write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error)
}

// table is a table of elections.
type table struct {
	db      *sql.DB
	dialect dialect
	name    string // quoted
	plain   string
}

func tableOf(db *sql.DB, d Dialect, name string) (*table, error) {
	t := &table{db: db, plain: name}
	switch d {
	case PostgreSQL:
		t.dialect = postgresql{}
	case MySQL:
		t.dialect = mysql{}
	case SQLite:
		t.dialect = &sqlite{}
	default:
		return nil, fmt.Errorf("sqlstore: dialect %q; want %s, %s or %s", string(d), PostgreSQL, MySQL, SQLite)
	}
	if t.plain == "" {
		t.plain = DefaultTable
	}
	parts := strings.Split(t.plain, ".")
	for i, part := range parts {
		if !validName(part) || len(parts) > 2 {
			return nil, fmt.Errorf("sqlstore: Config.Table %.100q; want name or schema.name of small letters, digits and underscores, each of at most %d characters", t.plain, maxName)
		}
		parts[i] = t.dialect.quote(part)
	}
	t.name = strings.Join(parts, ".")
	return t, nil
}

// maxName is what PostgreSQL tells apart.
const maxName = 63

func validName(s string) bool {
	return s != "" && len(s) <= maxName && (s[0] < '0' || s[0] > '9') && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// database is the schema of the table; "main" without one, as SQLite calls it.
func (t *table) database() string {
	if schema, _, found := strings.Cut(t.plain, "."); found {
		return schema
	}
	return "main"
}

func (t *table) expand(statement string) string {
	return strings.ReplaceAll(statement, "{table}", t.name)
}

// oneLine is the text of an error, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// unusable is the error for a table that is missing, or of another shape.
func (t *table) unusable(err error) error {
	return driver.Permanent(fmt.Errorf("the table %s cannot be used: %w; want one made by elect install (sqlstore.Install)", t.plain, err))
}

// row is one election.
type row struct {
	*table
	election          string
	together          *together     // or nil
	renewal           time.Duration // how long a renewal may wait for others
	checked, admitted atomic.Bool
}

// ready checks the database, until that was done once.
func (r *row) ready(ctx context.Context) error { return r.once(ctx, &r.checked, false) }

// Admit implements [register.Admitter]. If the database was accepted before, only a missing right to write refuses it
// for good: it may be accepted again after a switchover, or on another connection of a pooler.
func (r *row) Admit(ctx context.Context) error {
	accepted := r.checked.Load()
	err := r.once(ctx, &r.admitted, true)
	if _, lacks := errors.AsType[noWrites](err); accepted && driver.IsPermanent(err) && !lacks {
		return errors.New(oneLine(err))
	}
	return err
}

// noWrites is the error for a participant that may not or cannot write.
type noWrites struct{ error }

func (r *row) once(ctx context.Context, done *atomic.Bool, writes bool) error {
	if done.Load() {
		return nil
	}
	err := r.dialect.check(ctx, r.table, writes)
	done.Store(err == nil)
	if want := untrusted(err); want != "" {
		err = driver.Permanent(fmt.Errorf("%s; want %s", oneLine(err), want))
	}
	if driver.IsPermanent(err) {
		return drive.Refused(err)
	}
	return err
}

// untrusted says what would be right if TLS refuses the server for good: each server, if several were asked. An expired
// certificate may be renewed.
func untrusted(err error) (want string) {
	switch e := err.(type) {
	case x509.UnknownAuthorityError:
		return "the authority that has signed the server's certificate: sslrootcert=FILE in PostgreSQL, SSL_CERT_FILE in MySQL"
	case x509.HostnameError:
		return "a host in the URL that is in the server's certificate"
	case interface{ Unwrap() error }:
		return untrusted(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if want = untrusted(err); want == "" {
				break
			}
		}
	}
	return want
}

var _ register.Register = (*row)(nil)

// Read implements [register.Register].
func (r *row) Read(ctx context.Context) (register.Kept, error) { return r.ReadSoon(ctx, nil) }

// ReadSoon implements [register.Sharer].
func (r *row) ReadSoon(ctx context.Context, soon <-chan struct{}) (register.Kept, error) {
	if err := r.ready(ctx); err != nil {
		return register.Kept{}, err
	}
	k, err := r.read(ctx, soon)
	kept := register.Kept{Text: k.text, Store: k.store}
	if k.there {
		kept.Version = version(k.text)
	}
	return kept, err
}

// version is that of a text: the text itself, which may be empty if someone has edited it.
func version(text string) string { return "=" + text }

// Write implements [register.Register].
func (r *row) Write(ctx context.Context, old, text string) (register.Kept, error) {
	old, replaces := strings.CutPrefix(old, "=")
	store, err := r.write(ctx, replaces, old, text)
	if err != nil {
		return register.Kept{}, err
	}
	return register.Kept{Text: text, Version: version(text), Store: store}, nil
}

// content is what a query for a row has found.
type content struct {
	text, store string
	there       bool
}

// scan takes the text of the row, if there is one.
func (k *content) scan(r *sql.Row) error {
	switch err := r.Scan(&k.text); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	k.there = true
	return nil
}

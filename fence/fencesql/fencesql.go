// Package fencesql guards what is in an SQL database against leaders that were replaced.
// A [Guard] stands for one resource. It keeps a row in a table, which holds the greatest
// token that was claimed: the mark.
//
// [Guard.Install] makes the table and the row, once. A new leader calls [Guard.Claim] before
// it reads anything. That raises the mark, and waits for transactions of earlier leaders
// that are open. From then on each of its writes is a transaction that begins with a check
// of the mark, which holds it where it is until the transaction ends: [Guard.Write], or
// [Guard.Check] in a transaction of the caller's own. A transaction with a smaller token is
// refused with a fence.StaleError.
//
// A [Mark] is the table as a mark of a fence.Guard, for what is not in the database.
//
// It imports no driver and works with any of database/sql. A Guard may be used by several
// goroutines at once, and several of them, in several processes, may share one table. When
// the database does not answer, nothing is written: all errors are refusals, or match
// fence.ErrUnknownOutcome where a commit was sent and not answered.
//
// The mark is as durable as the database's commits, and as old as a backup that is
// restored: see fence.ErrUnclaimed.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql" // and MariaDB; InnoDB
	SQLite     Dialect = "sqlite"
)

// Config is what a Guard or a Mark may be told. The zero value of each field is its documented
// default.
type Config struct {
	// Table is the table of marks: a name, or schema.name, of small letters, digits and
	// underscores. "": elect_fence.
	Table string

	// LockTimeout is how long a claim waits at most for transactions of earlier leaders
	// that are open. Then it is refused with fence.ErrBusy, and an error that says who
	// they are, as far as the database tells. 0: ten seconds. MySQL counts whole seconds.
	// A claim that waits for several locks one after the other, or for a server that does
	// not answer, is given up two seconds later, with the same error.
	LockTimeout time.Duration

	// Terminate makes a claim end the connections of transactions that are in its way
	// after half of LockTimeout, where the database permits it and tells which they are.
	// Their work is rolled back. It takes a second connection of the pool. MariaDB does
	// not tell apart transactions that have checked and written nothing yet: where others
	// have locks at the same time, none of these is ended. SQLite has no connections to
	// end. What holds a shared mark ([Mark]) must not be ended, for the work that it
	// is held for is not in the database. PostgreSQL tells such holds apart; with MySQL
	// leave Terminate out.
	Terminate bool

	// Observe is told of each decision of Claim, Check and Write, and of invalid tokens at
	// SetToken, by several goroutines at once, as [fence.GuardConfig] has it. It must not
	// block. What a trigger refuses is in the server's log, and not told here. nil: nobody.
	Observe func(fence.Decision)

	// Logger gets claims at level Info, and at level Warn refusals, connections that were
	// ended, and the warnings of Install. nil: silence.
	Logger *slog.Logger
}

const (
	defaultTable       = "elect_fence"
	defaultLockTimeout = 10 * time.Second
)

// Mark is a table of marks, for what is not in the database, and is written through a
// fence.Guard. It is a [fence.Sharer]: several guards, in several processes, may have it in
// common. Decisions are logged and observed by the guards ([fence.GuardConfig]).
type Mark struct {
	db      *sql.DB
	dialect dialect
	say     statements
	cfg     Config
}

// NewMark returns the marks of a table. It does not ask the database anything. The caller
// keeps db, and closes it.
func NewMark(db *sql.DB, d Dialect, cfg Config) (*Mark, error) {
	m := &Mark{db: db}
	switch d {
	case PostgreSQL:
		m.dialect = postgresql{}
	case MySQL:
		m.dialect = mysql{}
	case SQLite:
		m.dialect = sqlite{}
	default:
		return nil, fmt.Errorf("fencesql: dialect %q; want %s, %s or %s", string(d), PostgreSQL, MySQL, SQLite)
	}
	if db == nil {
		return nil, errors.New("fencesql: no database; want one that is open")
	}
	if cfg.Table == "" {
		cfg.Table = defaultTable
	}
	if !validTable(cfg.Table) {
		return nil, fmt.Errorf("fencesql: Config.Table %.100q; want name or schema.name of small letters, digits and underscores, each of at most %d characters", cfg.Table, maxName)
	}
	switch {
	case cfg.LockTimeout == 0:
		cfg.LockTimeout = defaultLockTimeout
	case cfg.LockTimeout < time.Millisecond:
		return nil, fmt.Errorf("fencesql: Config.LockTimeout %v; want 0 for %v, or at least a millisecond", cfg.LockTimeout, defaultLockTimeout)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m.cfg = cfg
	m.say = m.dialect.statements(m.table())
	return m, nil
}

// maxName leaves room, within the 63 characters that PostgreSQL tells apart, for what is
// named after the table.
const maxName = 48

func validTable(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return false
	}
	for _, part := range parts {
		if part == "" || len(part) > maxName || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for _, c := range []byte(part) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
				return false
			}
		}
	}
	return true
}

// table is the table's name as statements have it.
func (m *Mark) table() string {
	parts := strings.Split(m.cfg.Table, ".")
	for i, part := range parts {
		parts[i] = m.dialect.quote(part)
	}
	return strings.Join(parts, ".")
}

// Install makes the table, unless it is there, and a row for the resource. Its mark is 0,
// unless it was installed before: then it stays what it is. Install needs the right to
// create tables, and logs the warnings of [State].
func (m *Mark) Install(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if err := m.dialect.install(ctx, m); err != nil {
		return fmt.Errorf("fencesql: installing %s: %w", m.cfg.Table, err)
	}
	if _, err := m.db.ExecContext(ctx, m.say.add, string(resource)); err != nil {
		return m.failed(err, "installing %s", resource)
	}
	warnings, err := m.warnings(ctx)
	for _, w := range warnings {
		m.cfg.Logger.Warn(w)
	}
	return err
}

func (m *Mark) warnings(ctx context.Context) ([]string, error) {
	all, err := m.dialect.warnings(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("fencesql: reading the settings of the server: %w", err)
	}
	return all, nil
}

// Uninstall removes a resource and its mark, and waits for transactions that have checked
// it. From then on all that is written for it is refused with fence.ErrResource. If it is
// installed again, every old token passes again once it is claimed. Uninstall is refused
// while triggers on tables check the mark ([Guard.InstallTriggers]).
func (m *Mark) Uninstall(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	guarded, err := m.guarded(ctx)
	if err != nil {
		return err
	}
	if tables := guarded[resource]; len(tables) > 0 {
		return fmt.Errorf("fencesql: uninstalling %s: it guards %s; want UninstallTriggers first", resource, strings.Join(tables, ", "))
	}
	if _, err := m.db.ExecContext(ctx, m.say.remove, string(resource)); err != nil {
		return m.failed(err, "uninstalling %s", resource)
	}
	return nil
}

// Drop removes the table with all marks, and what [Mark.Install] has made beside it. It is
// refused while triggers on tables check a mark.
func (m *Mark) Drop(ctx context.Context) error {
	guarded, err := m.guarded(ctx)
	if err != nil {
		return err
	}
	for resource, tables := range guarded {
		return fmt.Errorf("fencesql: dropping %s: %s is guarded by %s; want UninstallTriggers first", m.cfg.Table, strings.Join(tables, ", "), resource)
	}
	if err := m.dialect.uninstall(ctx, m); err != nil {
		return fmt.Errorf("fencesql: dropping %s: %w", m.cfg.Table, err)
	}
	return nil
}

// State is what is known of a resource.
type State struct {
	Resource fence.Resource
	Highest  fence.Token // the mark, 0 before the first claim
	Claimed  time.Time   // when the mark was raised last, by the database's clock; zero: never
	Tables   []string    // whose triggers check the mark

	// Warnings say which settings of the server may lose marks, or take them back, a sentence
	// each. None is no proof that all is well: of standbys nothing is known.
	Warnings []string
}

// List returns what is known of all resources, by name. Where nothing was installed it is
// refused with fence.ErrResource.
func (m *Mark) List(ctx context.Context) ([]State, error) {
	guarded, err := m.guarded(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err := m.warnings(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := m.db.QueryContext(ctx, m.say.status)
	if err != nil {
		return nil, m.failed(err, "status")
	}
	defer rows.Close()
	var all []State
	for rows.Next() {
		var s State
		var mark, claimed sql.NullInt64
		if err := rows.Scan(&s.Resource, &mark, &claimed); err != nil {
			return nil, fmt.Errorf("fencesql: status: %w", err)
		}
		if s.Highest, err = markOf(s.Resource, mark); err != nil {
			return nil, err
		}
		if claimed.Valid {
			s.Claimed = time.UnixMilli(claimed.Int64)
		}
		s.Tables, s.Warnings = guarded[s.Resource], warnings
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, m.failed(err, "status")
	}
	return all, nil
}

func (m *Mark) guarding(ctx context.Context, resource fence.Resource, tables []string, do func(guarder, context.Context, *Mark, fence.Resource, []string) error) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if len(tables) == 0 {
		return errors.New("fencesql: no tables; want at least one")
	}
	g, ok := m.dialect.(guarder)
	if !ok {
		return fmt.Errorf("fencesql: guarding tables with triggers: %w by this dialect; want Check or Write", errors.ErrUnsupported)
	}
	return do(g, ctx, m, resource, tables)
}

// guarded is which tables are guarded by which resource.
func (m *Mark) guarded(ctx context.Context) (map[fence.Resource][]string, error) {
	g, ok := m.dialect.(guarder)
	if !ok {
		return nil, nil
	}
	all, err := g.tables(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("fencesql: looking for guarded tables: %w", err)
	}
	return all, nil
}

// tell logs and counts a decision.
func (m *Mark) tell(resource fence.Resource, shown, highest fence.Token, err error) {
	fence.DecisionOf(resource, shown, highest, err).Report(m.cfg.Logger, m.cfg.Observe, err)
}

func (m *Mark) observe(d fence.Decision) {
	if m.cfg.Observe != nil {
		m.cfg.Observe(d)
	}
}

// failed says what has failed, and where the table of marks is absent, what to do.
func (m *Mark) failed(err error, doing string, args ...any) error {
	doing = fmt.Sprintf(doing, args...)
	if m.dialect.classify(err) == absent {
		return fmt.Errorf("fencesql: %s: %w: there is no table %s; want Install, or elect fence install (%w)", doing, fence.ErrResource, m.cfg.Table, err)
	}
	return fmt.Errorf("fencesql: %s: %w", doing, err)
}

// markOf reads a mark that was stored.
func markOf(resource fence.Resource, mark sql.NullInt64) (fence.Token, error) {
	token := fence.Token(mark.Int64)
	if !mark.Valid || mark.Int64 < 0 || token != 0 && !token.Valid() {
		return 0, fmt.Errorf("fencesql: the mark of %s is %v, which no claim has written; want 0 or a token", resource, mark)
	}
	return token, nil
}

// Package fencesql guards data in an SQL database against leaders that were replaced. A [Guard] guards one resource.
// It keeps a row in a table, which holds the greatest token that was claimed: the mark.
//
// [Guard.Install] makes the table and the row, once. A new leader calls [Guard.Claim] before it reads anything. Claim
// raises the mark, and waits for open transactions of earlier leaders. From then on each of its writes is a
// transaction that begins with a check of the mark, which holds it where it is until the transaction ends:
// [Guard.Write], or [Guard.Check] in a transaction of the caller's own. A transaction with a smaller token is refused
// with a fence.StaleError.
//
// [Mark] uses the table for the marks of a fence.Guard, for data that is not in the database.
//
// It imports no driver and works with any driver of database/sql. A Guard may be used by several goroutines at once,
// and several Guards, in several processes, may share one table. If the database does not answer, nothing is written:
// all errors are refusals, or match fence.ErrUnknownOutcome if a commit was sent and not answered.
//
// The mark is as durable as the database's commits. Restoring a backup also restores the old mark: see
// fence.ErrUnclaimed.
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

// Config configures a Guard or a Mark. The zero value of each field is its documented default.
type Config struct {
	// Table is the table of marks: a name, or schema.name, of small letters, digits and underscores. "": elect_fence.
	Table string

	// LockTimeout is how long a claim waits at most for open transactions of earlier leaders. Then it is refused with
	// fence.ErrBusy, and an error that names them, as far as the database tells. 0: ten seconds. MySQL counts whole
	// seconds. A claim that waits for several locks one after the other, or for a server that does not answer, ends two
	// seconds later, with the same error.
	LockTimeout time.Duration

	// Terminate makes a claim end the connections of transactions that are in its way after half of LockTimeout, if the
	// database permits that and identifies them. Their work is rolled back. It takes a second connection of the pool.
	// MariaDB does not distinguish transactions that have checked and written nothing yet: if others have locks at the
	// same time, none of these is ended. SQLite has no connections to end. A transaction that holds a shared mark
	// ([Mark]) must not be ended, because the work that it protects is not in the database. PostgreSQL identifies such
	// transactions; with MySQL do not set Terminate.
	Terminate bool

	// Observe is called for each decision of Claim, Check and Write, and for invalid tokens at SetToken, by several
	// goroutines at once, as [fence.GuardConfig] has it. It must not block. A trigger's refusals are in the server's log
	// only. nil: none.
	Observe func(fence.Decision)

	// Logger gets claims at level Info, and at level Warn refusals, connections that were
	// ended, and the warnings of Install. nil: silence.
	Logger *slog.Logger
}

const (
	defaultTable       = "elect_fence"
	defaultLockTimeout = 10 * time.Second
)

// Mark is a table of marks, for a fence.Guard of data that is not in the database. It is a [fence.Sharer]: several
// guards, in several processes, may share it. The guards log and observe the decisions ([fence.GuardConfig]).
type Mark struct {
	db      *sql.DB
	dialect dialect
	say     statements
	cfg     Config
}

// NewMark returns the marks of a table. It makes no request. The caller owns db, and closes it.
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

// maxName leaves room, within the 63 characters that PostgreSQL distinguishes, for names that are derived from the
// table's.
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

// table is the table's name in statements.
func (m *Mark) table() string {
	parts := strings.Split(m.cfg.Table, ".")
	for i, part := range parts {
		parts[i] = m.dialect.quote(part)
	}
	return strings.Join(parts, ".")
}

// Install makes the table, unless it exists, and a row for the resource. Its mark is 0. If the resource is already
// installed, its mark stays. Install needs the right to create tables, and logs the warnings of [State].
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

// Uninstall removes a resource and its mark, and waits for transactions that have checked it. From then on all writes
// for it are refused with fence.ErrResource. After another installation every old token passes again once it is
// claimed. Uninstall is refused while triggers on tables check the mark ([Guard.InstallTriggers]).
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

// Drop removes the table with all marks, and everything else that [Mark.Install] has made. It is refused while
// triggers on tables check a mark.
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

// State is the state of a resource.
type State struct {
	Resource fence.Resource
	Highest  fence.Token // the mark, 0 before the first claim
	Claimed  time.Time   // when the mark was last raised, by the database's clock; zero: never
	Tables   []string    // whose triggers check the mark

	// Warnings are about settings of the server that may lose or undo marks, a sentence each. Their absence is no proof
	// that there are none: standbys are not checked.
	Warnings []string
}

// List returns the state of all resources, by name. If nothing was installed it is refused with fence.ErrResource.
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

// guarded returns the tables that each resource guards.
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

// failed says what has failed and, if the table of marks is absent, what to do.
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

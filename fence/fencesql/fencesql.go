// Package fencesql guards what is in an SQL database against leaders that were replaced.
// It keeps a table with a row for each guarded resource, which holds the greatest token
// that was claimed: the mark.
//
// A new leader calls [Fence.Claim] before it reads anything. That raises the mark, and
// waits for transactions of earlier leaders that are open. From then on each of its
// writes is a transaction that begins with a check of the mark, which holds it where it
// is until the transaction ends: [Fence.Tx], or [Fence.Check] in a transaction of the
// caller's own. A transaction with a smaller token is refused with a fence.StaleError.
//
// It imports no driver and works with any of database/sql. A [Fence] may be used by
// several goroutines at once, and so may several of them, in several processes, with
// one table. When the database does not answer, nothing is written: all errors are
// refusals, or match fence.ErrUnknownOutcome where a commit was sent and not answered.
//
// The mark is as durable as the database's commits, and as old as a backup that is
// restored: see [ErrUnclaimed].
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

// Config is what a Fence may be told. The zero value of each field is its documented
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
	// end. What holds a shared mark ([Fence.Mark]) must not be ended, for the work that it
	// is held for is not in the database. PostgreSQL tells such holds apart; with MySQL
	// leave Terminate out.
	Terminate bool

	// Observe is told of each decision of Claim, Check and Tx, and of invalid tokens at
	// SetToken, by several goroutines at once, as [fence.GuardConfig] has it. It must not
	// block. A refusal with [ErrUnclaimed] has the result [Unclaimed]. What a trigger
	// refuses is in the server's log, and not told here. nil: nobody.
	Observe func(fence.Decision)

	// Logger gets claims at level Info, and at level Warn refusals, connections that were
	// ended, and the warnings of [Fence.Install]. nil: silence.
	Logger *slog.Logger
}

const (
	defaultTable       = "elect_fence"
	defaultLockTimeout = 10 * time.Second
)

// ErrUnclaimed is [fence.ErrUnclaimed].
var ErrUnclaimed = fence.ErrUnclaimed

// Unclaimed is [fence.Unclaimed].
const Unclaimed = fence.Unclaimed

// Fence guards the resources of one table of marks.
type Fence struct {
	db      *sql.DB
	dialect dialect
	say     statements
	cfg     Config
}

// New returns a Fence. It does not ask the database anything. The caller keeps db, and
// closes it.
func New(db *sql.DB, d Dialect, cfg Config) (*Fence, error) {
	f := &Fence{db: db}
	switch d {
	case PostgreSQL:
		f.dialect = postgresql{}
	case MySQL:
		f.dialect = mysql{}
	case SQLite:
		f.dialect = sqlite{}
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
	f.cfg = cfg
	f.say = f.dialect.statements(f.table())
	return f, nil
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
func (f *Fence) table() string {
	parts := strings.Split(f.cfg.Table, ".")
	for i, part := range parts {
		parts[i] = f.dialect.quote(part)
	}
	return strings.Join(parts, ".")
}

// Install makes the table, and whatever the dialect needs beside it, unless they are
// there. It needs the right to create them. It logs the [Fence.Warnings].
func (f *Fence) Install(ctx context.Context) error {
	if err := f.dialect.install(ctx, f); err != nil {
		return fmt.Errorf("fencesql: installing %s: %w", f.cfg.Table, err)
	}
	warnings, err := f.Warnings(ctx)
	for _, w := range warnings {
		f.cfg.Logger.Warn(w)
	}
	return err
}

// Warnings says which settings of the server may lose marks, or take them back, a sentence
// each. None is the rule, and no proof that all is well: of standbys nothing is known.
func (f *Fence) Warnings(ctx context.Context) ([]string, error) {
	all, err := f.dialect.warnings(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("fencesql: reading the settings of the server: %w", err)
	}
	return all, nil
}

// Uninstall drops what [Fence.Install] has made, and all marks with it. It is refused
// while tables are guarded.
func (f *Fence) Uninstall(ctx context.Context) error {
	guarded, err := f.guarded(ctx)
	if err != nil {
		return err
	}
	for resource, tables := range guarded {
		return fmt.Errorf("fencesql: uninstalling %s: %s is guarded by %s; want Unguard first", f.cfg.Table, strings.Join(tables, ", "), resource)
	}
	if err := f.dialect.uninstall(ctx, f); err != nil {
		return fmt.Errorf("fencesql: uninstalling %s: %w", f.cfg.Table, err)
	}
	return nil
}

// Add makes a resource one that can be claimed. Its mark is 0, unless it was added
// before: then it stays what it is.
func (f *Fence) Add(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if _, err := f.db.ExecContext(ctx, f.say.add, string(resource)); err != nil {
		return f.failed(err, "adding %s", resource)
	}
	return nil
}

// Remove forgets a resource and its mark; it waits for transactions that have checked
// it. From then on all that is written for it is refused with fence.ErrResource. If it
// is added again, every old token passes again once it is claimed. It is refused while
// tables are guarded by the resource.
func (f *Fence) Remove(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	guarded, err := f.guarded(ctx)
	if err != nil {
		return err
	}
	if tables := guarded[resource]; len(tables) > 0 {
		return fmt.Errorf("fencesql: removing %s: it guards %s; want Unguard first", resource, strings.Join(tables, ", "))
	}
	if _, err := f.db.ExecContext(ctx, f.say.remove, string(resource)); err != nil {
		return f.failed(err, "removing %s", resource)
	}
	return nil
}

// State is what is known of a resource.
type State struct {
	Resource fence.Resource
	Highest  fence.Token // the mark; 0: never claimed
	Claimed  time.Time   // when the mark was raised last, by the database's clock; zero: never
	Tables   []string    // that are guarded by a trigger
}

// Status returns what is known of all resources, by name. Where nothing was installed it
// is refused with fence.ErrResource.
func (f *Fence) Status(ctx context.Context) ([]State, error) {
	guarded, err := f.guarded(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := f.db.QueryContext(ctx, f.say.status)
	if err != nil {
		return nil, f.failed(err, "status")
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
		s.Tables = guarded[s.Resource]
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, f.failed(err, "status")
	}
	return all, nil
}

// Guard has the database itself check the mark of the resource at every statement that
// writes to the tables, for programs that cannot be changed, or that forget to check. The
// names are as in a statement. It is not an error if a table is guarded by the resource
// already. Guard waits for transactions that have written to them, for
// [Config.LockTimeout] at most.
//
// The token of a statement is the run-time parameter elect.token. A program of one term
// connects with it: PGOPTIONS="-c elect.token=42" in its environment, or the parameter
// options=-c%20elect.token%3D42 in its URL; in Go with pgx
//
//	cfg.RuntimeParams["elect.token"] = term.Token().String()
//	db := stdlib.OpenDB(*cfg)
//
// Such a pool belongs to that term and is closed with it. To keep it longer does no harm:
// the token of an older term is refused, whoever shows it. But later connections of the
// same pool must not begin with the token of a later term: work of the older one that is
// still on its way would be given one of them, and pass. A program that outlives terms and
// has one pool sets the token in each transaction: [Fence.SetToken].
//
// A partitioned table is guarded together with the partitions that it has now. What
// drops or alters a table is not checked.
//
// It is for PostgreSQL; elsewhere the error matches errors.ErrUnsupported.
func (f *Fence) Guard(ctx context.Context, resource fence.Resource, tables ...string) error {
	return f.guarding(ctx, resource, tables, guarder.guard)
}

// Unguard undoes [Fence.Guard].
func (f *Fence) Unguard(ctx context.Context, resource fence.Resource, tables ...string) error {
	return f.guarding(ctx, resource, tables, guarder.unguard)
}

func (f *Fence) guarding(ctx context.Context, resource fence.Resource, tables []string, do func(guarder, context.Context, *Fence, fence.Resource, []string) error) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if len(tables) == 0 {
		return errors.New("fencesql: no tables; want at least one")
	}
	g, ok := f.dialect.(guarder)
	if !ok {
		return fmt.Errorf("fencesql: guarding tables with triggers: %w by this dialect; want Check or Tx", errors.ErrUnsupported)
	}
	return do(g, ctx, f, resource, tables)
}

// guarded is which tables are guarded by which resource.
func (f *Fence) guarded(ctx context.Context) (map[fence.Resource][]string, error) {
	g, ok := f.dialect.(guarder)
	if !ok {
		return nil, nil
	}
	all, err := g.tables(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("fencesql: looking for guarded tables: %w", err)
	}
	return all, nil
}

// tell logs and counts a decision.
func (f *Fence) tell(resource fence.Resource, shown, highest fence.Token, err error) {
	fence.DecisionOf(resource, shown, highest, err).Report(f.cfg.Logger, f.cfg.Observe, err)
}

func (f *Fence) observe(d fence.Decision) {
	if f.cfg.Observe != nil {
		f.cfg.Observe(d)
	}
}

// failed says what has failed, and where the table of marks is absent, what to do.
func (f *Fence) failed(err error, doing string, args ...any) error {
	doing = fmt.Sprintf(doing, args...)
	if f.dialect.classify(err) == absent {
		return fmt.Errorf("fencesql: %s: %w: there is no table %s; want Install, or elect fence install (%w)", doing, fence.ErrResource, f.cfg.Table, err)
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

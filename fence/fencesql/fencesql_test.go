package fencesql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// What needs a server is tested in test/fencing.

func TestNew(t *testing.T) {
	db := sql.OpenDB(&script{})
	defer db.Close()
	for _, cfg := range []fencesql.Config{
		{},
		{Table: "marks"},
		{Table: "guards.marks_2", LockTimeout: time.Millisecond},
	} {
		for _, d := range []fencesql.Dialect{fencesql.PostgreSQL, fencesql.MySQL, fencesql.SQLite} {
			if _, err := fencesql.New(db, d, "orders", cfg); err != nil {
				t.Errorf("%s, %+v: %v", d, cfg, err)
			}
		}
	}
	for _, name := range []string{".", "a.", ".a", "a.b.c", "Marks", "1a", `a"b`, "a b", "a;b", strings.Repeat("a", 49)} {
		if _, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{Table: name}); err == nil {
			t.Errorf("table %q was accepted", name)
		}
	}
	for _, d := range []time.Duration{-1, time.Millisecond - 1} {
		if _, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{LockTimeout: d}); err == nil {
			t.Errorf("a lock timeout of %v was accepted", d)
		}
	}
	if _, err := fencesql.New(db, fencesql.PostgreSQL, "two words", fencesql.Config{}); !errors.Is(err, fence.ErrResource) {
		t.Errorf("a malformed name: %v", err)
	}
	if _, err := fencesql.New(db, "oracle", "orders", fencesql.Config{}); err == nil {
		t.Error("an unknown dialect was accepted")
	}
	if _, err := fencesql.New(nil, fencesql.PostgreSQL, "orders", fencesql.Config{}); err == nil {
		t.Error("no database was accepted")
	}
}

// coded is an error of a server.
type coded struct{ state, text string }

func (e coded) Error() string    { return "ERROR: " + e.text + " (SQLSTATE " + e.state + ")" }
func (e coded) SQLState() string { return e.state }

func TestRefusal(t *testing.T) {
	other := errors.New("other")
	for _, tt := range []struct {
		err  error
		want error
	}{
		{coded{"LF001", "stale fencing token: 3 shown, the resource has seen 7"}, fence.ErrStale},
		{coded{"LF001", "in words of another version"}, fence.ErrStale},
		{coded{"LF001", "stale fencing token: 9 shown, the resource has seen 7"}, fence.ErrStale},
		{coded{"LF002", ""}, fence.ErrMissing},
		{coded{"LF003", ""}, fence.ErrToken},
		{coded{"LF004", ""}, fence.ErrResource},
		{coded{"LF005", ""}, fence.ErrUnclaimed},
		{other, other},
	} {
		got := fencesql.Refusal(fmt.Errorf("writing: %w", tt.err))
		if !errors.Is(got, tt.want) || !errors.Is(got, tt.err) {
			t.Errorf("%v is read as %v; want %v", tt.err, got, tt.want)
		}
		stale, ok := errors.AsType[*fence.StaleError](got)
		if known := strings.Contains(tt.err.Error(), ": 3 shown"); ok != known || known && *stale != (fence.StaleError{Shown: 3, Highest: 7}) {
			t.Errorf("%v is read as %+v", tt.err, stale)
		}
	}
	if fencesql.Refusal(nil) != nil {
		t.Error("nil is no refusal")
	}
	plain := coded{"23505", "stale fencing token: 3 shown, the resource has seen 7"}
	if got := fencesql.Refusal(plain); got != error(plain) {
		t.Errorf("another error became %v", got)
	}
}

// TestCommit: what an error of a commit says about its outcome.
func TestCommit(t *testing.T) {
	for _, tt := range []struct {
		err   error
		known bool
	}{
		{coded{"23505", "duplicate key"}, true},
		{coded{"40001", "could not serialize access"}, true},
		{coded{"40P01", "deadlock"}, true},
		{coded{"25P02", "transaction is aborted"}, true},
		{coded{"40003", "statement completion unknown"}, false},
		{coded{"57P01", "terminating connection"}, false},
		{coded{"08006", "connection failure"}, false},
		{coded{"XX000", "internal"}, false},
		{coded{"58030", "io"}, false},
		{io.ErrUnexpectedEOF, false},
		{driver.ErrBadConn, false},
		{context.Canceled, false},
		{os.ErrDeadlineExceeded, false},
	} {
		s := &script{mark: 7, commit: tt.err}
		db := sql.OpenDB(s)
		f, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Write(t.Context(), 7, nil, func(*sql.Tx) error { return nil })
		if err == nil || errors.Is(err, fence.ErrUnknownOutcome) == tt.known || errors.Is(err, fence.ErrStale) || !errors.Is(err, tt.err) {
			t.Errorf("a commit that ends with %v: %v; want it known: %v", tt.err, err, tt.known)
		}
		_ = db.Close()
	}
}

// TestNotSent: no commit is sent once the context has ended.
func TestNotSent(t *testing.T) {
	s := &script{mark: 7}
	db := sql.OpenDB(s)
	defer db.Close()
	f, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("leadership lost")
	err = f.Write(ctx, 7, nil, func(*sql.Tx) error { cancel(why); return nil })
	if !errors.Is(err, why) || errors.Is(err, fence.ErrUnknownOutcome) || s.commits != 0 {
		t.Errorf("%v, %d commits", err, s.commits)
	}
}

// TestSerialized: a check that meets a claim is made anew, in a transaction of its own, and
// work is never done twice.
func TestSerialized(t *testing.T) {
	s := &script{mark: 7, fail: 3}
	db := sql.OpenDB(s)
	defer db.Close()
	f, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	work := func(*sql.Tx) error { ran++; return coded{"40001", "could not serialize access"} }
	if err := f.Write(t.Context(), 7, nil, work); err == nil || ran != 1 || s.begins != 4 || s.commits != 0 {
		t.Errorf("%v; %d times, %d transactions, %d commits", err, ran, s.begins, s.commits)
	}
	s.fail = 1000
	if err := f.Write(t.Context(), 7, nil, work); err == nil || ran != 1 {
		t.Errorf("%v; %d times", err, ran)
	}
}

// TestObserve: each refusal is logged and told, with what is known; what passes is told.
func TestObserve(t *testing.T) {
	for _, tt := range []struct {
		token   fence.Token
		highest fence.Token
		fail    int
		result  fence.Result
	}{
		{7, 7, 0, fence.Passed},
		{7, 7, 3, fence.Passed}, // a check that is made anew is one
		{7, 0, 1000, fence.Failed},
		{8, 7, 0, fence.Unclaimed},
		{0, 0, 0, fence.Missing},
		{1 << 48, 0, 0, fence.Malformed},
		{1 << 63, 0, 0, fence.Malformed},
		{1<<64 - 1, 0, 0, fence.Malformed}, // -1
	} {
		var told []fence.Decision
		var log strings.Builder
		s := &script{mark: 7, fail: tt.fail}
		db := sql.OpenDB(s)
		f, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{
			Observe: func(d fence.Decision) { told = append(told, d) }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Write(t.Context(), tt.token, nil, func(*sql.Tx) error { return nil })
		want := fence.Decision{Resource: "orders", Shown: tt.token, Highest: tt.highest, Result: tt.result}
		if len(told) != 1 || told[0] != want || (err == nil) != (tt.result == fence.Passed) {
			t.Errorf("%v; told %+v; want %+v", err, told, want)
		}
		msg := "refused"
		if tt.result == fence.Failed {
			msg = "failed"
		}
		if text := log.String(); (err != nil) != strings.Contains(text, "msg="+msg+" ") || err != nil && !strings.Contains(text, fmt.Sprintf(" shown=%v highest=%v result=%s error=", tt.token, tt.highest, tt.result)) {
			t.Errorf("%+v is logged as %q", want, text)
		}
		_ = db.Close()
	}
}

// TestObserveUnknown: a claim whose commit was not answered is not told as a refusal.
func TestObserveUnknown(t *testing.T) {
	var told []fence.Result
	var log strings.Builder
	db := sql.OpenDB(&script{mark: 7, commit: io.ErrUnexpectedEOF})
	defer db.Close()
	f, err := fencesql.New(db, fencesql.SQLite, "orders", fencesql.Config{
		Observe: func(d fence.Decision) { told = append(told, d.Result) }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Claim(t.Context(), 8)
	if text := log.String(); !errors.Is(err, fence.ErrUnknownOutcome) || !slices.Equal(told, []fence.Result{fence.Failed}) ||
		!strings.Contains(text, `msg="outcome unknown" resource=orders shown=8 highest=7 `) || strings.Contains(text, "refused") {
		t.Errorf("%v; told %q; logged %s", err, told, text)
	}
}

// script is a driver whose checks find a mark, and whose commits end as they are told.
type script struct {
	mark   int64
	fail   int // so many checks fail first
	commit error

	begins, commits int
}

func (s *script) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *script) Driver() driver.Driver                        { return nil }
func (s *script) Prepare(string) (driver.Stmt, error)          { return s, nil }
func (s *script) Close() error                                 { return nil }
func (s *script) Begin() (driver.Tx, error)                    { s.begins++; return s, nil }
func (s *script) Rollback() error                              { return nil }
func (s *script) NumInput() int                                { return -1 }

func (s *script) Exec(args []driver.Value) (driver.Result, error) {
	if len(args) == 3 { // that raises the mark
		s.mark = args[0].(int64)
	}
	return driver.RowsAffected(1), nil
}

func (s *script) Commit() error {
	s.commits++
	return s.commit
}

func (s *script) Query([]driver.Value) (driver.Rows, error) {
	if s.fail > 0 {
		s.fail--
		return nil, coded{"40001", "could not serialize access due to concurrent update"}
	}
	return &one{value: s.mark}, nil
}

// one is one row.
type one struct {
	value int64
	read  bool
}

func (o *one) Columns() []string { return []string{"token"} }
func (o *one) Close() error      { return nil }

func (o *one) Next(dest []driver.Value) error {
	if o.read {
		return io.EOF
	}
	o.read, dest[0] = true, o.value
	return nil
}

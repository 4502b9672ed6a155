//go:build linux && cgo

package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/mattn/go-sqlite3"

	"github.com/electd/elect/test/fencing/zombie"
)

func open(at string, steps *zombie.Steps) (*sql.DB, error) {
	step := func() {}
	if steps != nil {
		step = steps.Step
	}
	return sql.OpenDB(connector{at, step}), nil
}

// connector makes connections that take a step before and after each use of the file. They have no
// socket at which a leader could be frozen.
type connector struct {
	dsn  string
	step func()
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	c.step()
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &steppedConn{conn.(*sqlite3.SQLiteConn), c.step}, nil
}

type steppedConn struct {
	*sqlite3.SQLiteConn
	step func()
}

func (c *steppedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.step()
	tx, err := c.SQLiteConn.BeginTx(ctx, opts)
	c.step()
	if err != nil {
		return nil, err
	}
	return steppedTx{tx, c.step}, nil
}

func (c *steppedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.step()
	result, err := c.SQLiteConn.ExecContext(ctx, query, args)
	c.step()
	return result, err
}

// QueryContext prepares a statement. It is run by the first Next.
func (c *steppedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.step()
	rows, err := c.SQLiteConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return steppedRows{rows, c.step}, nil
}

type steppedRows struct {
	driver.Rows
	step func()
}

func (r steppedRows) Next(values []driver.Value) error {
	r.step()
	err := r.Rows.Next(values)
	r.step()
	return err
}

type steppedTx struct {
	driver.Tx
	step func()
}

func (t steppedTx) Commit() error {
	t.step()
	err := t.Tx.Commit()
	t.step()
	return err
}

func (t steppedTx) Rollback() error {
	t.step()
	return t.Tx.Rollback()
}

package marks

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// sqlPlace is a table of marks.
type sqlPlace struct {
	db *sql.DB
	*fencesql.Fence
}

// table is the parameter of the URL that names the table of marks, and goes to no
// driver.
const table = "fence_table"

func openSQL(u *url.URL, cfg Config) (*sqlPlace, error) {
	bare := *u
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: its parameters cannot be read", ErrURL, Shown(u.String()))
	}
	name := query.Get(table)
	query.Del(table)
	bare.RawQuery = query.Encode()
	open, dialect := openPostgres, fencesql.PostgreSQL
	if u.Scheme == "mysql" {
		open, dialect = openMySQL, fencesql.MySQL
	}
	db, err := open(&bare)
	if err != nil {
		return nil, err
	}
	f, err := fencesql.New(db, dialect, fencesql.Config{Table: name, LockTimeout: cfg.Wait, Terminate: cfg.Terminate})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return &sqlPlace{db, f}, nil
}

func openPostgres(u *url.URL) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: want postgres://USER@HOST:PORT/DATABASE, with the parameters that libpq knows", ErrURL, Shown(u.String()))
	}
	return stdlib.OpenDB(*cfg), nil
}

func openMySQL(u *url.URL) (*sql.DB, error) {
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	cfg, err := mysql.ParseDSN("tcp(" + address + ")/" + strings.TrimPrefix(u.EscapedPath(), "/") + "?" + u.RawQuery)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%w: %s: want mysql://USER@HOST:PORT/DATABASE, with the parameters of go-sql-driver/mysql", ErrURL, Shown(u.String()))
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Logger = &mysql.NopLogger{} // what it says is in the error, too
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return sql.OpenDB(connector), nil
}

func (p *sqlPlace) Install(ctx context.Context, resource fence.Resource, tables []string) ([]string, error) {
	if resource == "" {
		return nil, fmt.Errorf("%w: a database has many resources; want the name of one", ErrURL)
	}
	if err := p.Fence.Install(ctx); err != nil {
		return nil, err
	}
	if err := p.Add(ctx, resource); err != nil {
		return nil, err
	}
	if len(tables) > 0 {
		if err := p.Guard(ctx, resource, tables...); err != nil {
			return nil, err
		}
	}
	return p.Warnings(ctx)
}

func (p *sqlPlace) Uninstall(ctx context.Context, resource fence.Resource, tables []string) error {
	if resource == "" {
		marks, err := p.Fence.Status(ctx)
		if err != nil {
			return err
		}
		for _, m := range marks {
			return fmt.Errorf("%s is guarded there still, with %d others; uninstall each by its name first", m.Resource, len(marks)-1)
		}
		return p.Fence.Uninstall(ctx)
	}
	all, err := p.Status(ctx, resource)
	if err != nil {
		return err
	}
	if len(tables) > 0 {
		return p.Unguard(ctx, resource, tables...)
	}
	if guarded := all[0].Tables; len(guarded) > 0 {
		if err := p.Unguard(ctx, resource, guarded...); err != nil {
			return err
		}
	}
	return p.Remove(ctx, resource)
}

func (p *sqlPlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	rows, err := p.Fence.Status(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err := p.Warnings(ctx)
	if err != nil {
		return nil, err
	}
	all := []State{}
	for _, s := range rows {
		if resource == "" || s.Resource == resource {
			all = append(all, State{Resource: s.Resource, Highest: s.Highest, Claimed: s.Claimed, Tables: s.Tables, Warnings: warnings})
		}
	}
	if resource != "" && len(all) == 0 {
		return nil, fmt.Errorf("%w: %s was not installed", fence.ErrResource, resource)
	}
	return all, nil
}

func (p *sqlPlace) Close() error { return p.db.Close() }

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
	"github.com/lib/pq"

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
	cfg, err := pq.NewConfig(u.String())
	if cfg.SSLMode == "" {
		cfg.SSLMode = pq.SSLModePrefer // as libpq has it
	}
	var connector *pq.Connector
	if err == nil {
		connector, err = pq.NewConnectorConfig(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: want postgres://USER@HOST:PORT/DATABASE, with the parameters that libpq knows", ErrURL, Shown(u.String()))
	}
	return sql.OpenDB(connector), nil
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

var errWhich = fmt.Errorf("%w: a database has many resources; want the name of one", ErrURL)

func (p *sqlPlace) Install(ctx context.Context, resource fence.Resource, tables []string) ([]string, error) {
	if resource == "" {
		return nil, errWhich
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
		if len(marks) > 0 {
			names := make([]string, len(marks))
			for i, m := range marks {
				names[i] = string(m.Resource)
			}
			return fmt.Errorf("still guarded there: %s; uninstall each by its name first", strings.Join(names, ", "))
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
		return nil, fmt.Errorf("%w: %s has no mark there; want elect fence install %s", fence.ErrResource, resource, resource)
	}
	return all, nil
}

// Claim wants a resource, of which a database has many.
func (p *sqlPlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if resource == "" {
		return errWhich
	}
	return p.Fence.Claim(ctx, resource, token)
}

func (p *sqlPlace) Close() error { return p.db.Close() }

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
	db      *sql.DB
	dialect fencesql.Dialect
	cfg     fencesql.Config
	mark    *fencesql.Mark
}

// table is the parameter of the URL that names the table of marks. No driver gets it.
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
	p := &sqlPlace{db: db, dialect: dialect, cfg: fencesql.Config{Table: name, LockTimeout: cfg.Wait, Terminate: cfg.Terminate}}
	if p.mark, err = fencesql.NewMark(db, dialect, p.cfg); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return p, nil
}

func openPostgres(u *url.URL) (*sql.DB, error) {
	cfg, err := pq.NewConfig(u.String())
	if cfg.SSLMode == "" {
		cfg.SSLMode = pq.SSLModePrefer // as in libpq
	}
	// Without it a statement and its arguments are two requests, and PgBouncer in transaction mode may let another
	// client use the connection between them: the arguments then go to that client's statement.
	cfg.BinaryParameters = true
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
	cfg.Logger = &mysql.NopLogger{} // its lines are in the error too
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return sql.OpenDB(connector), nil
}

var errWhich = fmt.Errorf("%w: a database has many resources; want the name of one", ErrURL)

// guard requires a resource, because a database has many.
func (p *sqlPlace) guard(resource fence.Resource) (*fencesql.Guard, error) {
	if resource == "" {
		return nil, errWhich
	}
	return fencesql.New(p.db, p.dialect, resource, p.cfg)
}

func (p *sqlPlace) Install(ctx context.Context, resource fence.Resource, tables []string) ([]string, error) {
	g, err := p.guard(resource)
	if err != nil {
		return nil, err
	}
	if err := g.Install(ctx); err != nil {
		return nil, err
	}
	if len(tables) > 0 {
		if err := g.InstallTriggers(ctx, tables...); err != nil {
			return nil, err
		}
	}
	s, err := g.Status(ctx)
	return s.Warnings, err
}

func (p *sqlPlace) Uninstall(ctx context.Context, resource fence.Resource, tables []string) error {
	if resource == "" {
		marks, err := p.mark.List(ctx)
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
		return p.mark.Drop(ctx)
	}
	g, err := p.guard(resource)
	if err != nil {
		return err
	}
	s, err := g.Status(ctx)
	switch {
	case err != nil:
		return err
	case len(tables) > 0:
		return g.UninstallTriggers(ctx, tables...)
	case len(s.Tables) > 0:
		if err := g.UninstallTriggers(ctx, s.Tables...); err != nil {
			return err
		}
	}
	return g.Uninstall(ctx)
}

func (p *sqlPlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	if resource != "" {
		g, err := p.guard(resource)
		if err != nil {
			return nil, err
		}
		s, err := g.Status(ctx)
		return []State{State(s)}, err
	}
	rows, err := p.mark.List(ctx)
	all := make([]State, len(rows))
	for i, s := range rows {
		all[i] = State(s)
	}
	return all, err
}

func (p *sqlPlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	g, err := p.guard(resource)
	if err != nil {
		return err
	}
	return g.Claim(ctx, token)
}

func (p *sqlPlace) Close() error { return p.db.Close() }

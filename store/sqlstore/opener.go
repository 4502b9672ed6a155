package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// Opener returns the opener of URLs of a dialect, for elect.Openers. open opens the database that a URL names. The
// elections of the opener whose URLs are the same for open share one database, which is opened with the first and
// closed with the last of them; in SQLite each has its own. If open sets no limit of connections, a shared database has
// 8. In PostgreSQL the elections of one table read and renew together: up to 200 rows with one statement. These
// parameters are the election's, and not in the URL that open is given:
//
//	lease=5s  max_lease=15s  poll=1s  table=elect_leases  era=N  flight=DIR
//
// as in Config. For MySQL the URL has readTimeout and writeTimeout, which are those of
// go-sql-driver/mysql: the time that a request may take, unless the URL has others. With package
// pgx, for one:
//
//	elect.Openers{"postgres": sqlstore.Opener(sqlstore.PostgreSQL, func(u *url.URL) (*sql.DB, error) {
//		return sql.Open("pgx", u.String())
//	})}
func Opener(d Dialect, open func(u *url.URL) (*sql.DB, error)) driver.Opener {
	return opener(d, func(u *url.URL) (*sql.DB, Listen, error) {
		db, err := open(u)
		return db, nil, err
	})
}

// ListeningOpener is [Opener] for PostgreSQL, with a [Listener] for each database. A database for which open returns a
// nil Listen is only polled. The Listener logs to the logger of the first election of the database.
func ListeningOpener(open func(u *url.URL) (*sql.DB, Listen, error)) driver.Opener {
	return opener(PostgreSQL, open)
}

// source is a database that elections share.
type source struct {
	db       *sql.DB
	listener *Listener // or nil
	accept   func()    // lets the listener begin

	mu     sync.Mutex
	tables map[string]*together // by Config.Table
}

// together returns what the elections of a table share.
func (s *source) together(d Dialect, name string) (*together, error) {
	t, err := tableOf(s.db, d, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, there := s.tables[t.name]
	if !there {
		w = newTogether(t)
		s.tables[t.name] = w
	}
	return w, nil
}

func (s *source) close() error {
	if s.listener != nil {
		s.listener.Close()
	}
	return s.db.Close()
}

// connections is how many connections elections that share a database have at most: enough that a request that waits
// for a lock does not delay the others, and that a database with slow disks can commit several at a time.
const connections = 8

func opener(d Dialect, open func(u *url.URL) (*sql.DB, Listen, error)) driver.Opener {
	var sources pool.Pool[string, *source] // by the URL of the database, which may contain a password
	return func(ctx context.Context, t driver.Target) (driver.Elector, error) {
		u, cfg, err := place(d, t.URL)
		if err != nil {
			return nil, driver.Permanent(err)
		}
		cfg.Logger = t.Logger
		shared := &sources
		if d == SQLite { // an open connection may have a file that was replaced since
			shared = &pool.Pool[string, *source]{}
		}
		s, done, err := shared.Use(u.String(), func() (*source, func() error, error) {
			db, listen, err := open(u)
			if err != nil {
				return nil, nil, err
			}
			s := &source{db: db, accept: func() {}, tables: map[string]*together{}}
			if db.Stats().MaxOpenConnections == 0 && d != SQLite {
				db.SetMaxOpenConns(connections)
				db.SetMaxIdleConns(connections)
				db.SetConnMaxIdleTime(time.Minute)
			}
			if listen != nil {
				accepted := make(chan struct{})
				s.accept = sync.OnceFunc(func() { close(accepted) })
				s.listener = NewListener(db, func(ctx context.Context, channel string, heard func(string)) error {
					select {
					case <-accepted: // a refusal says all
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					return listen(ctx, channel, heard)
				}, t.Logger)
			}
			return s, s.close, nil
		})
		if err != nil {
			return nil, driver.Permanent(err)
		}
		cfg.Listener = s.listener
		with, err := s.together(d, cfg.Table)
		if err != nil {
			return nil, errors.Join(driver.Permanent(err), done())
		}
		left := with.use()
		close := func() error { left(); return done() }
		e, err := newElector(ctx, s.db, d, t.Name, t.ID, cfg, t.URL, with)
		if err != nil {
			return nil, errors.Join(err, close())
		}
		s.accept()
		in, err := tableOf(s.db, d, cfg.Table)
		if err != nil { // New has had it
			return nil, errors.Join(err, e.Close(), close())
		}
		e.AtClose(close)
		return &owner{e, in}, nil
	}
}

// Witness returns a supervise.Witness for leaders whose election was opened by [Opener] or [ListeningOpener] with that
// dialect: it frees the dead leader's row, so that the next one need not wait for the lease. It opens the database when
// it speaks, by the URL of the leader.
func Witness(d Dialect, open func(u *url.URL) (*sql.DB, error)) func(context.Context, []byte) (func(context.Context) error, error) {
	return func(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
		return drive.Witness(testament, func(ctx context.Context, dead *drive.Deceased) error {
			u, cfg, err := place(d, dead.URL)
			if err != nil {
				return err
			}
			db, err := open(u)
			if err != nil {
				return err
			}
			defer db.Close()
			t, err := tableOf(db, d, cfg.Table)
			if err != nil {
				return err
			}
			return register.Free(ctx, &row{table: t, election: dead.Name}, dead)
		})
	}
}

// place is the URL of the driver, and what the election has beside it.
func place(d Dialect, from *url.URL) (*url.URL, Config, error) {
	u, cfg, err := Parameters(from)
	if err == nil && d == MySQL {
		u = timed(u, register.Timeout(cfg.Lease, cfg.MaxLease))
	}
	return u, cfg, err
}

// timed is a URL with the timeouts of go-sql-driver/mysql. 0 is none.
func timed(u *url.URL, timeout time.Duration) *url.URL {
	query := u.Query()
	for _, key := range []string{"readTimeout", "writeTimeout"} {
		if !query.Has(key) && timeout > 0 {
			query.Set(key, timeout.String())
		}
	}
	own := *u
	own.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return &own
}

// Parameters takes the election's parameters out of a URL. It returns the URL that is left,
// which is the driver's.
func Parameters(u *url.URL) (*url.URL, Config, error) {
	var c Config
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, c, fmt.Errorf("parameters: %w", err)
	}
	times := map[string]*time.Duration{"lease": &c.Lease, "max_lease": &c.MaxLease, "poll": &c.Poll}
	rest := url.Values{}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		at, isTime := times[key]
		if len(query[key]) != 1 && (isTime || key == "table" || key == "flight" || key == "era") {
			return nil, c, fmt.Errorf("%s is given %d times; want it once", key, len(query[key]))
		}
		value := query.Get(key)
		switch {
		case isTime:
			if *at, err = time.ParseDuration(value); err != nil || *at <= 0 {
				return nil, c, fmt.Errorf("%s=%.40s; want a time such as 5s", key, value)
			}
		case key == "table":
			c.Table = value
		case key == "flight":
			c.Flight = value
		case key == "era":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, c, fmt.Errorf("era=%.40s; want 0 to 65535", value)
			}
			c.Era = uint16(n)
		default: // the driver's
			rest[key] = query[key]
		}
	}
	own := *u
	own.RawQuery = strings.ReplaceAll(rest.Encode(), "+", "%20")
	return &own, c, nil
}

// owner is a participant that uses a shared database.
type owner struct {
	*register.Elector
	table *table
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*owner)(nil)

// Examine implements [driver.Examiner].
func (o *owner) Examine(ctx context.Context) ([]driver.Finding, error) {
	found, err := o.table.dialect.examine(ctx, o.table)
	if err != nil {
		return nil, err
	}
	return append(found, o.table.rights(ctx)), nil
}

package marks

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/sqlstore"
)

// dialectOf is that of elections at a URL, and what opens their database.
func dialectOf(scheme string) (sqlstore.Dialect, func(*url.URL) (*sql.DB, error)) {
	if scheme == "mysql" {
		return sqlstore.MySQL, openMySQL
	}
	return sqlstore.PostgreSQL, openPostgres
}

// OpenElection is a [driver.Opener] of elections in a database.
func OpenElection(ctx context.Context, t driver.Target) (driver.Elector, error) {
	if d, open := dialectOf(t.URL.Scheme); d != sqlstore.PostgreSQL {
		return sqlstore.Opener(d, open)(ctx, t)
	}
	return sqlstore.ListeningOpener(openListening)(ctx, t)
}

// Witness is the supervise.Witness for leaders of elections with that scheme.
func Witness(scheme string) func(context.Context, []byte) (func(context.Context) error, error) {
	return sqlstore.Witness(dialectOf(scheme))
}

// InstallElections makes the table of the elections at a URL, unless show is set. It
// returns the statement that makes it. What is wrong with the URL is an [ErrURL].
func InstallElections(ctx context.Context, u *url.URL, show bool) (statement string, err error) {
	d, open := dialectOf(u.Scheme)
	at, cfg, err := sqlstore.Parameters(u)
	if err == nil {
		statement, err = sqlstore.Schema(d, cfg.Table)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrURL, err)
	}
	if show {
		return statement, nil
	}
	db, err := open(at)
	if err != nil {
		return "", err
	}
	defer db.Close()
	return statement, sqlstore.Install(ctx, db, d, cfg.Table)
}

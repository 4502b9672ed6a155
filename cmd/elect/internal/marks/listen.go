package marks

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"

	"github.com/lib/pq"

	"github.com/electd/elect/store/sqlstore"
)

// openListening is openPostgres, with a sqlstore.Listen for the same server.
func openListening(u *url.URL) (*sql.DB, sqlstore.Listen, error) {
	db, err := openPostgres(u)
	if err != nil {
		return nil, nil, err
	}
	return db, listenAt(u), nil
}

// listenAt listens with a connection of package pq, which connects without a context: one that is
// still connecting when the context ends is closed later.
func listenAt(u *url.URL) sqlstore.Listen {
	at, query := *u, u.Query()
	if cfg, err := pq.NewConfig(u.String()); err == nil { // with the environment and the service file
		if cfg.SSLMode == "" {
			query.Set("sslmode", string(pq.SSLModePrefer)) // as openPostgres has it
		}
		if cfg.ConnectTimeout == 0 {
			query.Set("connect_timeout", "10")
		}
	}
	at.RawQuery = query.Encode()
	return func(ctx context.Context, channel string, heard func(payload string)) error {
		type connection struct {
			*pq.ListenerConn
			err error
		}
		opened, said := make(chan connection, 1), make(chan *pq.Notification, 64)
		go func() {
			c, err := pq.NewListenerConn(at.String(), said)
			if err == nil {
				if _, err = c.Listen(channel); err != nil {
					_ = c.Close()
				}
			}
			opened <- connection{c, err}
		}()
		var c connection
		select {
		case c = <-opened:
		case <-ctx.Done():
			go func() {
				if c := <-opened; c.err == nil {
					_ = c.Close()
				}
			}()
			return context.Cause(ctx)
		}
		if c.err != nil {
			return c.err
		}
		defer func() {
			_ = c.Close()
			go func() {
				for range said { // until it is closed: the connection may wait to tell more
				}
			}()
		}()
		for heard(""); ; {
			select {
			case n, ok := <-said:
				if !ok {
					return cmp.Or(c.Err(), errors.New("the connection has ended"))
				}
				heard(n.Extra)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// A leader claims before it reads, and writes in guarded transactions. The resource was
// installed before, once, by Install or elect fence install.
func Example() {
	var (
		db  *sql.DB         // with any driver
		ctx context.Context // of the term
	)
	lead := func(token fence.Token) error {
		guard, err := fencesql.New(db, fencesql.PostgreSQL, "orders", fencesql.Config{})
		if err != nil {
			return err
		}
		if err := guard.Claim(ctx, token); err != nil {
			return err
		}
		err = guard.Write(ctx, token, nil, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'shipped' WHERE id = 7`)
			return err
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			log.Print("somebody else leads; nothing was written")
		case errors.Is(err, fence.ErrUnknownOutcome):
			log.Print("the order may have been shipped; look before doing it again")
		}
		return err
	}
	_ = lead
}

package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// A leader claims before it reads, and writes in guarded transactions. The table was
// installed and the resource added before, once, by Install and Add.
func Example() {
	var (
		db  *sql.DB         // with any driver
		ctx context.Context // of the term
	)
	lead := func(token fence.Token) error {
		f, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{})
		if err != nil {
			return err
		}
		if err := f.Claim(ctx, "orders", token); err != nil {
			return err
		}
		err = f.Tx(ctx, "orders", token, nil, func(tx *sql.Tx) error {
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

//go:build linux

package postgres_test

import (
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestObserve: decisions that only the mark can make are reported with it.
func TestObserve(t *testing.T) {
	t.Parallel()
	d := database(server.StartPostgres(t))
	db := d.Connect(t, d.Make(t))
	var mu sync.Mutex
	var told []fence.Decision
	cfg := fencesql.Config{LockTimeout: 100 * time.Millisecond, Observe: func(d fence.Decision) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, d)
	}}
	f := d.Installed(t, db, cfg, "orders")
	tx := func(token fence.Token) func() error {
		return func() error {
			return f.Write(t.Context(), token, nil, func(*sql.Tx) error { return nil })
		}
	}
	check := func(resource fence.Resource, token fence.Token) func() error {
		return func() error {
			tx := sqltest.Begin(t, db, sql.LevelDefault)
			defer tx.Rollback()
			return d.Guard(t, db, cfg, resource).Check(t.Context(), tx, token)
		}
	}
	claims := func(token fence.Token) func() error {
		return func() error { return f.Claim(t.Context(), token) }
	}
	decision := func(shown, highest fence.Token, result fence.Result) fence.Decision {
		return fence.Decision{Resource: "orders", Shown: shown, Highest: highest, Result: result}
	}
	for _, tt := range []struct {
		name string
		do   func() error
		want []fence.Decision
	}{
		{"a claim", claims(6), []fence.Decision{decision(6, 6, fence.Raised), decision(6, 6, fence.Passed)}},
		{"a greater one", claims(7), []fence.Decision{decision(7, 7, fence.Raised), decision(7, 7, fence.Passed)}},
		{"the same again", claims(7), []fence.Decision{decision(7, 7, fence.Passed)}},
		{"a stale one", claims(6), []fence.Decision{decision(6, 7, fence.Stale)}},
		{"a write", tx(7), []fence.Decision{decision(7, 7, fence.Passed)}},
		{"a stale write", tx(6), []fence.Decision{decision(6, 7, fence.Stale)}},
		{"a check", check("orders", 7), []fence.Decision{decision(7, 7, fence.Passed)}},
		{"a stale check", check("orders", 6), []fence.Decision{decision(6, 7, fence.Stale)}},
		{"not claimed, or forgotten by a restore", tx(8), []fence.Decision{decision(8, 7, fence.Unclaimed)}},
		{"of another resource", check("stock", 7), []fence.Decision{{Resource: "stock", Shown: 7, Result: fence.Foreign}}},
		{"a claim while another transaction goes on", func() error {
			older := sqltest.Begin(t, db, sql.LevelDefault)
			defer older.Rollback()
			sqltest.In(t, older, `SELECT 1 FROM elect_fence WHERE resource = 'orders' FOR SHARE`)
			return f.Claim(t.Context(), 8)
		}, []fence.Decision{decision(8, 7, fence.Busy)}},
		{"no token for the triggers", func() error {
			tx := sqltest.Begin(t, db, sql.LevelDefault)
			defer tx.Rollback()
			return errors.Join(f.SetToken(t.Context(), tx, 0), f.SetToken(t.Context(), tx, 1<<63))
		}, []fence.Decision{decision(0, 0, fence.Missing), decision(1<<63, 0, fence.Malformed)}},
		{"a mark that guards have in common", func() error { return d.Mark(t, db, cfg).Raise(t.Context(), "orders", 6) }, nil},
	} {
		told = nil
		err := tt.do()
		if !slices.Equal(told, tt.want) {
			t.Errorf("%s: %v; told %+v; want %+v", tt.name, err, told, tt.want)
		}
	}
}

//go:build linux

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/fencing/server"
)

// TestKilledServer kills the server at random moments while two leaders that take turns
// claim and write. No mark goes back, what was acknowledged is there, and nothing was
// written with a smaller token after a greater one.
func TestKilledServer(t *testing.T) {
	race.Alone(t)
	pg := server.StartPostgres(t)
	url := pg.Database(t)
	db := connect(t, url)
	installed(t, db, fencesql.Config{}, "journal")
	execute(t, db, `CREATE TABLE journal (id bigserial PRIMARY KEY, token bigint NOT NULL, n bigint NOT NULL)`)

	e := &election{written: map[entry]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var leaders sync.WaitGroup
	defer leaders.Wait()
	defer stop()
	for range 2 {
		own := connect(t, url)
		leaders.Go(func() { e.lead(ctx, t, own) })
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var before fence.Token
	for range 6 {
		<-time.After(time.Duration(100+random.IntN(500)) * time.Millisecond)
		claimed := e.greatest()
		pg.Kill(t)
		pg.Start(t)
		mark := fence.Token(number(t, fresh(t, url), `SELECT token FROM elect_fence`))
		if mark < claimed || mark < before {
			t.Fatalf("the mark is %v; it was %v, and a claim of %v was acknowledged", mark, before, claimed)
		}
		before = mark
	}
	stop()
	leaders.Wait()
	rows, err := fresh(t, url).Query(`SELECT token, n FROM journal ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := map[entry]bool{}
	var last fence.Token
	for rows.Next() {
		var x entry
		if err := rows.Scan(&x.token, &x.n); err != nil {
			t.Fatal(err)
		}
		if x.token < last {
			t.Errorf("%v was written after %v", x.token, last)
		}
		last, there[x] = x.token, true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for x, known := range e.written {
		if known && !there[x] {
			t.Errorf("%+v was acknowledged, and is gone", x)
		}
		if known {
			acknowledged++
		}
		delete(there, x)
	}
	for x := range there {
		t.Errorf("%+v is there, and its writer was told that it is not", x)
	}
	t.Logf("%d writes acknowledged, %d of unknown outcome, %d refused, %v claims", acknowledged, len(e.written)-acknowledged, e.refused, e.greatest())
	if acknowledged < 20 || e.refused == 0 {
		t.Error("this has shown nothing")
	}
}

// fresh is a connection of a server that was started anew.
func fresh(t *testing.T, url string) *sql.DB { return connect(t, url) }

// entry is a row of the journal.
type entry struct {
	token fence.Token
	n     int64
}

// election gives out tokens, and takes down what leaders were told.
type election struct {
	mu      sync.Mutex
	tokens  fence.Token
	claimed fence.Token    // the greatest that was acknowledged
	written map[entry]bool // whether it was acknowledged; false: not known
	refused int
}

func (e *election) greatest() fence.Token {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claimed
}

// lead is elected again and again, and writes until it is refused. It does not know
// that the other one was elected meanwhile.
func (e *election) lead(ctx context.Context, t *testing.T, db *sql.DB) {
	f, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		e.mu.Lock()
		e.tokens++
		token := e.tokens
		e.mu.Unlock()
		for err = f.Claim(ctx, "journal", token); err != nil && !errors.Is(err, fence.ErrStale) && ctx.Err() == nil; err = f.Claim(ctx, "journal", token) {
			<-pause.C // the server is down
		}
		if err == nil {
			e.mu.Lock()
			e.claimed = max(e.claimed, token)
			e.mu.Unlock()
		}
		for n := int64(0); err == nil || !errors.Is(err, fence.ErrStale); n++ {
			if ctx.Err() != nil {
				return
			}
			err = f.Tx(ctx, "journal", token, nil, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO journal (token, n) VALUES ($1, $2)`, int64(token), n)
				return err
			})
			e.mu.Lock()
			switch {
			case err == nil:
				e.written[entry{token, n}] = true
			case errors.Is(err, fence.ErrUnknownOutcome):
				e.written[entry{token, n}] = false
			case errors.Is(err, fence.ErrStale):
				e.refused++
			}
			e.mu.Unlock()
			<-pause.C
			if err == nil && n > 20 {
				break // it is replaced by whoever is elected next: itself, this time
			}
		}
	}
}

//go:build linux

package sqltest

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
)

// Kill has the server killed at random moments while two leaders in turn claim and write; again
// kills it and starts it again. No mark falls, every acknowledged write is there, and nothing was
// written with a smaller token after a greater one.
func Kill(t *testing.T, d Database, again func()) {
	at := d.Make(t)
	db := d.Connect(t, at)
	d.Installed(t, db, fencesql.Config{}, "journal")
	Execute(t, db, `CREATE TABLE journal (id SERIAL PRIMARY KEY, token BIGINT NOT NULL, n BIGINT NOT NULL)`)

	j := &journal{insert: d.bind(`INSERT INTO journal (token, n) VALUES (?, ?)`), written: map[entry]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var leaders sync.WaitGroup
	defer leaders.Wait()
	defer stop()
	for range 2 {
		f := d.Guard(t, d.Connect(t, at), fencesql.Config{}, "journal")
		leaders.Go(func() { j.lead(ctx, f) })
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var before fence.Token
	for range 6 {
		<-time.After(time.Duration(100+random.IntN(500)) * time.Millisecond)
		claimed := j.greatest()
		again()
		mark := fence.Token(Number(t, d.Connect(t, at), `SELECT token FROM elect_fence`))
		if mark < claimed || mark < before {
			t.Fatalf("the mark is %v; it was %v, and a claim of %v was acknowledged", mark, before, claimed)
		}
		before = mark
	}
	for deadline := time.Now().Add(time.Minute); !j.enough() && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	stop()
	leaders.Wait()
	j.check(t, d.Connect(t, at))
}

// entry is a row of the journal.
type entry struct {
	token fence.Token
	n     int64
}

// journal gives out tokens, and records the answers to leaders.
type journal struct {
	insert string

	mu      sync.Mutex
	tokens  fence.Token
	claimed fence.Token    // the greatest that was acknowledged
	written map[entry]bool // whether it was acknowledged; false: not known
	refused int
}

func (j *journal) greatest() fence.Token {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.claimed
}

func (j *journal) enough() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.written) > 40 && j.refused > 2
}

// lead is elected again and again, and writes until it is refused, or has written enough.
// It does not know that the other one was elected meanwhile.
func (j *journal) lead(ctx context.Context, f *fencesql.Guard) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		j.mu.Lock()
		j.tokens++
		token := j.tokens
		j.mu.Unlock()
		err := f.Claim(ctx, token)
		for ; err != nil && !errors.Is(err, fence.ErrStale) && ctx.Err() == nil; err = f.Claim(ctx, token) {
			<-pause.C // the server is down
		}
		if err == nil {
			j.mu.Lock()
			j.claimed = max(j.claimed, token)
			j.mu.Unlock()
		}
		for n := int64(0); n < 20 && !errors.Is(err, fence.ErrStale) && ctx.Err() == nil; n++ {
			err = f.Write(ctx, token, nil, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, j.insert, int64(token), n)
				return err
			})
			j.mu.Lock()
			switch {
			case err == nil:
				j.written[entry{token, n}] = true
			case errors.Is(err, fence.ErrUnknownOutcome):
				j.written[entry{token, n}] = false
			case errors.Is(err, fence.ErrStale):
				j.refused++
			}
			j.mu.Unlock()
			<-pause.C
		}
	}
}

// check compares the answers to the leaders with the data.
func (j *journal) check(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT token, n FROM journal ORDER BY id`)
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
	for x, known := range j.written {
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
	t.Logf("%d writes acknowledged, %d of unknown outcome, %d refused, claims up to %v", acknowledged, len(j.written)-acknowledged, j.refused, j.claimed)
	if acknowledged < 20 || j.refused == 0 {
		t.Error("nothing was tested")
	}
}

package sqlstore

import (
	"context"
	"sync/atomic"

	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// joiner is a dialect that reads and replaces several rows with one statement.
type joiner interface {
	readAll(ctx context.Context, t *table, names []string) ([]content, error)
	// replaceAll returns "" for a row that it did not replace, because it is locked or has another record.
	replaceAll(ctx context.Context, t *table, all []change) (stores []string, err error)
}

// change replaces the record of an election.
type change struct {
	name, old, text string
	news            bool // it is more than a renewal
}

// together makes the requests of the elections of one process that are in one table: reads with reads, and writes with
// writes. A nil together makes each by itself.
type together struct {
	elections atomic.Int64
	reads     pool.Batch[string, content]
	writes    pool.Batch[change, string]
}

// mostTogether is how many rows are in one statement.
const mostTogether = 200

// newTogether returns nil if the dialect has no such statements.
func newTogether(t *table) *together {
	d, joins := t.dialect.(joiner)
	if !joins {
		return nil
	}
	w := &together{}
	w.reads.Most, w.writes.Most = mostTogether, mostTogether
	w.reads.Ask = func(ctx context.Context, names []string) ([]content, error) { return d.readAll(ctx, t, names) }
	w.writes.Ask = func(ctx context.Context, all []change) ([]string, error) {
		if len(all) == 1 {
			store, err := t.dialect.write(ctx, t, all[0].name, true, all[0].old, all[0].text)
			return []string{store}, err
		}
		return d.replaceAll(ctx, t, all)
	}
	return w
}

// use counts an election, until done is called.
func (w *together) use() (done func()) {
	if w == nil {
		return func() {}
	}
	w.elections.Add(1)
	return func() { w.elections.Add(-1) }
}

var _ register.Sharer = (*row)(nil)

// Shares implements [register.Sharer].
func (r *row) Shares() bool { return r.together != nil && r.together.elections.Load() > 1 }

// read is that of the dialect.
func (r *row) read(ctx context.Context, soon <-chan struct{}) (content, error) {
	if r.together == nil {
		return r.dialect.read(ctx, r.table, r.election)
	}
	return r.together.reads.Do(ctx, r.election, soon)
}

// write is that of the dialect. A renewal waits for those of other elections for a short time. A row that was not
// replaced with the others is written by itself, which waits for locks, and finds out what is there.
func (r *row) write(ctx context.Context, replaces bool, old, text string) (store string, err error) {
	if r.together != nil && replaces {
		var soon <-chan struct{}
		c := change{r.election, old, text, register.News(old, text)}
		if r.Shares() && !c.news {
			wait, cancel := context.WithTimeout(ctx, r.renewal)
			defer cancel()
			soon = wait.Done()
		}
		store, err = r.together.writes.Do(ctx, c, soon)
	}
	if store == "" && err == nil {
		store, err = r.dialect.write(ctx, r.table, r.election, replaces, old, text)
	}
	return store, err
}

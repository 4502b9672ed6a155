package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/store/internal/register"
)

// joined is a dialect that replaces all rows together but those that are locked, and knows what it was asked.
type joined struct {
	dialect
	locked []string
	fails  error

	mu    sync.Mutex
	asked []string
}

func (j *joined) note(what string, names ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.Sort(names)
	j.asked = append(j.asked, what+" "+strings.Join(names, ","))
}

func (j *joined) readAll(_ context.Context, _ *table, names []string) ([]content, error) {
	all := make([]content, len(names))
	for i, name := range names {
		all[i] = content{text: "text of " + name, store: "s", there: true}
	}
	j.note("read", slices.Clone(names)...)
	return all, nil
}

func (j *joined) replaceAll(_ context.Context, _ *table, all []change) ([]string, error) {
	var names []string
	stores := make([]string, len(all))
	for i, c := range all {
		if names = append(names, c.name); !slices.Contains(j.locked, c.name) {
			stores[i] = "s"
		}
	}
	j.note("replace", names...)
	return stores, j.fails
}

func (j *joined) write(_ context.Context, _ *table, name string, replaces bool, _, _ string) (string, error) {
	j.note(fmt.Sprintf("write %t", replaces), name)
	if slices.Contains(j.locked, name) {
		return "", register.ErrConflict
	}
	return "s", nil
}

// TestTogether: reads at rest and renewals of several elections go together, and what was not replaced with the others
// is written by itself. News, a new row, and the only election of a process do not wait.
func TestTogether(t *testing.T) {
	text := func(holder string, attempt int) string {
		return fmt.Sprintf(`{"format":1,"holder":%q,"count":1,"nonce":"%032x","attempt":%d,"lease":"2s"}`, holder, 1, attempt)
	}
	run := func(name string, j *joined, elections int, do func(t *testing.T, r *row) error, want ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := &table{dialect: j}
				w := newTogether(at)
				var work sync.WaitGroup
				for range elections {
					defer w.use()()
				}
				for i := range elections {
					r := &row{table: at, election: fmt.Sprint("e", i), together: w, renewal: time.Second}
					r.checked.Store(true)
					work.Go(func() {
						if err := do(t, r); (err != nil) != (j.fails != nil || slices.Contains(j.locked, r.election)) {
							t.Errorf("%s: %v", r.election, err)
						}
					})
				}
				work.Wait()
				if slices.Sort(j.asked); !slices.Equal(j.asked, want) {
					t.Errorf("asked to %q; want %q", j.asked, want)
				}
			})
		})
	}
	renew := func(t *testing.T, r *row) error {
		_, err := r.Write(t.Context(), version(text("a", 1)), text("a", 2))
		return err
	}
	read := func(t *testing.T, r *row) error {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k, err := r.ReadSoon(t.Context(), soon.Done())
		if want := (register.Kept{Text: "text of " + r.election, Version: "=text of " + r.election, Store: "s"}); k != want {
			t.Errorf("%+v; want %+v", k, want)
		}
		return err
	}
	run("reads", &joined{}, 3, read, "read e0,e1,e2")
	run("renewals", &joined{}, 3, renew, "replace e0,e1,e2")
	run("a locked row", &joined{locked: []string{"e1"}}, 3, renew, "replace e0,e1,e2", "write true e1")
	run("an unknown outcome", &joined{fails: errors.New("the connection is lost")}, 3, renew, "replace e0,e1,e2")
	run("one election", &joined{}, 1, renew, "write true e0")
	run("a release", &joined{}, 1, func(t *testing.T, r *row) error {
		begun := time.Now()
		_, err := r.Write(t.Context(), version(text("a", 1)), text("", 2))
		if took := time.Since(begun); took > 0 {
			t.Errorf("it has waited %v", took)
		}
		return err
	}, "write true e0")
	run("new rows", &joined{}, 2, func(t *testing.T, r *row) error {
		_, err := r.Write(t.Context(), "", text("", 1))
		return err
	}, "write false e0", "write false e1")
}

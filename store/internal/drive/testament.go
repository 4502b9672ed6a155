package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/alive"
	"github.com/electd/elect/internal/runtime"
)

// testament is what a witness needs to end the tenure of a dead leader. It has the credentials of the URL.
type testament struct {
	Scheme string          `json:"scheme"` // of the URL, so that a program can tell whose testament it is
	URL    url.URL         `json:"url"`    // without its user
	User   string          `json:"user"`   // as in a URL, with the password
	Name   string          `json:"name"`   // of the election
	Dir    string          `json:"dir"`    // from which the names of files in URL and environment are meant
	Tenure json.RawMessage `json:"tenure"`
}

// Deceased is a leader that is dead with all its work.
type Deceased struct {
	URL    *url.URL // of the store
	Name   string   // of the election
	dir    string
	tenure json.RawMessage
}

// Tenure reads into t what Hooks.Tenure returned.
func (d *Deceased) Tenure(t any) error { return json.Unmarshal(d.tenure, t) }

// ReadTestament reads the testament of a participant over a store.
func ReadTestament(data []byte) (*Deceased, error) {
	var t testament
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, errors.New("the testament is malformed") // the error could show a part of it
	}
	if t.Scheme == "" || t.Name == "" || len(t.Tenure) == 0 {
		return nil, errors.New("the testament names no tenure at a store")
	}
	if t.User != "" {
		u, err := url.Parse("user://" + t.User + "@host")
		if err != nil {
			return nil, errors.New("the user in the testament does not parse")
		}
		t.URL.User = u.User
	}
	return &Deceased{URL: &t.URL, Name: t.Name, dir: t.Dir, tenure: t.Tenure}, nil
}

// Free calls free, which ends the tenure of a dead leader at its store, until it succeeds, but not after ctx has
// ended. It pauses between two calls for longer and longer, so that a store in trouble is not asked often. free
// writes only if the store shows that very tenure, so it may be repeated, and never ends a later one.
func Free(ctx context.Context, free func(context.Context) error) error {
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		_, err := Within(ctx, func() error { return free(ctx) })
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// bequest is a mandate that a witness can release.
type bequest struct{ *mandate }

var _ driver.Attestable = bequest{}

// Testament implements [driver.Attestable]. The file to keep is locked by this process. As keepers hold it too, a
// keeper gets the lock when no other keeper of this process is left, and so no other family that works under this
// mandate.
func (b bequest) Testament() driver.Testament {
	e := b.e
	var tenure any
	var locked *os.File
	e.Run.Call(func() {
		if e.Run.Held() == b.Mandate && !e.closed {
			tenure, locked = e.hooks.Tenure(b.Token().Count()), e.locked()
		}
	})
	if tenure == nil || locked == nil {
		return driver.Testament{} // then the lease runs out
	}
	t := testament{Scheme: e.cfg.Source.Scheme, URL: *e.cfg.Source, User: e.cfg.Source.User.String(), Name: e.cfg.Name}
	t.URL.User = nil
	var err error
	if t.Dir, err = os.Getwd(); err != nil {
		return driver.Testament{} // files that the URL names would not be found
	}
	if t.Tenure, err = json.Marshal(tenure); err != nil { // of strings and numbers it never fails
		return driver.Testament{}
	}
	data, err := json.Marshal(t)
	if err != nil {
		return driver.Testament{}
	}
	return driver.Testament{Data: data, Keep: []*os.File{locked}}
}

// locked is a file without a name that this process has locked, or nil. It is for turns.
func (e *Elector) locked() *os.File {
	if e.alive == nil {
		f, err := alive.File("elect")
		if err != nil {
			e.Log.Warn("no witness can speak for this process", "error", err)
			return nil
		}
		e.alive = f
	}
	return e.alive
}

// mandateOf is a victory, which a witness can release if it can open the store.
func (e *Elector) mandateOf(m *runtime.Mandate) driver.Mandate {
	own := &mandate{m, e}
	if e.attests() {
		return bequest{own}
	}
	return own
}

// attests reports whether mandates have testaments.
func (e *Elector) attests() bool {
	return alive.Supported && e.cfg.Source != nil && e.hooks.Tenure != nil
}

// Abilities are those of every participant over a store.
func (e *Elector) Abilities() []driver.Ability {
	all := []driver.Ability{driver.AbilityConfirm, driver.AbilityMetadata, driver.AbilityResign}
	if e.attests() {
		all = append(all, driver.AbilityWitness)
	}
	return all
}

// Witness returns what package supervise calls a witness: free opens the store of the deceased and ends its tenure.
// Nothing is opened before that, because the leader may live for months. Then the directory of this process becomes that
// of the leader, where relative names of files lead to the same files.
func Witness(data []byte, free func(context.Context, *Deceased) error) (speak func(context.Context) error, err error) {
	d, err := ReadTestament(data)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		err := os.Chdir(d.dir)
		if err == nil {
			err = free(ctx, d)
		}
		if err != nil {
			return fmt.Errorf("the lease of %s was not released, and runs out: %w", d.Name, err)
		}
		return nil
	}, nil
}

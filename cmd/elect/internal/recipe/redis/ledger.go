package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/place"
)

// Decision says who is master. It is one value of the sequence that the acting electors make: a later one has a greater
// token, or the same and a greater number.
type Decision struct {
	Token  elect.Token `json:"token"`  // of the term in which it was made
	Number uint64      `json:"number"` // within the term, from 1
	Master string      `json:"master"` // the id of the server
	RunID  string      `json:"run_id"` // the life of the server that is master; another one is not
	Epoch  uint64      `json:"epoch"`  // how many masters there were

	// The history of writes that this master has. Previous is the one before, whose writes up to Until are in it.
	ReplID   string `json:"repl_id,omitempty"`
	Previous string `json:"previous,omitempty"`
	Until    int64  `json:"until,omitempty"`

	// The settings that a fence may count on: each server has a min-replicas-max-lag of Lag seconds or less, and a
	// min-replicas-to-write of ToWrite or more. The configuration may say something else since. 0 is not known.
	Lag     int `json:"lag,omitempty"`
	ToWrite int `json:"to_write,omitempty"`
}

// none reports whether nothing was ever decided.
func (d *Decision) none() bool { return d.Master == "" }

// before reports whether o is newer.
func (d *Decision) before(o Decision) bool {
	return d.Token < o.Token || d.Token == o.Token && d.Number < o.Number
}

// entries are what an elector keeps on its disk.
type entries struct {
	Promised  elect.Token `json:"promised"`  // it serves no smaller one
	Accepted  Decision    `json:"accepted"`  // the newest one that it was asked to keep
	Announced Decision    `json:"announced"` // the newest one that clients are told
}

// ledger keeps the entries. Its methods may be called by any number of goroutines; a change is durable when they
// return.
type ledger struct {
	dir   *place.Dir
	write func(name string, text []byte) error // that of dir

	mu     sync.Mutex
	now    entries
	heard  time.Time // of the acting elector; zero: never in this life
	acting string    // its id
}

// ledgerName is the file. It has one line of JSON.
const ledgerName = "redis-master.json"

// openLedger reads the entries of a directory, which it locks until close.
func openLedger(path string) (*ledger, error) {
	dir, err := place.At{Path: path}.Make()
	if err != nil {
		return nil, err
	}
	l := &ledger{dir: dir, write: dir.Save}
	if err := dir.Lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("another elector uses this directory: %w; want one for each", err), dir.Close())
	}
	text, err := dir.Read(ledgerName, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l.now)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s of %s: %w; want the file as it was, or none if a majority of the other electors has theirs", ledgerName, path, err), dir.Close())
	}
	return l, nil
}

func (l *ledger) close() error { return l.dir.Close() }

// save makes entries durable. The caller has l.mu.
func (l *ledger) save(e entries) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := l.write(ledgerName, append(text, '\n')); err != nil {
		return err
	}
	l.now = e
	return nil
}

// outdatedError says that a newer acting elector is known.
type outdatedError struct{ token, promised elect.Token }

func (e *outdatedError) Error() string {
	return fmt.Sprintf("token %v is refused: %v is promised; want the newest acting elector", e.token, e.promised)
}

func (l *ledger) read() entries {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// hear notes that the acting elector of a token has spoken.
func (l *ledger) hear(token elect.Token, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token >= l.now.Promised && token > 0 {
		l.heard, l.acting = time.Now(), id
	}
}

// lately returns the acting elector, and when it spoke.
func (l *ledger) lately() (id string, heard time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acting, l.heard
}

// promise refuses smaller tokens from now on.
func (l *ledger) promise(token elect.Token) (entries, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.now.Promised {
		return l.now, &outdatedError{token, l.now.Promised}
	}
	if token == l.now.Promised {
		return l.now, nil
	}
	next := l.now
	next.Promised = token
	return l.now, l.save(next)
}

// accept keeps a decision.
func (l *ledger) accept(d Decision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Token < l.now.Promised || d.before(l.now.Accepted) {
		return &outdatedError{d.Token, max(l.now.Promised, l.now.Accepted.Token)}
	}
	if d == l.now.Accepted {
		return nil
	}
	if last := &l.now.Accepted; d.Token == last.Token && d.Number == last.Number {
		return fmt.Errorf("the decision %v.%d is kept already, and says that the master is %s; want another number for %s", d.Token, d.Number, last.Master, d.Master)
	}
	next := l.now
	next.Promised, next.Accepted = d.Token, d
	return l.save(next)
}

// announce keeps a decision that clients are told, and returns the one before.
func (l *ledger) announce(d Decision) (before Decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.now.Announced
	if d.Token < l.now.Promised || d.before(before) {
		return before, &outdatedError{d.Token, max(l.now.Promised, before.Token)}
	}
	if d == before {
		return before, nil
	}
	next := l.now
	next.Promised, next.Announced = d.Token, d
	if next.Accepted.before(d) {
		next.Accepted = d
	}
	return before, l.save(next)
}

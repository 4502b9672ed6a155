package group

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/runtime"
)

// watches are what observers of this process want to know of keys, and what it tells the coordinator beside the
// machine.
type watches struct {
	m *member

	// Owned by the loop.
	told  []wire.Entry // announcements that are due
	loads map[machine.Key]float64
	sent  map[machine.Key]float64 // again to the next coordinator

	mu   sync.Mutex
	link *link.Conn
	lost error // why there is none
	all  map[machine.Key]*watched
	late *time.Timer // observers are told that there is no coordinator
}

// watched is a key with observers.
type watched struct {
	states *runtime.States
	last   driver.State
	users  int
}

func (w *watches) init(m *member) {
	w.m, w.all, w.loads, w.sent = m, map[machine.Key]*watched{}, map[machine.Key]float64{}, map[machine.Key]float64{}
	w.lost = fmt.Errorf("%w: this member has no coordinator yet", driver.ErrUnreachable)
}

// follow returns the states of a key, until done.
func (w *watches) follow(k machine.Key) (states *runtime.States, done func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.all[k]
	if e == nil && len(w.all) >= MaxKeys {
		return nil, nil, fmt.Errorf("%d keys are watched by this member; want at most %d", len(w.all), MaxKeys)
	}
	if e == nil {
		e = &watched{states: runtime.NewStates()}
		w.all[k] = e
		if w.link != nil {
			w.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.WatchKeys, Entries: []wire.Entry{{Key: string(k)}}}})
		}
	}
	e.users++
	if w.link == nil {
		w.wait()
	}
	return e.states, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.users--; e.users == 0 {
			delete(w.all, k)
			if w.link != nil {
				w.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.Unwatch, Entries: []wire.Entry{{Key: string(k)}}}})
			}
		}
	}, nil
}

// wait tells observers after a while that there is no coordinator: one that changes is not worth a word.
func (w *watches) wait() {
	if w.late != nil {
		return
	}
	w.late = time.AfterFunc(w.m.g.settings.Promise/2, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = nil
		if w.link != nil {
			return
		}
		for _, e := range w.all {
			e.set(driver.State{Leader: e.last.Leader, Stale: true, Cause: w.lost})
		}
	})
}

func (e *watched) set(s driver.State) {
	if s.Leader == nil && e.last.Leader == nil && s.Stale == e.last.Stale {
		if _, n, _, _ := e.states.Get(); n > 0 {
			return
		}
	}
	e.last = s
	e.states.Set(s)
}

func (w *watches) attached(l *link.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link, w.lost = l, nil
	if w.late != nil {
		w.late.Stop()
		w.late = nil
	}
	all := make([]wire.Entry, 0, len(w.all))
	for k := range w.all {
		all = append(all, wire.Entry{Key: string(k)})
	}
	if len(all) > 0 {
		l.Send(wire.Packet{Side: &wire.Side{Kind: wire.WatchKeys, Entries: all}})
	}
	for k, load := range w.sent {
		if _, ok := w.loads[k]; !ok {
			w.loads[k] = load
		}
	}
}

func (w *watches) detached() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = nil
	w.lost = fmt.Errorf("%w: this member has lost its coordinator", driver.ErrUnreachable)
	if len(w.all) > 0 {
		w.wait()
	}
}

// states takes what the coordinator says.
func (w *watches) states(entries []wire.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		en := &entries[i]
		e := w.all[machine.Key(en.Key)]
		if e == nil {
			continue
		}
		switch {
		case en.Member != "":
			e.set(driver.State{Leader: leaderOf(w.m.g.tokens, en)})
		case en.Since < 0: // the coordinator does not know yet
			if _, n, _, _ := e.states.Get(); n > 0 && !e.last.Stale {
				e.set(driver.State{Leader: e.last.Leader, Stale: true, Cause: errUnknown(en.Since)})
			}
		default:
			e.set(driver.State{})
		}
	}
}

// What Since is in an entry that names no holder, because that is not known yet.
const (
	covering    = -1 // somebody may hold the key who has not reported yet
	unannounced = -2 // somebody holds it who has not said yet what to show of it
)

func errUnknown(since int64) error {
	if since == unannounced {
		return fmt.Errorf("%w: the holder of the key has not announced itself to the coordinator yet", driver.ErrUnreachable)
	}
	return errCovering()
}

func errCovering() error {
	return fmt.Errorf("%w: the coordinator is new, and waits for members that may hold the key", driver.ErrUnreachable)
}

func leaderOf(tokens tokens, en *wire.Entry) *driver.Leader {
	l := &driver.Leader{ID: en.Member, Token: tokens.token(en.Token)}
	if en.Since > 0 {
		l.Since = time.Unix(0, en.Since)
	}
	if len(en.Metadata) > 0 {
		_ = json.Unmarshal(en.Metadata, &l.Metadata) // what does not fit is not shown
	}
	return l
}

// announce tells the coordinator what to show beside this member as a leader. It is called by the loop.
func (w *watches) announce(e wire.Entry) { w.told = append(w.told, e) }

// load tells the coordinator what a key costs.
func (w *watches) load(k machine.Key, load float64) { w.loads[k] = load }

// send sends what has come together in a turn.
func (w *watches) send() {
	if len(w.told) == 0 && len(w.loads) == 0 {
		return
	}
	w.mu.Lock()
	l := w.link
	w.mu.Unlock()
	if l == nil {
		w.told = nil // all are told at the next attachment
		return
	}
	if len(w.told) > 0 {
		l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Announce, Entries: w.told}})
		w.told = nil
	}
	if len(w.loads) > 0 {
		all := make([]wire.Entry, 0, len(w.loads))
		for k, load := range w.loads {
			all = append(all, wire.Entry{Key: string(k), Load: load})
			w.sent[k] = load
		}
		clear(w.loads)
		l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Loads, Entries: all}})
	}
}

func (w *watches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late != nil {
		w.late.Stop()
	}
	for _, e := range w.all {
		e.states.Close()
	}
}

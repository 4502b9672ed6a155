package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Ask implements [runtime.Store]. The machine has one read or write in flight.
func (e *Elector) Ask(a protocol.Ask, tell func(protocol.Answer)) {
	switch a.Op {
	case protocol.Read:
		e.request(a, tell, func(ctx context.Context) (Kept, error) { return e.register.Read(ctx) })
	case protocol.Write:
		version, known := e.versions.text(a.Version)
		text, err := e.compose(&a.Record)
		if !known || err != nil {
			if err == nil {
				err = errors.New("the version to replace was not seen by this process")
			}
			e.work.Go(func() { e.failed(err); tell(protocol.Answer{Number: a.Number, Status: protocol.StatusRefused}) })
			return
		}
		e.request(a, tell, func(ctx context.Context) (Kept, error) { return e.register.Write(ctx, version, text) })
	case protocol.Watch:
		// Nothing is watched: the machine polls.
	default:
		panic("register: the machine asks to " + a.Op.String())
	}
}

// compose is the text of a record, with what belongs to this participant.
func (e *Elector) compose(r *protocol.Record) (string, error) {
	if r.Holder != "" && r.Count != e.own {
		e.own, e.since = r.Count, time.Now()
	}
	return encode(r, e.since, e.metadata)
}

// request makes a request, for as long as a renewal may take, and tells its outcome.
func (e *Elector) request(a protocol.Ask, tell func(protocol.Answer), do func(context.Context) (Kept, error)) {
	e.work.Go(func() {
		ctx, cancel := context.WithTimeout(e.life, e.times.RequestTimeout())
		defer cancel()
		k, err := do(ctx)
		answer := protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Store: k.Store}
		var r *protocol.Record
		var in *record
		if err == nil && k.Version != "" {
			if r, in, err = decode(k.Text); err != nil {
				err = fmt.Errorf("the record of the election is not one of elect's: %w; restore it, or delete it and raise the era", err)
			}
		}
		switch {
		case errors.Is(err, ErrConflict):
			answer.Status, err = protocol.StatusConflict, nil
		case errors.Is(err, ErrNotSent):
			answer.Status = protocol.StatusRefused
		case err != nil:
			answer.Status = protocol.StatusUnknown
		case k.Version != "":
			answer.Version, answer.Record = e.versions.number(k.Version), *r
		}
		if err != nil {
			e.failed(err)
		} else {
			e.run.Do(func() { e.heard(in) })
		}
		tell(answer)
	})
}

// failed notes that a request came to nothing, and says so once.
func (e *Elector) failed(err error) {
	if e.life.Err() != nil {
		return
	}
	e.run.Do(func() {
		if e.trouble == nil {
			e.cfg.Logger.Warn("the store does not answer", "election", e.cfg.Name, "error", err)
		}
		e.trouble, e.answered = err, true
	})
}

// heard notes an answer, and whom it shows.
func (e *Elector) heard(in *record) {
	if e.trouble != nil {
		e.cfg.Logger.Warn("the store answers again", "election", e.cfg.Name)
	}
	e.trouble, e.answered = nil, true
	if in != nil && in.Holder != "" {
		e.holder, e.count = in.leader(), in.Count
	}
}

// versions are the latest versions that were seen, by the numbers that the machine has for
// them. It replaces only what it has seen last, or what it has written itself.
type versions struct {
	mu     sync.Mutex
	latest []string
}

const keep = 8

func (v *versions) number(version string) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest = slices.DeleteFunc(v.latest, func(s string) bool { return s == version })
	if v.latest = append(v.latest, version); len(v.latest) > keep {
		v.latest = v.latest[1:]
	}
	return numbered(version)
}

// text is the version with a number; "" for 0, which is none.
func (v *versions) text(number uint64) (string, bool) {
	if number == 0 {
		return "", true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.latest, func(s string) bool { return numbered(s) == number })
	if i < 0 {
		return "", false
	}
	return v.latest[i], true
}

package register

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// Ask implements [runtime.Store]. The machine has one read or write in flight.
func (e *Elector) Ask(a protocol.Ask, tell func(protocol.Answer)) {
	switch a.Op {
	case protocol.Read:
		prove := e.unproven()
		read, shared := e.reading()
		e.request(a, !shared, tell, func(ctx context.Context) (k Kept, proven bool, err error) {
			if k, err = read(ctx); err == nil {
				return prove(ctx, k)
			}
			return k, false, err
		})
	case protocol.Write:
		version, known := e.versions.text(a.Version)
		text, err := e.compose(&a.Record)
		if e.calm = false; a.Record.Holder != "" {
			e.nonce = a.Record.Nonce
		}
		e.request(a, true, tell, func(ctx context.Context) (Kept, bool, error) {
			switch {
			case err != nil:
				return Kept{}, false, fmt.Errorf("%w: %w", ErrNotSent, err)
			case !known: // a machine whose write was only not sent would try the same version for ever: it has to read
				return Kept{}, false, ErrConflict
			}
			k, err := e.register.Write(ctx, version, text)
			return k, true, err
		})
	case protocol.Watch:
		switch w := e.register.(type) { // without either the machine polls
		case Sighter:
			e.Go(func() { w.Sight(e.Life, func(k Kept) { tell(e.sighted(a.Number, k)) }) })
		case Watcher:
			e.Go(func() {
				w.Watch(e.Life, func() {
					if hurry := e.hurry.Load(); hurry != nil {
						(*hurry)()
					}
					tell(protocol.Answer{Number: a.Number, Status: protocol.StatusEvent})
				})
			})
		}
	default:
		panic("register: the machine asks to " + a.Op.String())
	}
}

// sighted is the answer of a watch that shows a record. One that is not elect's is read, which tells what is wrong.
func (e *Elector) sighted(number uint64, k Kept) protocol.Answer {
	answer := protocol.Answer{Number: number, Status: protocol.StatusEvent}
	if k.Version == "" {
		return answer
	}
	r, in, err := decode(k.Text)
	if err != nil {
		return answer
	}
	e.Run.Do(func() { e.heard(r, in) })
	answer.Version, answer.Record, answer.Store = e.versions.number(k.Version), *r, k.Store
	return answer
}

// reading returns what reads the record. At rest, which is when a participant that does not lead reads again after a
// read, it waits for the reads of other elections, unless there is news.
func (e *Elector) reading() (read func(context.Context) (Kept, error), shared bool) {
	role, calm, patience := e.Run.View().Role, e.calm, e.patience()
	e.calm = false
	if patience == 0 || !calm || role != protocol.Follower && role != protocol.Observer {
		return e.register.Read, false
	}
	soon, hurry := context.WithTimeout(e.Life, patience)
	e.hurry.Store(&hurry)
	return func(ctx context.Context) (Kept, error) {
		defer hurry()
		return e.register.(Sharer).ReadSoon(ctx, soon.Done())
	}, true
}

// compose is the text of a record, with what belongs to this participant.
func (e *Elector) compose(r *protocol.Record) (string, error) {
	if r.Holder != "" && r.Count != e.own {
		e.own, e.since = r.Count, time.Now()
	}
	wish := ""
	if r.Holder != "" && e.Heard(r.Count) {
		wish = drive.Obeyed(r.Count).Text()
	}
	return encode(r, e.since, e.Metadata, wish)
}

// unproven returns what makes proof of a read. What a store shows need not be durable: a write that
// waits for a disk or for a standby is visible already in some, and stays visible when the client
// has given up. So a record of the own tenure is proof only in the version that was acknowledged
// last. Another version is written again, with its seal counted up, over what was read: when that
// is acknowledged, so is what it says. The claim runs from the attempt's own sending, which is
// earlier. A participant without a tenure, or one that releases it, claims nothing and needs no
// proof.
func (e *Elector) unproven() func(context.Context, Kept) (k Kept, proven bool, err error) {
	role, nonce, known := e.Run.View().Role, e.nonce, e.proven
	return func(ctx context.Context, k Kept) (Kept, bool, error) {
		if role != protocol.Candidate && role != protocol.Leader && role != protocol.Fencing || k.Version == "" || k.Version == known {
			return k, false, nil
		}
		r, in, err := decode(k.Text)
		if err != nil || string(r.Holder) != e.cfg.ID || r.Nonce != nonce {
			return k, false, nil // request tells what is wrong with the record
		}
		in.Seal++
		if len(in.Wish) > drive.MaxWish {
			in.Wish = nil // it is malformed, and must not make the record too long
		}
		text, err := in.text()
		if err == nil {
			k, err = e.register.Write(ctx, k.Version, text)
		}
		return k, true, err
	}
}

// request makes a request, and tells its outcome. If do says so, what it returns is acknowledged.
func (e *Elector) request(a protocol.Ask, timed bool, tell func(protocol.Answer), do func(context.Context) (k Kept, proven bool, err error)) {
	e.Request(a, timed, tell, func(ctx context.Context, answer *protocol.Answer) (func(), error) {
		k, proven, err := do(ctx)
		answer.Store = k.Store
		if err != nil || k.Version == "" {
			return nil, err
		}
		r, in, err := own(k.Text)
		if err != nil {
			return nil, err
		}
		answer.Version, answer.Record = e.versions.number(k.Version), *r
		return func() {
			if e.calm = a.Op == protocol.Read; proven {
				e.proven = k.Version
			}
			e.heard(r, in)
		}, nil
	})
}

// own reads a record that has to be one of elect's.
func own(text string) (*protocol.Record, *record, error) {
	r, in, err := decode(text)
	if err != nil {
		err = fmt.Errorf("the record of the election is not one of elect's: %w; restore it, or delete it and raise the era", err)
	}
	return r, in, err
}

// heard notes the holder that an answer shows, and obeys a wish for this participant.
func (e *Elector) heard(r *protocol.Record, in *record) {
	if in.Holder != "" {
		e.holder, e.count = in.leader(), in.Count
	}
	if in.Holder == e.cfg.ID && r.Nonce == e.nonce {
		e.Obey(in.Wish, in.Count) // the next renewal answers it
	}
}

// standing returns the holder of the record and its wish, for operators.
func (e *Elector) standing(ctx context.Context) (s drive.Standing, err error) {
	k, err := e.register.Read(ctx)
	if err != nil || k.Version == "" {
		return s, err
	}
	_, in, err := own(k.Text)
	if err != nil || in.Holder == "" {
		return s, err
	}
	s.Leader, s.Count, s.Deaf = in.Holder, in.Count, k.Deaf
	s.Wish, _ = drive.ParseWish(in.Wish) // malformed text is no wish
	s.Record = func(ctx context.Context, w drive.Wish) error {
		in.Wish = json.RawMessage(w.Text())
		text, err := in.text()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		_, err = e.register.Write(ctx, k.Version, text)
		return err
	}
	return s, nil
}

// versions are the latest versions that were seen, by the numbers that the machine has for
// them. It replaces only what it has seen last, or what it has written itself.
type versions struct {
	global func(version string) uint64 // [Config].Global

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
	return v.of(version)
}

func (v *versions) of(version string) uint64 {
	if v.global != nil {
		return v.global(version)
	}
	return numbered(version)
}

// text is the latest version with a number; "" for 0, which is none. Global versions of two incarnations of a store may
// have the same.
func (v *versions) text(number uint64) (string, bool) {
	if number == 0 {
		return "", true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range slices.Backward(v.latest) {
		if v.of(s) == number {
			return s, true
		}
	}
	return "", false
}

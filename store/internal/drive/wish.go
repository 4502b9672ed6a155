package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// Wish is an operator's request to a leader, kept in the store as JSON. It names the leader's count,
// so that no later leader obeys it.
type Wish struct {
	Verb  string `json:"verb"`
	Count uint64 `json:"count"`
	Heard bool   `json:"heard,omitempty"` // written by the leader: it obeys
}

// resign is the only verb.
const resign = "resign"

// MaxWish is the greatest length of a wish in bytes.
const MaxWish = 128

// Obeyed is the leader's answer to a wish.
func Obeyed(count uint64) Wish { return Wish{Verb: resign, Count: count, Heard: true} }

// Text is the wish as the store keeps it.
func (w Wish) Text() string {
	text, _ := json.Marshal(w) // never fails for these fields
	return string(text)
}

// ParseWish reads a wish. Empty text is the zero Wish. Unknown fields and verbs are errors.
func ParseWish(text []byte) (w Wish, err error) {
	if len(text) == 0 {
		return w, nil
	}
	if len(text) > MaxWish {
		return w, fmt.Errorf("it has %d bytes; want at most %d", len(text), MaxWish)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return Wish{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Wish{}, errors.New("more follows after it")
	}
	if w.Verb != resign || w.Count == 0 {
		return Wish{}, fmt.Errorf("it asks to %.20q the leader with count %d; want %q, and the count of a leader", w.Verb, w.Count, resign)
	}
	return w, nil
}

// Standing is the leader and its wish in a store, as an operator reads them.
type Standing struct {
	Leader string
	Count  uint64 // of the leader; 0: there is none
	Deaf   string // why the leader does not read wishes; "": it does
	Wish   Wish   // the recorded one; the zero Wish: none
	// Record writes a wish if the leader is still the same; otherwise it returns ErrConflict or
	// ErrGone.
	Record func(context.Context, Wish) error
}

// look is the time between two reads while Resign waits for an answer.
const look = 100 * time.Millisecond

// Resign implements [driver.Resigner]. A leader in another process is asked by a wish. It has accepted when it has
// written that it obeys. If another participant leads, or none, its term has ended, and its answer, if there was one,
// is gone.
func (e *Elector) Resign(ctx context.Context, token fence.Token) error {
	if err := e.Run.Resign(ctx, token); !errors.Is(err, driver.ErrNoLeader) && !errors.Is(err, driver.ErrSuperseded) {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.Life, func() { cancel(driver.ErrClosed) })()
	asked := uint64(0) // the count of a leader whose wish may be recorded
	var trouble error
	for {
		var s Standing
		s, trouble = e.standing(ctx)
		switch {
		case trouble != nil:
		case asked != 0 && s.Count != asked:
			return nil
		case s.Count == 0:
			return driver.ErrNoLeader
		case token != 0 && e.Run.Token(s.Count) != token:
			return fmt.Errorf("%w: the leader has token %v", driver.ErrSuperseded, e.Run.Token(s.Count))
		case s.Deaf != "":
			return fmt.Errorf("%w: resign: %s leads with token %v, and %s", driver.ErrUnsupported, s.Leader, e.Run.Token(s.Count), s.Deaf)
		case s.Wish.Count == s.Count && s.Wish.Heard:
			return nil
		default:
			token = e.Run.Token(s.Count) // no other leader is asked
			if trouble = e.record(ctx, &s); trouble == nil || !errors.Is(trouble, ErrNotSent) && !errors.Is(trouble, ErrConflict) && !errors.Is(trouble, ErrGone) {
				asked = s.Count // it is recorded, or may be
			}
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			switch {
			case asked == 0 && trouble != nil:
				return fmt.Errorf("%w: %w", driver.ErrUnreachable, trouble)
			case asked == 0:
				return context.Cause(ctx)
			}
			if trouble != nil {
				return fmt.Errorf("%w: it is not known whether the leader with token %v was asked to resign: %w", driver.ErrUnknownOutcome, token, trouble)
			}
			return fmt.Errorf("%w: the leader with token %v is asked to resign, and has not answered; it obeys at its next renewal at the latest", driver.ErrUnknownOutcome, token)
		}
	}
}

// standing asks the store.
func (e *Elector) standing(ctx context.Context) (s Standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.hooks.Timeout)
	defer cancel()
	var found Standing // a call that is left behind may still write to it
	left, err := Within(ctx, func() (err error) {
		found, err = e.hooks.Standing(ctx)
		return err
	})
	if left == nil {
		s = found
	}
	return s, err
}

// record writes a wish, unless it is there.
func (e *Elector) record(ctx context.Context, s *Standing) error {
	want := Wish{Verb: resign, Count: s.Count}
	if s.Wish == want {
		return nil // a second one would only delay those that wait for the leader's lease
	}
	ctx, cancel := context.WithTimeout(ctx, e.hooks.Timeout)
	defer cancel()
	_, err := Within(ctx, func() error { return s.Record(ctx, want) })
	return err
}

// Obey makes the leader resign if text is a wish for the tenure with the count own, and reports
// whether the wish is to be answered. Malformed text is logged once, and otherwise ignored. A wish
// that arrives before the term begins is obeyed when it begins: see [Elector.published]. It is for
// turns.
func (e *Elector) Obey(text []byte, own uint64) bool {
	w, err := ParseWish(text)
	switch {
	case err != nil && !e.warned:
		e.warned = true
		e.Log.Warn("a request in the store is malformed, and is ignored", "error", err)
	case err == nil && w.Count == own && own != 0 && !w.Heard:
		if e.wished != own {
			e.wished = own
			e.Log.Warn("an operator has asked this leader to resign, through the store", "token", e.Run.Token(own))
			e.resignWished()
		}
		return true // also if an earlier answer was lost
	}
	return false
}

// resignWished ends the term that a wish names, if it is held.
func (e *Elector) resignWished() {
	if e.wished != 0 && e.Run.View().Role == protocol.Leader && e.Run.View().Token == e.wished {
		e.Run.Command(protocol.Command{Verb: protocol.Resign})
	}
}

// Heard reports whether the tenure with that count was asked to end. It is for turns.
func (e *Elector) Heard(count uint64) bool { return count != 0 && e.wished == count }

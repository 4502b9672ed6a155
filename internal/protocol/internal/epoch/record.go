package epoch

import "github.com/electd/elect/internal/protocol"

// Record is a participant's ballot in memory, and how much of it is durable. All changes of a step
// are saved once, at its end.
type Record struct {
	Ballot

	asked   uint64           // the latest save
	saved   uint64           // the latest durable save
	booted  uint64           // the first that holds Incarnation
	dirty   bool             // the step ends with a save
	bad     bool             // the latest save failed
	againAt protocol.Instant // when it is tried again
}

// Boot begins an incarnation with the ballot of those before; nil is none. rand is 64 random bits,
// as in protocol.Input; name is the protocol's, for the error.
func (r *Record) Boot(name string, durable []byte, rand uint64) error {
	if durable == nil {
		// Answers name the incarnation that they are for. An answer on its way to a participant
		// whose disk was wiped must not fit the one that has taken its name.
		r.Incarnation = rand >> 16
	} else {
		b, err := Decode(name, durable)
		if err != nil {
			return err
		}
		r.Ballot = b
	}
	r.Incarnation++
	r.booted, r.againAt = r.Touch(), protocol.Never
	return nil
}

// Note remembers an epoch, and reports whether it is above all that were known.
func (r *Record) Note(epoch uint64) bool {
	if epoch <= r.Epoch {
		return false
	}
	r.Epoch = epoch
	r.Touch()
	return true
}

// Touch makes the step end with a save and returns its number.
func (r *Record) Touch() uint64 {
	r.dirty = true
	return r.asked + 1
}

// Flush ends a step: it begins the save of what the step has changed, if anything.
func (r *Record) Flush(fx *protocol.Effects) {
	if r.dirty {
		r.dirty = false
		r.asked++
		fx.Save(r.asked, r.Append)
	}
}

// Saved records a save, and reports whether that changes the record. If the latest save has failed,
// it is tried again at the time again.
func (r *Record) Saved(number uint64, failed bool, again protocol.Instant) bool {
	if number > r.asked || number <= r.saved {
		return false
	}
	latest := number == r.asked
	if failed {
		r.bad = true
		if r.booted > r.saved && r.booted <= number {
			r.booted = max(r.asked, number+1) // the latest holds it, or the one to come
		}
		if latest {
			r.againAt = again
		}
		return true
	}
	r.saved = number
	if latest {
		r.bad, r.againAt = false, protocol.Never
	}
	return true
}

// Ready reports whether the incarnation is durable, and the latest save has not
// failed.
func (r *Record) Ready() bool { return r.saved >= r.booted && !r.bad }

// After returns the save that a message waits for which must not leave before the save with that
// number, nor before the incarnation is durable; 0 is none. ok is false if it cannot leave: the
// save has failed, and none is in flight.
func (r *Record) After(number uint64) (after uint64, ok bool) {
	after = max(number, r.booted)
	if after <= r.saved {
		return 0, true
	}
	return after, after <= r.asked || r.dirty
}

// RetryAt is when the save that has failed is tried again, or Never.
func (r *Record) RetryAt() protocol.Instant {
	if !r.bad {
		return protocol.Never
	}
	return r.againAt
}

// Retry makes the step end with a save if it is time to try again.
func (r *Record) Retry(now protocol.Instant) {
	if r.bad && now >= r.againAt {
		r.againAt = protocol.Never
		r.Touch()
	}
}

// State codes the whole record. It is called between two steps, when nothing is
// waiting for Flush.
func (r *Record) State(c *protocol.Coder) {
	r.Ballot.state(c)
	c.Uints(&r.asked, &r.saved, &r.booted)
	c.Bools(&r.bad)
	c.Instants(&r.againAt)
	if c.Loads() {
		r.dirty = false
	}
}

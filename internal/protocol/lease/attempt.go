package lease

import "github.com/electd/elect/internal/protocol"

// kept is how many attempts are remembered. An older one that turns out to have landed has no
// claim, and is renewed.
const kept = 8

// attempts are the writes of unknown outcome that L2 needs, and when each was sent. Only the
// sending of the one that has landed counts.
type attempts struct {
	n   int
	all [kept]attempt // by rising number
}

type attempt struct {
	number uint64
	sent   protocol.Instant // Always: unknown
	wanted uint64           // the Confirm commands given before
}

// add appends an attempt, and drops the oldest if there are too many.
func (t *attempts) add(a attempt) {
	if t.n == kept {
		copy(t.all[:], t.all[1:])
		t.n--
	}
	t.all[t.n] = a
	t.n++
}

// find returns the attempt with that number; the last one if there are two.
func (t *attempts) find(number uint64) (attempt, bool) {
	for i := t.n - 1; i >= 0; i-- {
		if t.all[i].number == number {
			return t.all[i], true
		}
	}
	return attempt{sent: protocol.Always}, false
}

// remove drops an attempt that was never made.
func (t *attempts) remove(number uint64) {
	for i := range t.n {
		if t.all[i].number == number {
			copy(t.all[i:], t.all[i+1:t.n])
			t.n--
			t.all[t.n] = attempt{}
			return
		}
	}
}

// void drops the times at which the attempts were sent.
func (t *attempts) void() {
	for i := range t.n {
		t.all[i].sent = protocol.Always
	}
}

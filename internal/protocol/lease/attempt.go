package lease

import "github.com/electd/elect/internal/protocol"

// kept is how many attempts are remembered. One that is older and turns out to
// have landed has no claim, and is renewed.
const kept = 8

// attempts is what L2 needs to know of the writes whose outcome is open: when
// each was sent. Only the sending of the one that is seen to have landed counts.
type attempts struct {
	n   int
	all [kept]attempt // by rising number
}

type attempt struct {
	number uint64
	sent   protocol.Instant // Always: not known any more
	wanted uint64           // the Confirm commands that were given before
}

// add appends an attempt, and forgets the oldest if there are too many.
func (t *attempts) add(a attempt) {
	if t.n == kept {
		copy(t.all[:], t.all[1:])
		t.n--
	}
	t.all[t.n] = a
	t.n++
}

// find returns the attempt with that number; the last one, should there be two.
func (t *attempts) find(number uint64) (attempt, bool) {
	for i := t.n - 1; i >= 0; i-- {
		if t.all[i].number == number {
			return t.all[i], true
		}
	}
	return attempt{sent: protocol.Always}, false
}

// remove forgets an attempt that never took place.
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

// void forgets when the attempts were sent.
func (t *attempts) void() {
	for i := range t.n {
		t.all[i].sent = protocol.Always
	}
}

package runtime

import "testing"

// rung reports whether the loop was rung for.
func rung(b *inbox) bool {
	select {
	case <-b.wake:
		return true
	default:
		return false
	}
}

// TestReceiveHelps: once there are turns, the caller that brings a message makes one, and
// the loop is woken for everything else.
func TestReceiveHelps(t *testing.T) {
	b := newInbox()
	message, other := item{from: "n2"}, item{do: func() {}}
	if !b.put(message) || !rung(b) {
		t.Error("before the loop runs, a message does not ring")
	}
	helped, waiting := 0, 0
	b.help(func() {
		helped++
		waiting += len(b.take(nil)) // without the lock, and the message is in
	})
	if !b.put(message) || helped != 1 || waiting != 2 || rung(b) {
		t.Errorf("helped %d times with %d messages; want once, with both, and no ring", helped, waiting)
	}
	if !b.put(other) || helped != 1 || !rung(b) {
		t.Error("what is no message is for the loop")
	}
	b.close()
	if b.put(message) || helped != 1 {
		t.Error("an inbox that is closed takes a message")
	}
}

// TestHelpDoesNotWait: while a turn is under way the loop is told to make another.
func TestHelpDoesNotWait(t *testing.T) {
	r := &Runner{inbox: newInbox()}
	turns := &turns{r: r, busy: make(chan struct{}, 1)}
	turns.take()
	turns.help()
	if !rung(r.inbox) {
		t.Error("a message that came during a turn is left lying")
	}
	turns.leave()
}

// TestInbox: the messages of each sender are bounded, and nothing else is.
func TestInbox(t *testing.T) {
	b := newInbox()
	for range maxQueued {
		if !b.put(item{from: "n1", message: Incoming{Since: 1}}) {
			t.Fatal("there is no room for a message")
		}
	}
	if b.put(item{from: "n1"}) || b.lost() != 1 {
		t.Errorf("a message too many is taken, and %d are counted as lost", b.lost())
	}
	if !b.put(item{from: "n4"}) {
		t.Error("a sender that floods keeps out the messages of another")
	}
	if !b.put(item{do: func() {}}) {
		t.Error("what is no message must always be taken")
	}
	batch := b.take(nil)
	if len(batch) != maxQueued+2 || batch[0].message.Since != 1 || batch[maxQueued+1].do == nil {
		t.Errorf("took %d items out of order", len(batch))
	}
	if !b.put(item{from: "n1"}) {
		t.Error("there is no room again")
	}
	if batch = b.take(batch); len(batch) != 1 || batch[0].from != "n1" {
		t.Errorf("took %+v", batch)
	}
	b.put(item{from: "n3"})
	if left := b.close(); len(left) != 1 || b.put(item{do: func() {}}) {
		t.Errorf("closing left %d items, or something was taken afterwards", len(left))
	}
}

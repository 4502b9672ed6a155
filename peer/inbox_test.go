package peer

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

// TestWhoBringsALetterHelps: once the loop runs, whoever brings a letter is asked
// to make the turn, and the loop is woken for everything else.
func TestWhoBringsALetterHelps(t *testing.T) {
	b := newInbox()
	letter, other := item{from: "n2"}, item{do: func() {}}
	if !b.put(letter) || !rung(b) {
		t.Error("before the loop runs, a letter does not ring")
	}
	helped, waiting := 0, 0
	b.help(func() {
		helped++
		waiting += len(b.take(nil)) // without the lock, and the letter is in
	})
	if !b.put(letter) || helped != 1 || waiting != 2 || rung(b) {
		t.Errorf("helped %d times with %d letters; want once, with both, and no ring", helped, waiting)
	}
	if !b.put(other) || helped != 1 || !rung(b) {
		t.Error("what is no letter is for the loop")
	}
	b.close()
	if b.put(letter) || helped != 1 {
		t.Error("an inbox that is closed takes a letter")
	}
}

// TestHelpDoesNotWait: while a turn is under way the loop is told to make another.
func TestHelpDoesNotWait(t *testing.T) {
	n := &Node{inbox: newInbox()}
	turns := &turns{n: n, baton: make(chan struct{}, 1)}
	turns.take()
	turns.help()
	if !rung(n.inbox) {
		t.Error("a letter that came during a turn is left lying")
	}
	turns.leave()
}

package peer

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/peer/internal/wire"
)

// TestSaver: saves that were replaced before their turn are skipped, failures
// are told, and the second slot is written when nothing else is to be done.
func TestSaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		var told []uint64
		broken := errors.New("broken")
		s := &saver{
			idle:   100 * time.Millisecond,
			save:   func(data []byte) error { <-time.After(time.Second); did = append(did, string(data)); return nil },
			mirror: func() error { did = append(did, "mirror"); return broken },
			failed: func(err error) { did = append(did, err.Error()) },
			done: func(number uint64, took time.Duration, err error) {
				if err == nil && took != time.Second {
					t.Errorf("save %d took %v", number, took)
				}
				told = append(told, number)
			},
		}
		s.start()
		s.put(1, []byte("one"))
		synctest.Wait()
		s.put(2, []byte("two"))
		s.put(3, []byte("three"))
		<-time.After(10 * time.Second)
		synctest.Wait()
		if want := []string{"one", "three", "mirror", "broken"}; !reflect.DeepEqual(did, want) {
			t.Errorf("it did %q; want %q", did, want)
		}
		if want := []uint64{1, 3}; !reflect.DeepEqual(told, want) {
			t.Errorf("it told of %v; want %v", told, want)
		}
		// Close lets the save that is under way end, and begins no other.
		s.put(4, []byte("four"))
		synctest.Wait()
		s.put(5, []byte("five"))
		s.close()
		if last := told[len(told)-1]; last < 4 {
			t.Errorf("the last save that was told of is %d", last)
		}
	})
}

func TestInbox(t *testing.T) {
	b := newInbox()
	for range maxLetters {
		if !b.put(item{from: "n1", letter: wire.Letter{Since: 1}}) {
			t.Fatal("there is no room for a letter")
		}
	}
	if b.put(item{from: "n1"}) || b.lost() != 1 {
		t.Errorf("a letter too many is taken, and %d are counted as lost", b.lost())
	}
	if !b.put(item{from: "n4"}) {
		t.Error("one who floods keeps out the letters of another")
	}
	if !b.put(item{do: func() {}}) {
		t.Error("what is no letter must always be taken")
	}
	batch := b.take(nil)
	if len(batch) != maxLetters+2 || batch[0].letter.Since != 1 || batch[maxLetters+1].do == nil {
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

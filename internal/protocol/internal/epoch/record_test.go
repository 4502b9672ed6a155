package epoch

import (
	"bytes"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// booted is a record in the step that begins an incarnation.
func booted(t *testing.T, durable []byte) *Record {
	r := new(Record)
	if err := r.Boot("ring", durable, 5<<16|77); err != nil {
		t.Fatal(err)
	}
	return r
}

// flush ends a step, and returns what it saves.
func flush(t *testing.T, r *Record) (number uint64, b Ballot) {
	t.Helper()
	var fx protocol.Effects
	if r.Flush(&fx); len(fx.Saves) == 0 {
		return 0, Ballot{}
	}
	b, err := Decode("ring", fx.Saves[0].Data)
	if err != nil || len(fx.Saves) > 1 {
		t.Fatalf("saves %+v, %v", fx.Saves, err)
	}
	return fx.Saves[0].Number, b
}

// The first incarnation is random, and later ones count up from it.
func TestBoot(t *testing.T) {
	if _, b := flush(t, booted(t, nil)); b != (Ballot{0, 6}) {
		t.Errorf("without a ballot it saves %+v", b)
	}
	if _, b := flush(t, booted(t, Ballot{7, 2}.Append(nil))); b != (Ballot{7, 3}) {
		t.Errorf("after epoch 7 and life 2 it saves %+v", b)
	}
	if err := new(Record).Boot("ring", []byte{9}, 1); err == nil {
		t.Error("it boots from what is no ballot")
	}
}

// All changes of a step are saved once; a step without changes saves nothing.
func TestNote(t *testing.T) {
	r := booted(t, Ballot{7, 2}.Append(nil))
	if r.Note(7) || !r.Note(8) || !r.Note(9) || r.Note(8) {
		t.Errorf("it has noted %d", r.Epoch)
	}
	if n, b := flush(t, r); n != 1 || b != (Ballot{9, 3}) {
		t.Errorf("save %d is %+v", n, b)
	}
	if n, b := flush(t, r); n != 0 {
		t.Errorf("save %d is %+v, and nothing has changed", n, b)
	}
}

// Nothing leaves before the incarnation is durable, nor before the save that it names. A message
// that waits for a failed save never leaves.
func TestAfter(t *testing.T) {
	r := booted(t, nil)
	want := func(number, after uint64, ok bool) {
		t.Helper()
		if got, can := r.After(number); got != after || can != ok {
			t.Errorf("a message after %d leaves after %d, %t; want %d, %t", number, got, can, after, ok)
		}
	}
	want(0, 1, true) // the step ends with it
	flush(t, r)
	want(0, 1, true)
	r.Saved(1, true, 100)
	want(0, 2, false)
	r.Retry(99)
	want(0, 2, false)
	r.Retry(100)
	want(0, 2, true)
	flush(t, r)
	r.Saved(2, false, 200)
	want(0, 0, true)
	want(2, 0, true)
	r.Note(1)
	want(0, 0, true)
	want(3, 3, true)
}

// A failed save is tried again at its time, once, unless a later one follows it.
func TestSaved(t *testing.T) {
	r := booted(t, nil)
	want := func(ready bool, retry protocol.Instant) {
		t.Helper()
		if r.Ready() != ready || r.RetryAt() != retry {
			t.Errorf("ready %t, tried again at %v; want %t, %v", r.Ready(), r.RetryAt(), ready, retry)
		}
	}
	flush(t, r)
	want(false, protocol.Never)
	r.Note(1)
	flush(t, r)
	if !r.Saved(1, true, 100) {
		t.Error("a failure is no news")
	}
	want(false, protocol.Never) // 2 is on its way
	if !r.Saved(2, true, 100) {
		t.Error("a failure is no news")
	}
	want(false, 100)
	r.Retry(100)
	want(false, protocol.Never)
	if n, b := flush(t, r); n != 3 || b != (Ballot{1, 6}) {
		t.Errorf("save %d is %+v", n, b)
	}
	for number, news := range map[uint64]bool{3: true, 4: false} {
		if r.Saved(number, false, 200) != news {
			t.Errorf("save %d is news: %t", number, !news)
		}
	}
	want(true, protocol.Never)
	if r.Saved(2, true, 200) || r.Saved(3, true, 200) {
		t.Error("what was durable has failed later")
	}
	want(true, protocol.Never)
}

// If the save of the incarnation has failed, the latest one holds it too.
func TestLaterSaveHoldsTheIncarnation(t *testing.T) {
	r := booted(t, nil)
	flush(t, r)
	r.Note(1)
	flush(t, r)
	r.Note(2)
	flush(t, r)
	r.Saved(1, true, 100)
	if after, ok := r.After(0); after != 3 || !ok {
		t.Errorf("a message leaves after %d, %t; want 3", after, ok)
	}
	if r.Saved(3, false, 100); !r.Ready() {
		t.Errorf("it waits for the incarnation: %+v", r)
	}
}

func TestState(t *testing.T) {
	r := booted(t, Ballot{7, 2}.Append(nil))
	flush(t, r)
	r.Saved(1, true, 100)
	state := func(r *Record) []byte {
		c := protocol.Appending(nil)
		r.State(&c)
		return c.Appended()
	}
	load := func(r *Record, data []byte) error {
		c := protocol.Loading(data)
		r.State(&c)
		return c.Done("record")
	}
	other := &Record{asked: 9, dirty: true}
	if err := load(other, state(r)); err != nil || *other != *r || !bytes.Equal(state(other), state(r)) {
		t.Errorf("%+v was loaded as %+v: %v", r, other, err)
	}
	r.Epoch = protocol.MaxCount + 1
	if load(other, state(r)) == nil {
		t.Errorf("%+v was loaded", other)
	}
}

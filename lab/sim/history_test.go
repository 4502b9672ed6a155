package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func newWorld(t *testing.T, p *Protocol, s *Schedule) *World {
	t.Helper()
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A history keeps few forks, however long the run, no two nearer than the distance and none farther
// from the next than two of it; every event is reached from them.
func TestHistoryIsBounded(t *testing.T) {
	s := still(5)
	s.Faults = 200 * time.Millisecond
	var hashes []uint64
	w := newWorld(t, pulses(), s)
	for hashes = append(hashes, w.Hash()); ; {
		more := w.Step()
		hashes = append(hashes, w.Hash())
		if !more {
			break
		}
	}
	for _, every := range []uint64{0, 1, 7, 100_000} {
		h := Keep(newWorld(t, pulses(), s), every)
		first, last := h.Span()
		if first != 0 || last != uint64(len(hashes)-1) || last < 1000 {
			t.Fatalf("every %d: events %d to %d; want 0 to %d", every, first, last, len(hashes)-1)
		}
		if len(h.kept) > mostKept {
			t.Errorf("every %d: %d forks; want at most %d", every, len(h.kept), mostKept)
		}
		for i, k := range h.kept {
			next := last
			if i+1 < len(h.kept) {
				if next = h.kept[i+1].events; next-k.events < h.every {
					t.Errorf("every %d: forks at %d and %d; want them %d apart", every, k.events, next, h.every)
				}
			}
			if next-k.events >= 2*h.every {
				t.Errorf("every %d: from %d to %d there is no fork; want one each %d", every, k.events, next, h.every)
			}
		}
		r := rand.New(rand.NewPCG(1, every))
		for range 100 {
			event := r.Uint64N(last + 1)
			w, err := h.At(event)
			if err != nil {
				t.Fatal(err)
			}
			if w.Events() != event || w.Hash() != hashes[event] {
				t.Errorf("every %d: event %d is %d, %x; want %x", every, event, w.Events(), w.Hash(), hashes[event])
			}
		}
	}
}

// A history begins at the world's present event and ends with the run; the worlds that it returns
// belong to the caller.
func TestHistoryEnds(t *testing.T) {
	w := newWorld(t, pulses(), still(3))
	for range 10 {
		w.Step()
	}
	h := Keep(w, 16)
	end := w.Hash()
	for _, event := range []uint64{9, w.Events() + 1} {
		if _, err := h.At(event); err == nil || !strings.Contains(err.Error(), "want 10 to ") {
			t.Errorf("event %d: error %v; want it to say which there are", event, err)
		}
	}
	if _, err := h.Forward(); err == nil {
		t.Error("there is something after the end")
	}
	for want := w.Events(); want > 10; {
		want--
		b, err := h.Back()
		if err != nil || b.Events() != want {
			t.Fatalf("%v, %v; want event %d", b, err, want)
		}
		if b.Run(); b.Hash() != end {
			t.Fatalf("event %d goes on to another end", want)
		}
	}
	if _, err := h.Back(); err == nil {
		t.Error("there is something before the beginning")
	}
	if f, err := h.Forward(); err != nil || f.Events() != 11 {
		t.Errorf("%v, %v; want event 11", f, err)
	}
}

// forgetful is a machine that does not load its whole state.
type forgetful struct{ pulse }

func (m *forgetful) LoadState(src []byte) error {
	err := m.pulse.LoadState(src)
	m.next = m.next.Add(1)
	return err
}

func TestHistoryOfForgetfulMachine(t *testing.T) {
	p := pulses()
	p.New = func(p Participant) (protocol.Machine, error) {
		return &forgetful{pulse{self: p.Self, members: p.Membership, next: protocol.Never}}, nil
	}
	h := Keep(newWorld(t, p, still(3)), 64)
	_, last := h.Span()
	if _, err := h.At(last / 2); err != nil {
		t.Fatal(err)
	}
	if _, err := h.At(last); err == nil || !strings.Contains(err.Error(), "AppendState") {
		t.Errorf("error %v; want it to say what is wrong with the machine", err)
	}
}

// counted is a machine that counts the steps of all of its kind.
type counted struct {
	pulse
	steps *int
}

func (m *counted) Step(in *protocol.Input, fx *protocol.Effects) {
	*m.steps++
	m.pulse.Step(in, fx)
}

// Who steps back takes the steps between two forks once, and not again for each event; and sees the same worlds,
// whatever came in between.
func TestBackTakesFewSteps(t *testing.T) {
	var steps int
	p := pulses()
	p.New = func(p Participant) (protocol.Machine, error) {
		return &counted{pulse{self: p.Self, members: p.Membership, next: protocol.Never}, &steps}, nil
	}
	s := still(5)
	s.Faults = 2 * time.Second
	w := newWorld(t, p, s)
	hashes := []uint64{w.Hash()}
	for more := true; more; {
		more = w.Step()
		hashes = append(hashes, w.Hash())
	}
	h := Keep(newWorld(t, p, s), 0)
	_, last := h.Span()
	if last/h.every < mostKept/2-1 || h.every < 2*keptEvery {
		t.Fatalf("the forks are %d events apart; want a run that is too long for %d", h.every, keptEvery)
	}
	visit := func(event uint64) {
		t.Helper()
		if err := h.Visit(event, func(w *World) {
			if w.events != event || w.Hash() != hashes[event] {
				t.Fatalf("event %d: it is event %d with another hash", event, w.events)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	const back = 2000
	steps = 0
	for n := range uint64(back) {
		visit(last - n)
	}
	if most := back * int(2*h.every/nearMost); steps > most {
		t.Errorf("%d events back took %d steps of machines; want %d at most, not half of %d each time", back, steps, most, h.every)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		at := r.Uint64N(last)
		visit(at)
		visit(at - min(at, r.Uint64N(3)))
		visit(min(at+r.Uint64N(400), last))
	}
}

// View is the view of a participant's machine while the participant is up.
func TestView(t *testing.T) {
	w := newWorld(t, pulses(), still(3, Op{At: Time(10 * time.Millisecond), Kind: OpKill, Node: "n2", For: 20 * time.Millisecond}))
	state := string(w.AppendState(nil))
	for w.Now() < Time(20*time.Millisecond) {
		w.Step()
	}
	if v, ok := w.View("n1"); !ok || v != w.nodes[0].machine.View() {
		t.Errorf("n1: %+v, %t", v, ok)
	}
	for _, id := range []protocol.NodeID{"n2", "n4", ""} {
		if v, ok := w.View(id); ok {
			t.Errorf("%q: %+v; want none", id, v)
		}
	}
	if string(w.AppendState(nil)) == state {
		t.Error("nothing has changed")
	}
}

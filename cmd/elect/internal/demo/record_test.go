package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

// TestRecord has a leader killed, and another one follow: a page must be able to draw that from the events.
func TestRecord(t *testing.T) {
	m := newModel("lan", time.Second)
	m.record = newRecord()
	at := func(now time.Duration, do func()) {
		m.tick(now)
		do()
		m.record.look(m)
	}
	job := func(id string, token fence.Token, from, until time.Duration) {
		for now := from; now < until; now += beat {
			at(now+beat/2, func() {
				m.wrote(line{At: now, Token: token, ID: id, PID: int(token), Number: 1 + int((now-from)/beat)})
			})
		}
	}
	for i := range ids {
		at(0, func() { m.did(start, i, 0) })
	}
	at(time.Second, func() {
		m.answered(1, time.Second, reading{role: "follower", founded: true, follows: "n1", hears: []string{"n1", "n3"}})
	})
	at(time.Second, func() { m.proves(0, 1, 1900*time.Millisecond) })
	job("n1", 1, time.Second, 2*time.Second)
	at(1990*time.Millisecond, func() { m.proves(0, 1, 2800*time.Millisecond) })
	at(2*time.Second, func() { m.did(kill, 0, 2*time.Second) })
	at(2005*time.Millisecond, func() { m.proves(0, 1, 2900*time.Millisecond) }) // its page, a moment later
	job("n2", 2, 2030*time.Millisecond, 2500*time.Millisecond)
	at(3*time.Second, func() { m.wrote(line{At: 3 * time.Second, Token: 1, ID: "n1", PID: 9, Seen: 2}) })

	all := m.record.after(0)
	var told []string
	written, refused := map[uint64]int{}, 0
	for i, e := range all {
		if e.Number != uint64(i+1) || i > 0 && e.At < all[i-1].At {
			t.Fatalf("event %d has the number %d and the time %v, after %v; want numbers from 1, and times that do not fall", i+1, e.Number, e.At, all[max(i-1, 0)].At)
		}
		switch {
		case e.Told != nil:
			told = append(told, e.Told.Mood+": "+e.Told.Text)
		case e.Writes != nil && e.Writes.OK:
			written[e.Writes.Token] += e.Writes.Count
			if e.Writes.Count > int(gathered/beat)+1 {
				t.Errorf("%d writes are one event; want those of %v", e.Writes.Count, gathered)
			}
		case e.Writes != nil:
			refused++
		}
	}
	if written[1] != 100 || written[2] != 47 || refused != 1 {
		t.Errorf("the events have %v accepted writes by token and %d refused ones; want 100 and 47, and 1", written, refused)
	}
	for _, want := range []string{"struck: n1 was killed.", "good: n1 was killed. Its keeper told the others that all its work is dead, so n2 took over after 30 ms."} {
		if !slices.Contains(told, want) {
			t.Errorf("%q is not told; want it in %q", want, strings.Join(told, "\n"))
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(told)))) != len(told) {
		t.Errorf("a sentence is told twice: %q", told)
	}
	lives := func(number uint64, node int) (f nodeView) { // as the page sees it after an event
		for _, e := range all[:number] {
			if e.Is != nil && e.Node == node {
				f = *e.Is
			}
		}
		return f
	}
	killed := slices.IndexFunc(all, func(e event) bool { return e.Did == "kill" })
	if f := lives(uint64(killed), 0); !f.Up || f.Token != 1 || f.Until != 2800*time.Millisecond || f.Leader != "n1" {
		t.Errorf("before it is killed n1 is %+v; want a leader with token 1, proven until 2.8 s", f)
	}
	if f := lives(uint64(len(all)), 0); f.Up || f.Token != 0 || f.Until != 0 {
		t.Errorf("after it was killed n1 is %+v; want it dead, without a lease", f)
	}
	if f := lives(uint64(len(all)), 1); f.Leader != "n1" || f.Hears != [size]bool{true, false, true} {
		t.Errorf("n2 is %+v; want what it has answered", f)
	}
	if got := m.record.after(uint64(len(all) - 1)); len(got) != 1 || got[0].Number != uint64(len(all)) {
		t.Errorf("after the last event but one there is %v; want the last", got)
	}
	if got := m.record.after(uint64(len(all))); len(got) != 0 {
		t.Errorf("after the last event there is %v; want nothing", got)
	}

	// The older half is forgotten, but for what each node is like.
	m.record.drop(len(all))
	kept := m.record.after(0)
	text, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != size+1 {
		t.Errorf("%d events are kept; want one of each node, and the figures: %s", len(kept), text)
	}
	at(4*time.Second, func() { m.did(start, 0, 4*time.Second) })
	if got := m.record.after(uint64(len(all))); len(got) == 0 || got[0].Did != "start" || got[0].Number != uint64(len(all)+1) {
		t.Errorf("then it goes on with %v; want the start of n1", got)
	}
}

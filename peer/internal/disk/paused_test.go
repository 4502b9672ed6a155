package disk

import (
	"strings"
	"testing"
	"time"
)

func pauseOf(on bool) Pause {
	return Pause{Paused: on, By: "operator at 127.0.0.1:7", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// Where it cannot be told, the node counts as paused, and a resume mends it.
func TestPauseIsDamaged(t *testing.T) {
	at := newFakeDisk()
	d := &Dir{path: "x", at: at}
	for _, text := range []string{"", "paused", `{"format":1,"paused":false}` + "\ncrc32c 00000000\n", sealLine(`{"format":2}`), sealLine(`{"format":1,"paused":1}`)} {
		if err := replace(at, pausedName, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if p, err := d.Pause(); err == nil || !p.Paused || !strings.Contains(err.Error(), "counts as paused until it is resumed") {
			t.Errorf("%q reads as %+v, %v; want paused, and why", text, p, err)
		}
	}
	if err := d.SetPause(pauseOf(false)); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Pause(); err != nil || p.Paused {
		t.Errorf("after a resume it has %+v, %v", p, err)
	}
}

// Whenever the power fails, what is there afterwards is what was said last, or
// what was being said.
func TestPauseAndPower(t *testing.T) {
	for _, how := range []fault{die, dieHalf} {
		for point := 1; ; point++ {
			at := newFakeDisk()
			d := &Dir{path: "x", at: at}
			if err := d.SetPause(pauseOf(true)); err != nil {
				t.Fatal(err)
			}
			at.fault[at.point+point] = how
			err := d.SetPause(pauseOf(false))
			if err == nil {
				if point < 4 {
					t.Fatalf("a pause is written in %d operations; want a file, a write, a sync, a rename and a sync", point-1)
				}
				break
			}
			sectors, changes := at.unsynced()
			for n := range changes + 1 {
				for _, survive := range outages(sectors) {
					after := &Dir{path: "x", at: at.outage(n, survive)}
					if p, err := after.Pause(); err != nil || p != pauseOf(true) && p != pauseOf(false) {
						t.Fatalf("point %d, %d changes: %+v, %v", point, n, p, err)
					}
				}
			}
		}
	}
}

func TestPauseLayout(t *testing.T) {
	text, err := encodePause(pauseOf(true))
	if want := sealLine(`{"format":1,"paused":true,"by":"operator at 127.0.0.1:7","at":"2026-03-01T12:00:00Z"}`); err != nil || string(text) != want {
		t.Errorf("paused:\n%s\nwant:\n%s", text, want)
	}
}

// FuzzPause: whatever is read encodes to what reads the same.
func FuzzPause(f *testing.F) {
	good, err := encodePause(pauseOf(true))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good), "")
	f.Add("", `{"format":1,"paused":false}`)
	f.Add("", `{"format":1,"paused":null,"by":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text, line string) {
		if line != "" && !strings.Contains(line, "\n") {
			text = sealLine(line)
		}
		p, err := decodePause([]byte(text))
		if err != nil {
			return
		}
		again, err := encodePause(p)
		if err != nil {
			return // a year that JSON has no word for
		}
		p2, err := decodePause(again)
		if err != nil || p2.Paused != p.Paused || p2.By != p.By || !p2.At.Equal(p.At) {
			t.Fatalf("%+v became %+v: %v", p, p2, err)
		}
	})
}

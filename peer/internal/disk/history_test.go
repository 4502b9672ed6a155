//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

func noteOf(i int) History {
	return History{At: time.Unix(int64(i), 0).UTC(), Event: "elected", Leader: "n2", Token: fence.Token(i), Reason: "the leader before was silent"}
}

// TestHistory: notes survive a restart, a torn line is left out, and the next
// one is whole.
func TestHistory(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	if all, err := d.History(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v; want none", all, err)
	}
	if err := errors.Join(d.Note(noteOf(1)), d.Note(noteOf(2)), d.Close()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(path, "history.ndjson")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"at":"1970-01-01T00:00:01Z","event":"elected","leader":"n2","token":"1","reason":"the leader before was silent"}` + "\n"
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("%s\nwant: %s", text, want)
	}
	if err := os.WriteFile(name, text[:len(text)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, path)
	if err := errors.Join(d.Note(noteOf(3)), d.Note(noteOf(4))); err != nil {
		t.Fatal(err)
	}
	all, err := d.History()
	if err != nil || len(all) != 3 || all[0] != noteOf(1) || all[1] != noteOf(3) || all[2] != noteOf(4) {
		t.Errorf("%v, %v; want 1, 3 and 4", all, err)
	}
	if err := d.Note(History{Reason: strings.Repeat("x", maxNote)}); err == nil {
		t.Error("a note without end was taken")
	}
}

// TestHistoryIsBounded: two files, and the newest notes are there, in order.
func TestHistoryIsBounded(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	const n = 8000
	for i := range n {
		if err := d.Note(noteOf(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	sum := int64(0)
	for _, name := range []string{"history.ndjson", "history-old.ndjson"} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	all, err := d.History()
	if err != nil || sum > 2*MaxHistory || len(all) < 2000 || len(all) == n {
		t.Fatalf("%d notes in %d bytes, %v; want at most %d bytes", len(all), sum, err, 2*MaxHistory)
	}
	for i, h := range all {
		if want := noteOf(n - len(all) + i + 1); h != want {
			t.Fatalf("note %d is %v; want %v", i, h, want)
		}
	}
}

// TestHistoryWhileItTurns: a reader sees each note once, whatever is written meanwhile.
func TestHistoryWhileItTurns(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	wrong := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		defer close(wrong)
		for {
			select {
			case <-stop:
				return
			default:
			}
			all, err := d.History()
			if err == nil {
				for i, h := range all {
					if h.Token != all[0].Token+fence.Token(i) {
						err = fmt.Errorf("note %d of %d is %v after %v", i, len(all), h.Token, all[i-1].Token)
						break
					}
				}
			}
			if err != nil {
				wrong <- err
				return
			}
		}
	}()
	for i := range 8000 {
		if err := d.Note(noteOf(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-wrong; err != nil {
		t.Error(err)
	}
}

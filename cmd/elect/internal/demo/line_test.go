package demo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

func FuzzLine(f *testing.F) {
	for _, l := range []line{
		at(10, 1, 100, 1), at(0, fence.MaxToken, 1, 0), refused(at(5, 1, 1, 7), 2),
		{At: 90 * time.Minute, Token: 42, ID: "web-3:4711", PID: 17, Number: 3},
	} {
		f.Add(l.String())
		if got, err := parseLine(l.String()); err != nil || got != l {
			f.Errorf("%q was read as %+v, %v", l.String(), got, err)
		}
	}
	good := at(1, 1, 1, 1).String()
	for _, text := range []string{
		"", "hello\n", "\n", "at=1 token=1 leader=a\n", strings.Replace(good, "token=1", "token=0", 1), strings.Replace(good, "token=1", "token=x", 1),
		strings.Replace(good, "at=", "at=x", 1), strings.TrimSuffix(good, "\n"), good + "half a li", strings.Replace(good, "at=1", "at=-1", 1),
		strings.Replace(good, "at=1", "at=01", 1), strings.TrimSuffix(good, "\n") + " refused=\n", strings.TrimSuffix(good, "\n") + " refused=2 more=1\n",
	} {
		f.Add(text)
		if l, err := parseLine(text); err == nil {
			f.Errorf("%q was taken for %+v", text, l)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLine(text)
		if err == nil && l.String() != text {
			t.Errorf("%q was read as %+v, which is written as %q", text, l, l.String())
		}
	})
}

// TestGuard is two writers at one log: the one with the smaller token is refused
// as soon as the other has written, and what was refused is in the log.
func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.log")
	var writers [2]*guard
	for i := range writers {
		g, err := openGuard(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		writers[i] = g
	}
	write := func(writer int, token, refusedBy fence.Token) {
		t.Helper()
		err := writers[writer].append(line{Token: token, ID: ids[writer], PID: 100 + writer, Number: 1})
		refusal, _ := errors.AsType[*fence.StaleError](err)
		switch {
		case refusedBy == 0 && err != nil:
			t.Fatal(err)
		case refusedBy != 0 && (refusal == nil || refusal.Shown != token || refusal.Highest != refusedBy):
			t.Fatalf("token %v: %v; want that it is refused because of %v", token, err, refusedBy)
		}
	}
	write(0, 9, 0)
	write(0, 9, 0)
	write(1, 10, 0)
	write(0, 9, 10)
	write(1, 10, 0)
	write(0, fence.MaxToken, 0)
	write(1, 10, fence.MaxToken)

	tail := &logTail{path: path}
	defer tail.close()
	lines, err := tail.read()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, l.Token.String()+"/"+l.Seen.String())
	}
	most := fence.MaxToken.String()
	want := []string{"9/0", "9/0", "10/0", "9/10", "10/0", most + "/0", "10/" + most}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the log has %v; want %v", got, want)
	}
	g, err := verdict(path)
	if err != nil || g.overlaps != 2 || g.lines != 5 {
		t.Errorf("the verdict is %+v, %v; want 2 overlaps in 5 lines", g, err)
	}
}

// TestGuardOfDamage refuses to write where it does not know what was seen.
func TestGuardOfDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.log")
	if err := os.WriteFile(path+seenSuffix, []byte("many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := openGuard(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if err := g.append(at(0, 1, 1, 1)); err == nil || !strings.Contains(err.Error(), seenSuffix) {
		t.Errorf("it wrote, or said %v; want the file that is damaged", err)
	}
}

// TestTailOfHalfLines hands out a line when all of it is there.
func TestTailOfHalfLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.log")
	tail := &logTail{path: path}
	defer tail.close()
	if lines, err := tail.read(); err != nil || len(lines) > 0 {
		t.Fatalf("before there is a log: %v, %v", lines, err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := at(10, 1, 1, 1).String() + at(20, 1, 1, 2).String()
	got := 0
	for i := range len(text) {
		if _, err := f.WriteString(text[i : i+1]); err != nil {
			t.Fatal(err)
		}
		lines, err := tail.read()
		if err != nil {
			t.Fatal(err)
		}
		got += len(lines)
		if want := strings.Count(text[:i+1], "\n"); got != want {
			t.Fatalf("%d lines after %q; want %d", got, text[:i+1], want)
		}
	}
}

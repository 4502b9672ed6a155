//go:build linux

package lives

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
)

func open(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestLedger: what one has written another reads, life by life, and a life that was
// never stamped is none.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, other := open(t, path), open(t, path)
	s := l.Begin(Life{Token: 5, Keeper: 3, Node: 2, Kind: Command})
	if got := other.Lives(); len(got) != 0 {
		t.Errorf("a life that was begun and not stamped is listed: %+v", got)
	}
	before := Now()
	s.Stamp()
	first := other.Lives()
	if len(first) != 1 {
		t.Fatalf("%d lives; want one", len(first))
	}
	got := first[0]
	if got.Token != 5 || got.Keeper != 3 || got.Node != 2 || got.Kind != Command || got.Pid != int64(os.Getpid()) ||
		got.Number != s.Number() || got.Start > before || got.Last < before {
		t.Errorf("%+v", got)
	}
	s.Stamp()
	if again := other.Lives()[0]; again.Last < got.Last || again.Start != got.Start {
		t.Errorf("%+v after %+v", again, got)
	}
	later := other.Begin(Life{Token: 6, Pid: 77, Node: -1, Kind: Library, Key: 9, Start: 1000})
	later.StampAt(0, 1500)
	if got := l.Since(1); len(got) != 1 || !reflect.DeepEqual(got[0], Life{Token: 6, Pid: 77, Node: -1, Kind: Library, Key: 9, Start: 1000, Last: 1500, Number: 1}) {
		t.Errorf("%+v", got)
	}
	l.Prolong(1, 1400)
	other.Prolong(1, 1700)
	l.Prolong(1, 1600)
	if got := l.Since(1)[0].Last; got != 1700 {
		t.Errorf("prolonged to %d; want 1700, the latest", got)
	}
	if l.Len() != 2 || len(l.Since(2)) != 0 || len(l.Since(99)) != 0 || len(l.Since(-1)) != 2 {
		t.Errorf("Len %d, Since(2) %v", l.Len(), l.Since(2))
	}
}

// TestGap: a life remembers the longest time without a stamp, if it was long.
func TestGap(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	const ms = 1_000_000
	s := l.Begin(Life{Token: 1, Kind: Command, Start: 100 * ms})
	for _, c := range []struct{ last, paused, resumed int64 }{
		{101 * ms, 0, 0},
		{111 * ms, 0, 0}, // not above Gap
		{131 * ms, 111 * ms, 131 * ms},
		{149 * ms, 111 * ms, 131 * ms},   // 18 ms
		{1149 * ms, 149 * ms, 1149 * ms}, // the freeze
		{1199 * ms, 149 * ms, 1149 * ms},
	} {
		s.StampAt(0, c.last)
		if got := l.Lives()[0]; got.Last != c.last || got.Paused != c.paused || got.Resumed != c.resumed {
			t.Errorf("stamped at %d: %+v", c.last, got)
		}
	}
	s.StampAt(0, 1150*ms)
	if got := l.Lives()[0]; got.Last != 1199*ms {
		t.Errorf("a stamp before the last one was taken: %+v", got)
	}
	s.StampAt(90*ms, 1200*ms)
	if got := l.Lives()[0]; got.Start != 90*ms || got.Last != 1200*ms {
		t.Errorf("%+v", got)
	}
}

// TestKilledBetweenStores: of a stamp that a process did not finish nothing is told.
func TestKilledBetweenStores(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	const ms = 1_000_000
	s := l.Begin(Life{Token: 1, Kind: Command, Start: 100 * ms})
	s.StampAt(0, 101*ms)
	gaps := func() []Pause { return l.Lives()[0].Gaps }
	for _, g := range []*gap{&s.slot.longest, &s.slot.latest[0]} {
		atomic.StoreInt64(&g.paused, 101*ms)
	}
	if got := l.Lives()[0]; got.Last != 101*ms || got.Paused != 0 || got.Resumed != 0 || len(gaps()) != 0 {
		t.Errorf("%+v", got)
	}
	for _, g := range []*gap{&s.slot.longest, &s.slot.latest[0]} {
		atomic.StoreInt64(&g.resumed, 900*ms)
	}
	if got := l.Lives()[0]; got.Last != 101*ms || got.Paused != 0 || got.Resumed != 0 || len(gaps()) != 0 {
		t.Errorf("%+v", got)
	}
	atomic.StoreInt64(&s.slot.last, 900*ms)
	if got := l.Lives()[0]; got.Last != 900*ms || got.Paused != 101*ms || got.Resumed != 900*ms || !slices.Equal(gaps(), []Pause{{101 * ms, 900 * ms}}) {
		t.Errorf("%+v", got)
	}
}

// TestGaps: a life remembers the latest gaps, whatever came before them, and the
// longest: so the one before its last 100 ms is there, however short it was.
func TestGaps(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	const ms = 1_000_000
	s := l.Begin(Life{Token: 1, Kind: Command, Start: 100 * ms})
	at := int64(100 * ms)
	gap := func(long int64) Pause {
		p := Pause{at, at + long}
		at += long
		s.StampAt(0, at)
		return p
	}
	check := func(want ...Pause) {
		t.Helper()
		if got := l.Lives()[0].Gaps; !slices.Equal(got, want) {
			t.Errorf("%v; want %v", got, want)
		}
	}
	gap(10 * ms) // not above Gap
	check()
	longest := gap(5000 * ms)
	check(longest)
	for range 2 * Gaps {
		gap(1000 * ms)
		gap(ms)
	}
	late := []Pause{longest, gap(60 * ms)}
	for range Gaps - 1 {
		late = append(late, gap(10*ms+1))
		gap(ms)
	}
	check(late...)
}

// TestLedgerIsSparse: it holds a day of lives, and takes the space of those that it
// has.
func TestLedgerIsSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	for range 100 {
		l.Begin(Life{Token: 1, Kind: Command}).Stamp()
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > 1<<20 || info.Size() < 100<<20 {
		t.Errorf("%d bytes of %d are used", used, info.Size())
	}
}

func TestFull(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	atomic.StoreInt64(&l.header().next, Most-1)
	l.Begin(Life{Token: 1, Kind: Command}).Stamp()
	if l.Len() != Most || len(l.Since(Most-1)) != 1 {
		t.Errorf("the last slot is not used: %d", l.Len())
	}
	defer func() {
		if recover() == nil {
			t.Error("a life that has no place was begun")
		}
		if l.Len() != Most || len(l.Since(Most-1)) != 1 {
			t.Errorf("Len %d", l.Len())
		}
	}()
	l.Begin(Life{Token: 2, Kind: Command})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("not a ledger"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(short); err == nil {
		t.Error("a text was opened as a ledger")
	}
	if text, _ := os.ReadFile(short); string(text) != "not a ledger" {
		t.Errorf("and it was changed: %q", text)
	}
	other := filepath.Join(dir, "other")
	l := open(t, other)
	l.header().magic++
	if _, err := Open(other); err == nil {
		t.Error("a ledger of another form was opened")
	}
	if _, err := Open(filepath.Join(dir, "no", "ledger")); err == nil {
		t.Error("a ledger in no directory was opened")
	}
}

func TestLifeAsJSON(t *testing.T) {
	for _, k := range []Kind{Command, Descendant, Library, Guarded} {
		want := Life{Token: 7, Pid: 8, Node: -1, Kind: k, Start: 9, Last: 10, Number: 3}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Life
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if k.Checked() != (k == Library || k == Guarded) {
			t.Errorf("%v: Checked %t", k, k.Checked())
		}
	}
	if err := new(Kind).UnmarshalText([]byte("cat")); err == nil {
		t.Error("a cat has such a life")
	}
	if Kind(9).String() != "kind 9" {
		t.Error(Kind(9))
	}
}

func BenchmarkStamp(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "ledger"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := l.Begin(Life{Token: 1, Kind: Command})
	for b.Loop() {
		s.Stamp()
	}
}

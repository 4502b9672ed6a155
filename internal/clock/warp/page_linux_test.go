package warp

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.offset != w.offset {
		t.Fatalf("offsets %v and %v of one process", r.offset, w.offset)
	}
	begun := r.Version()
	at := func(clock Clock, kernel int64) int64 {
		off := r.offset[clock]
		return r.Read(clock, func() int64 { return kernel + off }) - off
	}
	for _, c := range []struct {
		f                      Function
		kernel, boots, monoton int64
	}{
		{Straight(), 123, 123, 123},
		{Function{Rate: 1, Boot: Line{100, 150}, Mono: Line{100, 90}}, 110, 160, 100},
		{Function{Rate: 1.5, Boot: Line{100, 150}, Mono: Line{100, 90}}, 110, 165, 105},
		{Function{Rate: 0.5, Boot: Line{100, 100}, Mono: Line{200, 200}}, 200, 150, 200},
		// Exact where nothing is bent but the beginning, after years.
		{Function{Rate: 1, Boot: Line{1, 2}, Mono: Line{2, 1}}, 1<<60 + 1, 1<<60 + 2, 1 << 60},
	} {
		w.Set(c.f)
		if got := r.Function(); got != c.f {
			t.Errorf("%+v arrives as %+v", c.f, got)
		}
		if boot, mono := at(Boot, c.kernel), at(Mono, c.kernel); boot != c.boots || mono != c.monoton {
			t.Errorf("%+v at %d: %d and %d; want %d and %d", c.f, c.kernel, boot, mono, c.boots, c.monoton)
		}
	}
	if got, want := r.Version()-begun, uint64(5); got != want {
		t.Errorf("the version has changed %d times; want %d", got, want)
	}
}

// TestPageIsNeverHalf: readers see one function or another, and never a part of
// each.
func TestPageIsNeverHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	function := func(n int64) Function {
		return Function{Rate: float64(n), Boot: Line{n, 2 * n}, Mono: Line{3 * n, 4 * n}}
	}
	w.Set(function(1))
	var readers sync.WaitGroup
	over := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			r, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			for seen := map[int64]bool{}; ; {
				f := r.Function()
				if want := function(f.Boot.From); f != want {
					t.Errorf("%+v; want %+v", f, want)
					return
				}
				seen[f.Boot.From] = true
				select {
				case <-over:
					if len(seen) > 1 {
						return
					}
				default:
				}
			}
		})
	}
	for n := range int64(20_000) {
		w.Set(function(1 + n%1000))
	}
	close(over)
	// Who has seen one function only goes on until it has seen another.
	for n, done := int64(0), wait(&readers); ; n++ {
		select {
		case <-done:
			return
		default:
			w.Set(function(1 + n%1000))
		}
	}
}

func wait(g *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	return done
}

// TestReadAcrossAChange: a reading during which the function changes counts by
// the new one.
func TestReadAcrossAChange(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.offset = [2]int64{}
	times := 0
	got := w.Read(Boot, func() int64 {
		if times++; times == 1 {
			w.Set(Function{Rate: 1, Boot: Line{0, 1000}})
		}
		return int64(times)
	})
	if got != 1002 || times != 2 {
		t.Errorf("%d after %d readings; want 1002 after 2", got, times)
	}
}

func TestOffsetsOfATimeNamespace(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// As if this process's clocks were ahead by 10 and 20.
	w.offset = [2]int64{10, 20}
	w.Set(Function{Rate: 2, Boot: Line{100, 100}, Mono: Line{100, 100}})
	if boot, mono := w.Read(Boot, func() int64 { return 210 }), w.Read(Mono, func() int64 { return 220 }); boot != 310 || mono != 320 {
		t.Errorf("%d and %d; want 310 and 320: twice as fast since 100 in the first namespace", boot, mono)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{"empty": nil, "zero": make([]byte, size), "long": make([]byte, size+1)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := Create(path); err == nil {
			t.Errorf("%s: created where there is a file", name)
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); err == nil {
		t.Error("none: no error")
	}
}

func TestOffset(t *testing.T) {
	for _, c := range []struct {
		fields []string
		clock  string
		want   time.Duration
		fails  bool
	}{
		{[]string{"boottime", "7", "5"}, "boottime", 7*time.Second + 5, false},
		{[]string{"monotonic", "-7", "0"}, "monotonic", -7 * time.Second, false},
		{[]string{"monotonic", "7"}, "", 0, true},
		{[]string{"monotonic", "x", "0"}, "", 0, true},
		{[]string{"monotonic", "0", "x"}, "", 0, true},
	} {
		clock, d, err := offset(c.fields)
		if clock != c.clock || d != c.want || (err != nil) != c.fails {
			t.Errorf("%q: %q, %v, %v", c.fields, clock, d, err)
		}
	}
}

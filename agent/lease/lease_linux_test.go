package lease_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
)

func create(t testing.TB, s leasepage.State) (*leasepage.Writer, *lease.Page) {
	t.Helper()
	w, err := leasepage.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Remove)
	p, err := lease.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return w, p
}

func TestPage(t *testing.T) {
	w, p := create(t, leasepage.State{Token: 1<<63 - 1, Until: int64(clock.Now().Add(time.Hour))})
	if err := p.Check(); err != nil || p.Token() != 1<<63-1 {
		t.Errorf("%v, token %v", err, p.Token())
	}
	if left := p.Remaining(); left <= 0 || left > time.Hour {
		t.Errorf("%v remain of an hour", left)
	}
	w.Prove(int64(clock.Now()))
	if err := p.Check(); !errors.Is(err, lease.ErrOver) || p.Remaining() != 0 {
		t.Errorf("at the end of the lease: %v, and %v remain", err, p.Remaining())
	}
	w.Prove(int64(clock.Now().Add(time.Hour)))
	if err := p.Check(); err != nil {
		t.Errorf("after a late renewal: %v", err)
	}
	w.Remove()
	if err := p.Check(); !errors.Is(err, lease.ErrOver) {
		t.Errorf("of a removed page: %v", err)
	}
	if p.Close() != nil || p.Close() == nil {
		t.Error("Close succeeds once")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("electpg1"))
	f.Add(append([]byte("electpg1"), make([]byte, 56)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "page")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := lease.Open(path)
		if (err == nil) != (leasepage.Check(text) == nil && len(text) == leasepage.Size) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			_, _ = p.Check(), p.Token()
			_ = p.Close()
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	_, p := create(b, leasepage.State{Token: 1, Until: 1 << 62})
	for b.Loop() {
		if p.Check() != nil {
			b.Fatal("it is over")
		}
	}
}

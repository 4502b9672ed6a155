package watchdog

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// device is a fake.
type device struct {
	mu     sync.Mutex
	fed    int
	magic  bool
	closed bool
	err    error
}

func (d *device) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	d.magic = string(p) == "V"
	if !d.magic {
		d.fed++
	}
	return len(p), nil
}

func (d *device) Close() error { d.closed = true; return nil }

func (d *device) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fed
}

// The device is fed while every term is proven for longer than the timeout, and closed for good when all are over.
func TestFeeding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d, w := &device{}, New("", 10*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		w.file, w.over = d, make(chan struct{})
		go w.feed(w.over)
		var ends atomic.Pointer[time.Time]
		until := func(d time.Duration) { end := time.Now().Add(d); ends.Store(&end) }
		until(time.Hour)
		lease := func() (time.Duration, bool) { return time.Until(*ends.Load()), true }
		held := func() (time.Duration, bool) { return 0, false }
		if err := errors.Join(w.Arm("a", lease), w.Arm("b", held)); err != nil {
			t.Fatal(err)
		}
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(20 * time.Second)
		if n := d.count(); n < 2*shares-1 {
			t.Errorf("fed %d times in two timeouts", n)
		}
		until(10*time.Second + time.Millisecond)
		n := d.count()
		pass(10 * time.Second) // the last feeding was before so much of the lease was left
		if d.count() != n || !strings.Contains(log.String(), "election=a") {
			t.Errorf("fed with less of the lease left than the timeout; the log: %s", &log)
		}
		until(time.Hour)
		pass(2 * time.Second)
		if d.count() == n {
			t.Error("not fed although the lease was renewed")
		}
		w.Abandon("b")
		n = d.count()
		pass(20 * time.Second)
		if d.count() != n {
			t.Error("fed for a term that was not demoted")
		}
		if err := w.Disarm("b"); err != nil || d.closed {
			t.Errorf("%v, closed %v while a term is armed", err, d.closed)
		}
		pass(2 * time.Second)
		if d.count() == n {
			t.Error("not fed for the other term")
		}
		if err := w.Disarm("a"); err != nil || !d.magic || !d.closed {
			t.Errorf("%v, magic %v, closed %v", err, d.magic, d.closed)
		}
	})
}

// What is no device gets the bytes; what is not there, or is a device of another kind, is refused.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	w := New(path, time.Second, slog.New(slog.DiscardHandler))
	if err := w.Arm("a", func() (time.Duration, bool) { return 0, false }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v of a device that is not there", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Disarm("of an earlier life"); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "V" {
		t.Errorf("%q was written; want the magic close", text)
	}
	short := func() (time.Duration, bool) { return 999 * time.Millisecond, true }
	if err := w.Arm("b", short); err == nil || !strings.Contains(err.Error(), "999ms of the lease are left, and its timeout is 1s") {
		t.Errorf("%v for a lease that ends before the machine is reset", err)
	}
	err := New("/dev/null", time.Second, slog.New(slog.DiscardHandler)).Arm("a", func() (time.Duration, bool) { return time.Second, true })
	if err == nil || !strings.Contains(err.Error(), "/dev/null: ") {
		t.Errorf("%v of a device of another kind", err)
	}
}

//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
)

func TestLimits(t *testing.T) {
	l := elector(t, t.TempDir(), "a").Limits()
	if !l.Exclusive || l.Lease != 0 || l.Takeover != 0 || l.Assumes == "" || !slices.Equal(l.Abilities, []driver.Ability{driver.AbilityResign, driver.AbilityInherit, driver.AbilityMetadata}) {
		t.Fatalf("%+v", l)
	}
}

func TestRemaining(t *testing.T) {
	if d, runs := lead(t, elector(t, t.TempDir(), "a")).Remaining(); d != 0 || runs {
		t.Fatalf("%v, %v; want 0 and false", d, runs)
	}
}

// keeper is the other process, played within this one: it has duplicates of the
// descriptors, which share the locks as those of a child do.
type keeper struct {
	files []*os.File
	gone  atomic.Bool
	ended chan struct{}
}

func entrust(t *testing.T, m *mandate) *keeper {
	t.Helper()
	k := &keeper{ended: make(chan struct{})}
	for _, f := range m.Files() {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		k.files = append(k.files, os.NewFile(uintptr(fd), f.Name()))
	}
	t.Cleanup(k.close)
	m.Entrust(k.gone.Load, k.ended)
	return k
}

func (k *keeper) letGo(t *testing.T) {
	t.Helper()
	k.gone.Store(true)
	if err := unannounce(int(k.files[0].Fd())); err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Backward(k.files) {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
	}
}

func (k *keeper) close() {
	for _, f := range k.files {
		_ = f.Close()
	}
}

func TestEntrust(t *testing.T) {
	dir := t.TempDir()
	a := campaign(t, elector(t, dir, "a"))
	k := entrust(t, a)
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	won := stand(t.Context(), elector(t, dir, "b"))
	waiting(t, 1)
	k.letGo(t)
	v := receive(t, won, "the victory of b")
	if v.err != nil {
		t.Fatal(v.err)
	}
	if err := a.Check(); !errors.Is(err, driver.ErrResigned) {
		t.Fatalf("Check: %v, want ErrResigned", err)
	}
	receive(t, a.Context().Done(), "the end of the mandate")

	// The release of the old one changes nothing for the new one.
	release(t, a)
	if err := v.m.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	third := stand(ctx, elector(t, dir, "c"))
	waiting(t, 1)
	if s := observe(t, elector(t, dir, "o")); s.Leader == nil || s.Leader.ID != "b" {
		t.Fatalf("%+v, want b", s)
	}
	cancel()
	receive(t, third, "the end of the campaign")
	if err := elector(t, dir, "o").Resign(t.Context(), v.m.Token()); err != nil {
		t.Fatalf("the new leader's socket is gone: %v", err)
	}
	release(t, v.m)
}

func TestEntrustEnds(t *testing.T) {
	a := lead(t, elector(t, t.TempDir(), "a"))
	k := entrust(t, a)
	close(k.ended)
	receive(t, a.Context().Done(), "the end of the mandate")
	if err := context.Cause(a.Context()); !errors.Is(err, driver.ErrResigned) {
		t.Fatalf("%v, want ErrResigned", err)
	}
}

// TestReleaseLeavesTheKeeperItsLock: work that returns or panics early must not
// free the lock under a family that still lives.
func TestReleaseLeavesTheKeeperItsLock(t *testing.T) {
	dir := t.TempDir()
	a := campaign(t, elector(t, dir, "a"))
	k := entrust(t, a)
	release(t, a)
	if err := a.Check(); err == nil {
		t.Error("a released mandate proves itself")
	}
	won := stand(t.Context(), elector(t, dir, "b"))
	waiting(t, 1)
	select {
	case v := <-won:
		t.Fatalf("another was elected (%v) while the keeper has the lock", v.err)
	case <-time.After(100 * time.Millisecond):
	}
	k.letGo(t)
	v := receive(t, won, "the victory of b")
	if v.err != nil {
		t.Fatal(v.err)
	}
	release(t, v.m)
}

// TestReleaseFreesWhatTheKeeperLeft: a keeper that was killed unlocks nothing.
// The locks belong to the open files, so that the release frees them although a
// duplicate is open.
func TestReleaseFreesWhatTheKeeperLeft(t *testing.T) {
	dir := t.TempDir()
	a := campaign(t, elector(t, dir, "a"))
	k := entrust(t, a)
	close(k.ended)
	release(t, a)
	lead(t, elector(t, dir, "b"))
}

// TestKeeperAloneHolds: the locks last as long as the last duplicate.
func TestKeeperAloneHolds(t *testing.T) {
	dir := t.TempDir()
	a := campaign(t, elector(t, dir, "a"))
	k := entrust(t, a)
	if err := a.place.close(); err != nil { // as the death of the process does
		t.Fatal(err)
	}
	won := stand(t.Context(), elector(t, dir, "b"))
	waiting(t, 1)
	if s := observe(t, elector(t, dir, "o")); s.Leader == nil || s.Leader.ID != "a" {
		t.Fatalf("%+v, want a", s)
	}
	k.close()
	v := receive(t, won, "the victory of b")
	if v.err != nil {
		t.Fatal(v.err)
	}
	release(t, v.m)
	_ = a.Release(context.Background()) // its files are closed already
}

func TestNoLeak(t *testing.T) {
	dir := t.TempDir()
	round := func() {
		e, err := New(dir, "jobs", "a", Config{})
		if err != nil {
			t.Fatal(err)
		}
		m := campaign(t, e)
		m.Entrust(func() bool { return false }, make(chan struct{}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range e.Watch(ctx) {
			break
		}
		for range e.Watch(ctx) {
			cancel()
		}
		if err := e.Resign(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := e.Resign(t.Context(), 99); !errors.Is(err, driver.ErrSuperseded) {
			t.Fatal(err)
		}
		release(t, m)
		_ = e.Close()
	}
	round()
	fds, _, goroutines := resources(t)
	for range 30 {
		round()
	}
	harness.Eventually(t, "descriptors and goroutines are back", func() bool {
		f, _, g := resources(t)
		return f <= fds && g <= goroutines
	})
}

// TestSetMetadataOfEntrusted: the keeper may let the lock go at any time, and the next
// leader's record must not be overwritten then.
func TestSetMetadataOfEntrusted(t *testing.T) {
	m := campaign(t, elector(t, t.TempDir(), "a"))
	defer release(t, m)
	var setter driver.MetadataSetter = m
	if err := setter.SetMetadata(t.Context(), map[string]string{"k": "v"}); err != nil {
		t.Error(err)
	}
	ended := make(chan struct{})
	m.Entrust(func() bool { return false }, ended)
	if err := setter.SetMetadata(t.Context(), nil); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("%v; want ErrUnsupported", err)
	}
	close(ended)
}

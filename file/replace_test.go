//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
)

// replacements are what an operator may do to an election under its leader.
var replacements = []struct {
	name string
	do   func(dir string) error // dir is DIR/NAME
}{
	{"lock deleted", func(dir string) error { return os.Remove(dir + "/lock") }},
	{"lock replaced", func(dir string) error {
		if err := os.WriteFile(dir+"/new", nil, 0o600); err != nil {
			return err
		}
		return os.Rename(dir+"/new", dir+"/lock")
	}},
	{"lock moved away", func(dir string) error { return os.Rename(dir+"/lock", dir+"/lock.old") }},
	{"directory deleted", os.RemoveAll},
	{"directory moved away", func(dir string) error { return os.Rename(dir, dir+".old") }},
	{"directory replaced", func(dir string) error {
		if err := os.Rename(dir, dir+".old"); err != nil {
			return err
		}
		return os.Mkdir(dir, 0o700)
	}},
	{"directory replaced by a copy", func(dir string) error {
		if err := os.Rename(dir, dir+".old"); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, name := range []string{"lock", "counter", "record"} {
			b, err := os.ReadFile(dir + ".old/" + name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(dir+"/"+name, b, 0o600); err != nil {
				return err
			}
		}
		return nil
	}},
	{"parent moved away", func(dir string) error { return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".old") }},
	{"lock replaced by a link", func(dir string) error {
		if err := os.Rename(dir+"/lock", dir+"/lock.old"); err != nil {
			return err
		}
		return os.Symlink("lock.old", dir+"/lock")
	}},
	{"directory replaced by a file", func(dir string) error {
		if err := os.Rename(dir, dir+".old"); err != nil {
			return err
		}
		return os.WriteFile(dir, nil, 0o600)
	}},
}

func TestReplacedUnderHolder(t *testing.T) {
	t.Parallel()
	for _, c := range replacements {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "elections")
			m := lead(t, elector(t, dir, "a"))
			start := time.Now()
			if err := c.do(filepath.Join(dir, "jobs")); err != nil {
				t.Fatal(err)
			}
			if err := m.Check(); !errors.Is(err, driver.ErrSuperseded) {
				t.Fatalf("Check: %v, want ErrSuperseded", err)
			}
			receive(t, m.Context().Done(), "the end of the mandate")
			t.Logf("%v; the context ended after %v", context.Cause(m.Context()), time.Since(start))
		})
	}
}

// TestWatcherNotices does not call Check: the mandate must end by itself.
func TestWatcherNotices(t *testing.T) {
	t.Parallel()
	for _, c := range replacements {
		t.Run(c.name, func(t *testing.T) {
			const tries = 5 // a busy machine may be late now and then; the watcher may not
			for try := range tries {
				dir := filepath.Join(t.TempDir(), "elections")
				m := lead(t, elector(t, dir, "a"))
				start := time.Now()
				if err := c.do(filepath.Join(dir, "jobs")); err != nil {
					t.Fatal(err)
				}
				receive(t, m.Context().Done(), "the end of the mandate")
				took := time.Since(start)
				if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrSuperseded) {
					t.Fatalf("%v, want ErrSuperseded", err)
				}
				t.Logf("the context ended after %v", took)
				if took <= time.Second {
					return
				}
				if try == tries-1 {
					t.Errorf("the context ended after %v, want 100 ms, and at most 1 s on a busy machine", took)
				}
			}
		})
	}
}

// TestReplacedLockWaitsForTheOldHolder: as long as the old holder has the
// directory, nobody else wins with a new lock file in it.
func TestReplacedLockWaitsForTheOldHolder(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	a := campaign(t, patient(t, dir, "a"))
	b := patient(t, dir, "b")
	if err := os.Remove(jobs + "/lock"); err != nil {
		t.Fatal(err)
	}
	won := stand(t.Context(), b)
	waiting(t, 1) // b has the new lock file and waits for the directory
	receive(t, a.Context().Done(), "the end of the old mandate")
	select {
	case v := <-won:
		t.Fatalf("b leads (%v, %v) and a has not released", v.m, v.err)
	case <-time.After(2 * HoldOff):
	}
	if a.Check() == nil {
		t.Fatal("a still believes that it leads")
	}
	release(t, a)
	v := receive(t, won, "the victory of b")
	if v.err != nil || v.m.Token() != 2 {
		t.Fatalf("%v, %v; want token 2", v.m, v.err)
	}
	if err := v.m.Check(); err != nil {
		t.Fatal(err)
	}
	release(t, v.m)
}

// TestReplacedDirectoryHoldsOff: the next leader of a new directory leads only
// well after the old one was told.
func TestReplacedDirectoryHoldsOff(t *testing.T) {
	t.Parallel()
	for _, c := range replacements {
		if !strings.HasPrefix(c.name, "directory") || strings.HasSuffix(c.name, "file") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			a := lead(t, patient(t, dir, "a"))
			b := patient(t, dir, "b")
			start := time.Now()
			if err := c.do(filepath.Join(dir, "jobs")); err != nil {
				t.Fatal(err)
			}
			v := receive(t, stand(t.Context(), b), "the victory of b")
			if v.err != nil {
				t.Fatal(v.err)
			}
			if took := time.Since(start); took < HoldOff {
				t.Errorf("b leads after %v, want at least %v", took, HoldOff)
			}
			if a.Context().Err() == nil {
				t.Error("b leads and a was not told")
			}
			release(t, a) // must not touch b's mandate
			if err := v.m.Check(); err != nil {
				t.Error(err)
			}
			lock, err := os.Open(filepath.Join(dir, "jobs", "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if err := tryFlock(int(lock.Fd())); err != unix.EWOULDBLOCK {
				t.Errorf("the lock of b is free after the release of a: %v", err)
			}
			release(t, v.m)
		})
	}
}

// TestExchangedDirectoryHoldsOff puts another directory in place in which the
// same election was held before, with its own good seal.
func TestExchangedDirectoryHoldsOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	e := patient(t, dir, "a")
	release(t, campaign(t, e))
	if err := os.Rename(jobs, jobs+".1"); err != nil {
		t.Fatal(err)
	}
	a := lead(t, e)
	if err := os.Rename(jobs, jobs+".2"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := os.Rename(jobs+".1", jobs); err != nil {
		t.Fatal(err)
	}
	b := lead(t, patient(t, dir, "b"))
	if took := time.Since(start); took < HoldOff {
		t.Errorf("b leads after %v, want at least %v", took, HoldOff)
	}
	if a.Context().Err() == nil {
		t.Error("b leads and a was not told")
	}
	_ = b
}

// TestUntouchedLockDoesNotHoldOff: the seal is intact after victories, crashes
// aside.
func TestUntouchedLockDoesNotHoldOff(t *testing.T) {
	dir := t.TempDir()
	e := elector(t, dir, "a")
	for range 5 {
		m := campaign(t, e)
		h, err := m.place.history()
		if err != nil || !h.intact || !h.used {
			t.Fatalf("%+v, %v; want an intact seal", h, err)
		}
		release(t, m)
	}
}

// TestWaiterMovesToTheNewLock: a candidate that waits for a lock file which is
// no longer in place does not wait for its holder.
func TestWaiterMovesToTheNewLock(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	a := lead(t, patient(t, dir, "a"))
	won := stand(t.Context(), patient(t, dir, "b"))
	waiting(t, 1)
	if err := os.Rename(jobs, jobs+".old"); err != nil {
		t.Fatal(err)
	}
	v := receive(t, won, "the victory of b, while a holds the old lock")
	if v.err != nil {
		t.Fatal(v.err)
	}
	if a.Check() == nil {
		t.Error("a still believes that it leads")
	}
	release(t, v.m)
}

func TestCounterMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	e := elector(t, dir, "a")
	release(t, campaign(t, e))
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"counter deleted", func() error { return os.Remove(jobs + "/counter") }},
		{"record deleted as well", func() error { return os.Remove(jobs + "/record") }},
		{"counter emptied", func() error { return os.WriteFile(jobs+"/counter", nil, 0o600) }},
		{"record put back", func() error {
			return os.WriteFile(jobs+"/record", []byte(`{"version":1,"id":"a","token":"1"}`), 0o600)
		}},
		{"lock emptied", func() error {
			if err := os.Remove(jobs + "/counter"); err != nil {
				return err
			}
			return os.Truncate(jobs+"/lock", 0)
		}},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		_, err := e.Campaign(t.Context(), driver.Candidacy{})
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "tokens could repeat; restore it, or raise the era above 0") {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	raised, err := New(dir, "jobs", "b", Config{Era: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := campaign(t, raised)
	if m.Token().Era() != 1 {
		t.Fatalf("token %v", m.Token())
	}
	release(t, m)
}

// TestCounterRolledBack: an older counter with the newer record beside it.
func TestCounterRolledBack(t *testing.T) {
	dir := t.TempDir()
	e := elector(t, dir, "a")
	name := filepath.Join(dir, "jobs", "counter")
	release(t, campaign(t, e))
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var last driver.Mandate
	for range 5 {
		last = campaign(t, e)
		release(t, last)
	}
	if err := os.WriteFile(name, old, 0o600); err != nil {
		t.Fatal(err)
	}
	m := campaign(t, e)
	if m.Token() <= last.Token() {
		t.Fatalf("token %v after %v", m.Token(), last.Token())
	}
	release(t, m)
}

// TestTornSeal: when the power fails, the first part of a seal may be on the disk.
// It costs a HoldOff, and tells of no era that a later one could be above.
func TestTornSeal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock := filepath.Join(dir, "jobs", lockName)
	first, err := New(dir, "jobs", "a", Config{Era: 12})
	if err != nil {
		t.Fatal(err)
	}
	last := campaign(t, first)
	release(t, last)
	seal, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, len(sealPrefix), len(sealPrefix) + 1, len(sealPrefix) + 2, len(sealPrefix) + 3, len(seal) - 1} {
		if err := os.WriteFile(lock, seal[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		m := campaign(t, first)
		if took := time.Since(begin); m.Token() <= last.Token() || took < HoldOff {
			t.Errorf("%q: token %v after %v, and %v; want it greater, and %v", seal[:n], m.Token(), last.Token(), took, HoldOff)
		}
		last = m
		release(t, m)
	}
	for _, name := range []string{"counter", "record"} {
		if err := os.Remove(filepath.Join(dir, "jobs", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(lock, seal[:len(sealPrefix)+1], 0o600); err != nil { // era=1
		t.Fatal(err)
	}
	if _, err := first.Campaign(t.Context(), driver.Candidacy{}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "tokens could repeat") {
		t.Errorf("without a counter: %v", err)
	}
}

func TestForeignLockFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/jobs", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func(lock string) error
	}{
		{"text", func(lock string) error { return os.WriteFile(lock, []byte("1234\n"), 0o600) }},
		{"link", func(lock string) error { return os.Symlink("/dev/null", lock) }},
		{"pipe", func(lock string) error { return unix.Mkfifo(lock, 0o600) }},
		{"second name", func(lock string) error {
			if err := os.WriteFile(dir+"/other", nil, 0o600); err != nil {
				return err
			}
			return os.Link(dir+"/other", lock)
		}},
		{"directory", func(lock string) error { return os.Mkdir(lock, 0o700) }},
	} {
		lock := filepath.Join(dir, "jobs", "lock")
		if err := c.do(lock); err != nil {
			t.Fatal(err)
		}
		_, err := elector(t, dir, "a").Campaign(t.Context(), driver.Candidacy{})
		if !driver.IsPermanent(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a permanent error", c.name, err)
		}
		t.Log(err)
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
}

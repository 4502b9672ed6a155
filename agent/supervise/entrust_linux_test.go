package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

// entrusted is what a mandate is told.
type entrusted struct {
	gone   func() bool
	ended  <-chan struct{}
	atOnce bool // what gone said when it was handed over
}

func (e *entrusted) take(gone func() bool, ended <-chan struct{}) {
	e.gone, e.ended, e.atOnce = gone, ended, gone()
}

func (e *entrusted) over() bool {
	select {
	case <-e.ended:
		return e.gone()
	default:
		return false
	}
}

// A command may be over before Start returns, and its lock somebody else's: the
// mandate must know by then whom to ask.
func TestEntrustComesFirst(t *testing.T) {
	var e entrusted
	c := shell("exit 0")
	c = c.With(supervise.Held{Entrust: e.take})
	f := start(t, c)
	if e.gone == nil || e.atOnce {
		t.Fatalf("entrusted %v, gone at once %v; want it before the keeper can let go", e.gone != nil, e.atOnce)
	}
	wait(t, f)
	if !e.over() {
		t.Error("the family is dead, and the mandate is not told")
	}
}

func TestEntrustAndFailedStart(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("\x7fELF, or not"), 0o700); err != nil {
		t.Fatal(err)
	}
	var e entrusted
	_, err := supervise.Start(context.Background(), supervise.Command{Path: garbage}.With(supervise.Held{Entrust: e.take}))
	if refused, ok := errors.AsType[*supervise.StartError](err); !ok || refused.ExitCode() != 126 {
		t.Fatalf("Start returned %v; want a StartError with 126", err)
	}
	if !e.over() {
		t.Error("nothing runs, and the mandate is not told")
	}
}

// hold opens a file as a lock would be.
func hold(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestReplacedLock(t *testing.T) {
	for what, do := range map[string]func(dir string) error{
		"deleted":             func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"moved":               func(dir string) error { return os.Rename(filepath.Join(dir, "lock"), filepath.Join(dir, "old")) },
		"replaced":            func(dir string) error { return os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "lock")) },
		"directory moved":     func(dir string) error { return os.Rename(dir, dir+".old") },
		"directory exchanged": func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "election")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"lock", "other"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := shell("trap '' TERM; sleep 100")
			c = c.With(supervise.Held{Hold: []*os.File{hold(t, filepath.Join(dir, "lock")), hold(t, dir)}})
			f := start(t, c)
			select { // beyond its first look, at the start
			case <-f.Done():
				t.Fatalf("%v although its lock is in place", f.Wait())
			case <-time.After(120 * time.Millisecond):
			}
			at := clock.Now()
			if err := do(dir); err != nil {
				t.Fatal(err)
			}
			exit := wait(t, f)
			if exit.Reason != supervise.Replaced || exit.Signal != syscall.SIGKILL {
				t.Errorf("%v; want killed because the lock was taken away", exit)
			}
			t.Logf("dead after %v", clock.Now().Sub(at))
		})
	}
}

// A file whose name leads nowhere in particular is held and not looked for.
func TestNamelessLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := shell("sleep 0.3")
	lock := os.NewFile(uintptr(fd), "lock")
	defer lock.Close()
	c = c.With(supervise.Held{Hold: []*os.File{lock}})
	if exit := wait(t, start(t, c)); exit != (supervise.Exit{Reason: supervise.Exited}) {
		t.Errorf("%v; want it left alone", exit)
	}
}

func TestLease(t *testing.T) {
	// run starts a command with a lease, a longer one if a busy machine has not started it in time.
	run := func(t *testing.T, of func(end clock.Boot) func() (time.Duration, bool)) {
		for lease := 400 * time.Millisecond; ; lease *= 2 {
			end := clock.Now().Add(lease)
			f, err := supervise.Start(t.Context(), shell("sleep 100").With(supervise.Held{Lease: of(end)}))
			if errors.Is(err, driver.ErrExpired) && lease < patience {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			expires(t, f, end)
			return
		}
	}
	t.Run("runs out", func(t *testing.T) {
		run(t, func(end clock.Boot) func() (time.Duration, bool) {
			return func() (time.Duration, bool) { return max(end.Sub(clock.Now()), 0), true }
		})
	})
	t.Run("told at the start only", func(t *testing.T) {
		run(t, func(end clock.Boot) func() (time.Duration, bool) {
			asked := false
			return func() (time.Duration, bool) {
				if asked {
					return 0, true // as a term that has ended says
				}
				asked = true
				return end.Sub(clock.Now()), true
			}
		})
	})
	t.Run("renewed", func(t *testing.T) {
		c := shell("sleep 1")
		c = c.With(supervise.Held{Lease: func() (time.Duration, bool) { return patience, true }})
		if exit := wait(t, start(t, c)); exit != (supervise.Exit{Reason: supervise.Exited}) {
			t.Errorf("%v; want a good end", exit)
		}
	})
	t.Run("unbounded", func(t *testing.T) {
		c := shell("exit 3")
		c = c.With(supervise.Held{Lease: func() (time.Duration, bool) { return 0, false }})
		if exit := wait(t, start(t, c)); exit != (supervise.Exit{Reason: supervise.Exited, Code: 3}) {
			t.Errorf("%v; want exit status 3", exit)
		}
	})
}

// expires asserts that a family is killed by its deadline and not long before.
func expires(t *testing.T, f *supervise.Family, end clock.Boot) {
	t.Helper()
	exit := wait(t, f)
	now := clock.Now()
	if exit.Reason != supervise.Expired {
		t.Errorf("%v; want it killed by the deadline", exit)
	}
	if early := end.Sub(now); early > 100*time.Millisecond {
		t.Errorf("dead %v before the end of the lease", early)
	}
	t.Logf("dead %v before the end of the lease", end.Sub(now))
}

// The daemon that a container's entry point started before it became elect by
// exec is no part of the family.
func TestInnocentChildIsSpared(t *testing.T) {
	cmd := exec.Command(program(t))
	cmd.Env = partEnv("innocent")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != "innocent alive, family dead" {
		t.Errorf("%s", got)
	}
}

// innocent has a child of its own, and loses the keeper of a family.
func innocent([]string) {
	sleep, err := exec.LookPath("sleep")
	check(err)
	other, err := os.StartProcess(sleep, []string{"sleep", "100"}, &os.ProcAttr{})
	check(err)
	defer func() { check(other.Kill()) }()
	check(supervise.AdoptOrphans())
	f, err := supervise.Start(context.Background(), shell("setsid sleep 100 & sleep 100"))
	check(err)
	f.KillKeeper()
	f.Wait()
	mine := supervise.Descendants(os.Getpid(), false)
	if len(mine) == 1 && mine[0] == other.Pid && alive(other.Pid) {
		fmt.Println("innocent alive, family dead")
	} else {
		fmt.Println("left:", mine)
	}
}

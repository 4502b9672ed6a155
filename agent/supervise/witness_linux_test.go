package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// testify is the witness of all keepers of these tests. The testament is its
// manner, the file that it writes to, and the file that its writer had locked.
func testify(ctx context.Context, testament []byte) (func(context.Context) error, error) {
	manner, rest, _ := strings.Cut(string(testament), "|")
	path, lock, _ := strings.Cut(rest, "|")
	say := func(format string, args ...any) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = fmt.Fprintf(f, format+"\n", args...)
		return err
	}
	switch manner {
	case "refuses":
		return nil, errors.New("no peer answers,\nnone at all")
	case "panics":
		panic("cannot bear it")
	case "hangs":
		_ = say("hangs")
		<-ctx.Done()
		return nil, ctx.Err()
	}
	speak := func(ctx context.Context) error {
		now := clock.Now()
		f, err := os.Open(lock)
		if err != nil {
			return err
		}
		defer f.Close()
		held := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
		if err := unlocked(ctx, bareOf(lock)); err != nil {
			return err
		}
		switch manner {
		case "fails":
			return errors.New("nobody listened")
		case "panics-late":
			panic("cannot bear it")
		case "deaf":
			_ = say("speaks at %d held %t", now, held)
			select {}
		}
		return say("speaks at %d held %t", now, held)
	}
	return speak, say("prepared")
}

// bareOf is the file that a program keeps locked for a leadership without a testament, if it has one.
func bareOf(lock string) string { return filepath.Join(filepath.Dir(lock), "bare") }

// unlocked waits until a file is not locked, or there is none.
func unlocked(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// testament is what a parent leaves, and where its witness writes.
type testament struct {
	t           testing.TB
	heard, lock string
	most        int // how many may speak; 0 is 1
}

func newTestament(t testing.TB) *testament {
	dir := openDir(t)
	w := &testament{t: t, heard: filepath.Join(dir, "heard"), lock: filepath.Join(dir, "lock")}
	if err := os.WriteFile(w.lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *testament) args(manner string) []string {
	return []string{"adopt=yes", "keep=" + w.lock, "testament=" + w.text(manner)}
}

func (w *testament) text(manner string) string { return manner + "|" + w.heard + "|" + w.lock }

// line returns the first line that begins so, once it is there.
func (w *testament) line(prefix string) (line string) {
	w.t.Helper()
	eventually(w.t, "the witness says: "+prefix, func() bool {
		line = w.has(prefix)
		return line != ""
	})
	return line
}

func (w *testament) has(prefix string) string {
	text, _ := os.ReadFile(w.heard)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// spoke returns when the witness spoke, and checks that it did so once, or w.most times, while
// nobody else could have the lock.
func (w *testament) spoke() clock.Boot {
	w.t.Helper()
	var at int64
	var held bool
	if _, err := fmt.Sscanf(w.line("speaks"), "speaks at %d held %t", &at, &held); err != nil {
		w.t.Fatal(err)
	}
	if !held {
		w.t.Error("another could have had the lock when the witness spoke")
	}
	eventually(w.t, "the lock is free once the keeper has gone", func() bool { return free(w.t, w.lock) })
	if text, _ := os.ReadFile(w.heard); strings.Count(string(text), "speaks") > max(w.most, 1) {
		w.t.Errorf("the witnesses said:\n%s", text)
	}
	return clock.Boot(at)
}

// silent checks that nobody has spoken although the keeper has gone.
func (w *testament) silent(keeper int) {
	w.t.Helper()
	eventually(w.t, "the keeper has gone", func() bool { return !alive(keeper) })
	if line := w.has("speaks"); line != "" {
		w.t.Errorf("the witness %s", line)
	}
}

// dead checks that no member of the family was alive after at.
func (s *scene) dead(at clock.Boot) {
	s.t.Helper()
	for n := range s.board.Members {
		if last := clock.Boot(s.board.Members[n].Alive.Load()); last > at {
			s.t.Errorf("member %d was alive %v after the witness spoke", n, last.Sub(at))
		}
	}
	for _, pid := range s.pids {
		if alive(pid) {
			s.t.Errorf("process %d of the family is alive", pid)
		}
	}
}

func TestWitness(t *testing.T) {
	for _, command := range []string{"hostile", "tree", "forkloop"} {
		t.Run("parent killed, "+command, func(t *testing.T) {
			w := newTestament(t)
			s := newScene(t, command, nil, w.args("speaks")...)
			w.line("prepared")
			since := s.kill(s.parent, syscall.SIGKILL)
			at := w.spoke()
			s.dead(at)
			t.Logf("spoken after %v", at.Sub(since))
		})
	}
	t.Run("parent killed, and back", func(t *testing.T) {
		w := newTestament(t)
		s := newScene(t, "hostile", nil, w.args("speaks")...)
		w.line("prepared")
		s.kill(s.parent, syscall.SIGKILL)
		s.dead(w.spoke())
		// The next life has the lock, a family of its own, and a witness of its own.
		next := &testament{t: t, heard: w.heard + "-next", lock: w.lock}
		again := newScene(t, "hostile", nil, next.args("speaks")...)
		next.line("prepared")
		for _, pid := range again.pids {
			if !alive(pid) {
				t.Errorf("process %d of the next life is dead", pid)
			}
		}
		if free(t, w.lock) {
			t.Error("the next life has not got the lock")
		}
		if line := next.has("speaks"); line != "" {
			t.Errorf("the witness of the next life, which lives, %s", line)
		}
		again.kill(again.parent, syscall.SIGKILL)
		again.dead(next.spoke())
		w.spoke() // once, as before
	})
	t.Run("parent killed after the command", func(t *testing.T) {
		w := newTestament(t)
		s := newScene(t, "hostile", nil, w.args("speaks")...)
		w.line("prepared")
		s.freeze(s.parent) // so that it cannot wake the keeper up
		s.kill(s.keeper(), syscall.SIGSTOP)
		s.kill(s.pids[0], syscall.SIGKILL)
		s.kill(s.parent, syscall.SIGKILL)
		s.kill(s.keeper(), syscall.SIGCONT)
		s.dead(w.spoke())
	})
	t.Run("parent and family killed together", func(t *testing.T) {
		for range 15 { // the family is dead before the parent, as a rule
			w := newTestament(t)
			s := newScene(t, "hostile", nil, w.args("speaks")...)
			w.line("prepared")
			s.kill(s.parent, syscall.SIGKILL)
			for _, pid := range s.pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // if the keeper has not done so
			}
			s.dead(w.spoke())
		}
	})
	t.Run("parent alive", func(t *testing.T) {
		w := newTestament(t)
		s := newScene(t, "hostile", nil, w.args("speaks")...)
		w.line("prepared")
		s.kill(s.pids[0], syscall.SIGKILL)
		s.wantExit(supervise.Exited, 128+9)
		w.silent(s.keeper())
		if err := s.wait(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("parent frozen", func(t *testing.T) {
		w := newTestament(t)
		s := newScene(t, "hostile", nil, append(w.args("speaks"), "deadline=2s")...)
		w.line("prepared")
		s.arm()
		s.freeze(s.parent)
		s.kill(s.keeper(), syscall.SIGCONT)
		// The keeper stays a zombie as long as the parent does not run.
		w.silent(s.keeper())
		s.dead(clock.Now())
		if free(t, w.lock) {
			t.Error("another could have the frozen parent's lock")
		}
		s.kill(s.parent, syscall.SIGCONT)
		s.wantExit(supervise.Expired, 128+9)
	})
	t.Run("two families", func(t *testing.T) {
		for range 5 { // the smaller one is dead first, as a rule
			w := newTestament(t)
			w.most = 2 // one after the other
			s := newScene(t, "hostile", nil, append(w.args("speaks"), "second=7")...)
			w.line("prepared")
			eventually(t, "the second family lives", func() bool { return s.board.Members[7].Alive.Load() != 0 })
			s.kill(s.parent, syscall.SIGKILL)
			s.dead(w.spoke())
		}
	})
	t.Run("another holder of the lock ends later", func(t *testing.T) {
		w := newTestament(t)
		s := newScene(t, "hostile", nil, w.args("speaks")...)
		w.line("prepared")
		other := holder(t, s.parent, w.lock)
		s.kill(s.parent, syscall.SIGKILL)
		eventually(t, "the family is dead", func() bool { return !slices.ContainsFunc(s.pids, alive) })
		time.Sleep(100 * time.Millisecond) // a witness that tries once has done so
		unix.Close(other)
		s.dead(w.spoke())
	})
}

// holder returns a descriptor of the open file that a process has at a path, as a keeper of another family of it would
// have.
func holder(t *testing.T, pid int, path string) int {
	t.Helper()
	of, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(of)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if at, _ := os.Readlink(link); at != path {
			continue
		}
		n, _ := strconv.Atoi(filepath.Base(link))
		fd, err := unix.PidfdGetfd(of, n, 0)
		if errors.Is(err, unix.EPERM) {
			t.Skipf("another process's file cannot be had: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	t.Fatalf("process %d does not have %s open", pid, path)
	return -1
}

// TestWitnessInTrouble has witnesses of all the wrong manners: the family must
// die as ever, and the keeper must be gone soon after.
func TestWitnessInTrouble(t *testing.T) {
	for manner, says := range map[string]string{
		"refuses": "cannot prepare itself: no peer answers, none at all", "panics": "cannot prepare itself: panic: cannot bear it",
		"hangs": "not prepared in time", "fails": "not heard: nobody listened", "panics-late": "not heard: panic: cannot bear it", "deaf": "",
	} {
		t.Run(manner, func(t *testing.T) {
			w := newTestament(t)
			stderr, err := os.OpenFile(filepath.Join(filepath.Dir(w.heard), "stderr"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			s := newSceneWith(t, stderr, "tree", nil, w.args(manner)...)
			had := s.compete()
			since := s.kill(s.parent, syscall.SIGKILL)
			s.settle(since, had)
			eventually(t, "the lock is free", func() bool { return free(t, w.lock) })
			const most = 3 * time.Second // one is promised; this is for a busy machine
			if took := clock.Now().Sub(since); took > most {
				t.Errorf("the keeper was there for %v more, want at most %v", took, most)
			}
			text, _ := os.ReadFile(stderr.Name())
			if !strings.Contains(string(text), says) || strings.Count(string(text), "\n") > 1 {
				t.Errorf("on stderr: %q, want %q", text, says)
			}
		})
	}
}

func TestTestamentErrors(t *testing.T) {
	lock := flocked(t)
	for _, c := range []struct {
		held supervise.Held
		says string
	}{
		{supervise.Held{Testament: []byte("x")}, "without a file to keep"},
		{supervise.Held{Keep: []*os.File{nil}}, "nil file"},
		{supervise.Held{Keep: []*os.File{lock}, Testament: make([]byte, 2<<20)}, "1048576"},
		{supervise.Held{Keep: make([]*os.File, 100)}, ""},
	} {
		if _, err := supervise.Start(t.Context(), supervise.Command{Path: "/bin/true"}.With(c.held)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// TestKeep has a file kept by the family, and left alone at its end.
func TestKeep(t *testing.T) {
	lock := flocked(t)
	cmd := shell("ls -l /proc/self/fd; rm " + lock.Name() + "; sleep 0.2") // nobody looks for it
	out, lines := listen(t)
	cmd.Stdout = out
	cmd = cmd.With(supervise.Held{Keep: []*os.File{lock}})
	f := start(t, cmd)
	if exit := wait(t, f); exit != (supervise.Exit{Reason: supervise.Exited}) {
		t.Errorf("%v, want a good end", exit)
	}
	out.Close()
	kept := false
	for lines.Scan() {
		if at, to, ok := strings.Cut(lines.Text(), " -> "); ok && to == lock.Name() {
			fd, _ := strconv.Atoi(at[strings.LastIndexByte(at, ' ')+1:])
			kept = fd >= 200
		}
	}
	if !kept {
		t.Error("the command has not got the file")
	}
	path := fmt.Sprintf("/proc/self/fd/%d", lock.Fd())
	if free(t, path) {
		t.Error("the lock was let go")
	}
}

// TestTestamentIsPrivate: a testament may hold credentials, so neither the keeper nor the command has it in its
// arguments or environment.
func TestTestamentIsPrivate(t *testing.T) {
	w := newTestament(t)
	s := newScene(t, "hostile", nil, w.args("speaks")...)
	w.line("prepared")
	for _, pid := range append(slices.Clone(s.pids), s.keeper()) {
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), w.text("speaks")) {
				t.Errorf("process %d has the testament in its %s", pid, file)
			}
		}
	}
	s.kill(s.parent, syscall.SIGKILL)
	s.dead(w.spoke())
}

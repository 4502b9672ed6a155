//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
)

func TestResign(t *testing.T) {
	dir := t.TempDir()
	o := elector(t, dir, "o")
	if err := o.Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
		t.Fatalf("no directory: %v, want ErrNoLeader", err)
	}
	for _, token := range []fence.Token{0, 2} {
		m := campaign(t, elector(t, dir, "a"))
		if err := o.Resign(t.Context(), m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
			t.Fatalf("wrong token: %v, want ErrSuperseded", err)
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		if err := o.Resign(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if err := m.Check(); !errors.Is(err, driver.ErrResigned) {
			t.Fatalf("Check: %v, want ErrResigned", err)
		}
		receive(t, m.Context().Done(), "the end of the mandate")
		release(t, m)
		if err := o.Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
			t.Fatalf("after release: %v, want ErrNoLeader", err)
		}
	}
}

func TestResignInDeepDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the address of a socket is short")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	m := lead(t, elector(t, dir, "a"))
	if err := elector(t, dir, "o").Resign(t.Context(), m.Token()); err != nil {
		t.Fatal(err)
	}
}

func TestResignUnresponsiveLeader(t *testing.T) {
	dir := t.TempDir()
	m := lead(t, elector(t, dir, "a"))
	m.control.close()
	err := elector(t, dir, "o").Resign(t.Context(), 0)
	if err == nil || errors.Is(err, driver.ErrNoLeader) || !strings.Contains(err.Error(), "a leads with token 1 and does not answer") {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if err := elector(t, dir, "o").Resign(ctx, 0); err != reason {
		t.Fatalf("got %v, want the cause of the context", err)
	}
}

func TestControlRefuses(t *testing.T) {
	dir := t.TempDir()
	m := lead(t, elector(t, dir, "a"))
	for _, c := range []struct{ say, want string }{
		{"\n", "JSON"},
		{"{}\n", "unknown verb"},
		{`{"verb":"dance"}` + "\n", "unknown verb"},
		{`{"verb":"resign","token":"x"}` + "\n", "JSON"},
		{`{"verb":"resign","token":"7"}` + "\n", errorSuperseded},
		{strings.Repeat("x", maxControl), "more than"},
	} {
		conn, err := net.Dial("unix", socketPath(m.place.dir, m.place.path, controlName))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, c.say); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(b), c.want) || strings.Contains(string(b), `"ok":true`) {
			t.Errorf("%.40q: %s, %v; want %q", c.say, b, err, c.want)
		}
		_ = conn.Close()
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestSilentCallersDoNotDelayRelease: callers that connect and say nothing.
func TestSilentCallersDoNotDelayRelease(t *testing.T) {
	dir := t.TempDir()
	m := campaign(t, elector(t, dir, "a"))
	for range 3 * maxCallers {
		conn, err := net.Dial("unix", socketPath(m.place.dir, m.place.path, controlName))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	start := time.Now()
	release(t, m)
	if took := time.Since(start); took > controlTimeout/2 {
		t.Errorf("Release took %v", took)
	}
}

// TestReadableDirectory: a process that can open a directory can lock it, and so keep
// every candidate out. The mode is the owner's choice: it is told, and stays.
func TestReadableDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode os.FileMode
		told bool
	}{{0o755, true}, {0o777, true}, {0o777 | os.ModeSticky, true}, {0o700, false}} {
		dir := t.TempDir()
		jobs := filepath.Join(dir, "jobs")
		if err := os.Mkdir(jobs, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(jobs, c.mode); err != nil {
			t.Fatal(err)
		}
		var log harness.Buffer
		lead(t, shared(t, dir, &log))
		if st, err := os.Stat(jobs); err != nil || st.Mode() != c.mode|os.ModeDir {
			t.Errorf("a directory with mode %v was left with %v, %v", c.mode, st.Mode(), err)
		}
		if told := strings.Contains(log.String(), "every user can block this election"); told != c.told {
			t.Errorf("a directory with mode %v: told %v; want %v: %s", c.mode, told, c.told, log.String())
		}
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct{ dir, want os.FileMode }{{0o700, 0o600}, {0o770, 0o660}} {
		dir := t.TempDir()
		jobs := filepath.Join(dir, "jobs")
		if err := os.Mkdir(jobs, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(jobs, c.dir); err != nil {
			t.Fatal(err)
		}
		lead(t, shared(t, dir, io.Discard))
		for _, name := range []string{"lock", "counter", "record", "control"} {
			st, err := os.Stat(filepath.Join(jobs, name))
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode().Perm() != c.want {
				t.Errorf("%s has mode %v in a directory with %v, want %v", name, st.Mode().Perm(), c.dir, c.want)
			}
		}
	}
}

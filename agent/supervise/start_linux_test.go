package supervise_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// shell returns a command that runs a script.
func shell(script string) supervise.Command {
	return supervise.Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stderr: os.Stderr, Containment: levelOfEnv()}
}

// start starts a command that the test expects to start, and ends it with the
// test.
func start(t testing.TB, c supervise.Command) *supervise.Family {
	t.Helper()
	f, err := supervise.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Kill()
		wait(t, f)
	})
	return f
}

// wait returns how the family ended, which it is about to.
func wait(t testing.TB, f *supervise.Family) supervise.Exit {
	t.Helper()
	select {
	case <-f.Done():
		return f.Wait()
	case <-time.After(patience):
		t.Fatalf("command %d and keeper %d do not end", f.PID(), f.Keeper())
		panic("not reached")
	}
}

// listen returns what a command can write to, and its lines.
func listen(t testing.TB) (*os.File, *bufio.Scanner) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := r.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	return w, s
}

func expect(t testing.TB, s *bufio.Scanner, want string) {
	t.Helper()
	for s.Scan() {
		if s.Text() == want {
			return
		}
	}
	t.Fatalf("line %q never came: %v", want, s.Err())
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		script string
		want   supervise.Exit
	}{
		{"exit 0", supervise.Exit{Reason: supervise.Exited}},
		{"exit 3", supervise.Exit{Reason: supervise.Exited, Code: 3}},
		{"kill -SEGV $$", supervise.Exit{Reason: supervise.Exited, Code: -1, Signal: syscall.SIGSEGV}},
		{"sleep 100 & exit 4", supervise.Exit{Reason: supervise.Exited, Code: 4}},
	} {
		f := start(t, shell(c.script))
		if got := wait(t, f); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.script, got, c.want)
		}
		select {
		case <-f.Exited():
		default:
			t.Error("Exited is not closed after Done")
		}
		if !f.Gone() {
			t.Error("not gone after Done")
		}
		if err := f.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Signal after Done: %v", err)
		}
		f.Deadline(clock.Now())
		f.Kill()
		if got := f.Stop(t.Context()); got != c.want {
			t.Errorf("Stop after Done: %+v", got)
		}
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	file("plain", "x", 0o644)
	for _, c := range []struct {
		name string
		cmd  supervise.Command
		code int
		text string
	}{
		{"not found", supervise.Command{Path: filepath.Join(dir, "nothing")}, 127, "command not found"},
		{"not found in PATH", supervise.Command{Path: "no-such-command"}, 127, "no-such-command: command not found"},
		{"not executable", supervise.Command{Path: file("data", "x", 0o644)}, 126, "not executable"},
		{"not executable in PATH", supervise.Command{Path: "plain"}, 126, "not executable"},
		{"a directory", supervise.Command{Path: dir}, 126, "not executable"},
		{"no format", supervise.Command{Path: file("text", "echo hello\n", 0o755)}, 126, "first line"},
		{"no interpreter", supervise.Command{Path: file("script", "#!/no/such/shell\n", 0o755)}, 127, "interpreter"},
		{"not a directory on the way", supervise.Command{Path: filepath.Join(dir, "data", "x")}, 126, "not a directory"},
		{"no directory to start in", supervise.Command{Path: "/bin/true", Dir: filepath.Join(dir, "nowhere")}, 126, "nowhere"},
		{"too long", supervise.Command{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 8<<20)}}, 126, "too long"},
		{"longer than a frame", supervise.Command{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 32<<20)}}, 126, "too long"},
		{"zero byte", supervise.Command{Path: "/bin/true", Args: []string{"true", "a\x00b"}}, 126, "zero byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lock := flocked(t)
			c.cmd = c.cmd.With(supervise.Held{Hold: []*os.File{lock}})
			_, err := supervise.Start(t.Context(), c.cmd)
			failed, ok := errors.AsType[*supervise.StartError](err)
			if !ok || failed.ExitCode() != c.code || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %d and %q", err, c.code, c.text)
			}
			if free(t, lock.Name()) {
				t.Error("the lock was let go")
			}
		})
	}
	for _, c := range []supervise.Command{
		{}, {Path: "/bin/true", Grace: -1}, supervise.Command{Path: "/bin/true"}.With(supervise.Held{Hold: []*os.File{nil}}),
	} {
		if _, err := supervise.Start(t.Context(), c); err == nil {
			t.Errorf("%+v was started", c)
		}
	}
}

// flocked returns a file with a lock.
func flocked(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return f
}

// free reports whether another could have the lock.
func free(t testing.TB, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
}

func TestStartCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	cancel(why)
	lock := flocked(t)
	c := shell("sleep 100")
	c = c.With(supervise.Held{Hold: []*os.File{lock}})
	_, err := supervise.Start(ctx, c)
	if !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	if free(t, lock.Name()) {
		t.Error("the lock was let go")
	}
	// At any moment of the start.
	for after := time.Duration(0); after < 6*time.Millisecond; after += 200 * time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		f, err := supervise.Start(ctx, c)
		cancel()
		if err == nil {
			f.Kill()
			wait(t, f)
			if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		} else if free(t, lock.Name()) {
			t.Error("the lock was let go")
		}
	}
	if left := supervise.Descendants(os.Getpid(), false); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestWhatTheCommandFinds(t *testing.T) {
	dir := t.TempDir()
	out, lines := listen(t)
	lock := flocked(t)
	passed, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // inherited, as from a shell's redirection: not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(passed)
	exe := executable(t)
	long := strings.Repeat("x", 100_000) // one argument may have 128 KiB
	args, env := []string{exe}, partEnv("inspect")
	for n := range 10 {
		args = append(args, long)
		env = append(env, fmt.Sprintf("LONG%d=%s", n, long))
	}
	f := start(t, supervise.Command{Path: exe, Args: args, Env: env, Dir: dir, Stdout: out, Stderr: os.Stderr, Containment: levelOfEnv()}.With(supervise.Held{Hold: []*os.File{lock}}))
	if exit := wait(t, f); exit.ExitCode() != 0 {
		t.Fatal(exit)
	}
	out.Close()
	own := ownInheritable(t)
	var locks int
	found := map[string]string{}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != "fd" {
			found[name] = value
			if key, mask, ok := strings.Cut(value, ":\t"); name == "status" && ok {
				found[key] = mask
			}
			continue
		}
		number, to, _ := strings.Cut(value, " ")
		fd, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case fd <= 2:
		case to == lock.Name():
			locks++
			if fd < 200 {
				t.Errorf("the lock is descriptor %d", fd)
			}
		case own[fd] == to:
			delete(own, fd)
		default:
			t.Errorf("descriptor %d, %s, is none of the command's business", fd, to)
		}
	}
	if locks != 1 {
		t.Errorf("the lock is there %d times", locks)
	}
	if len(own) != 0 {
		t.Errorf("inherited descriptors were not passed on: %v", own)
	}
	size := 0
	for _, kv := range env {
		size += len(kv)
	}
	for key, want := range map[string]string{
		"dir": dir, "leader": "true",
		"args":   fmt.Sprintf("%d %d", len(args), len(strings.Join(args, ""))),
		"env":    fmt.Sprint(size),
		"SigBlk": strings.Repeat("0", 16), "SigIgn": ignored(t),
	} {
		if found[key] != want {
			t.Errorf("%s is %q, want %q", key, found[key], want)
		}
	}
}

// ignored are the signals that this process was told to ignore before it began, as
// nohup does with SIGHUP: a command keeps them.
func ignored(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	own, _, _ := strings.Cut(rest, "\n")
	return own
}

// ownInheritable lists what exec passes on.
func ownInheritable(t *testing.T) map[int]string {
	own := map[int]string{}
	for fd := 3; fd < 1024; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil {
				t.Fatal(err)
			}
			own[fd] = to
		}
	}
	if len(own) == 0 {
		t.Fatal("nothing to pass on")
	}
	return own
}

func TestIgnoredHangupStaysIgnored(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0" /bin/grep ^SigIgn /proc/self/status`, program(t))
	cmd.Env = partEnv("run")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != "SigIgn:\t0000000000000001" {
		t.Errorf("%q, want SIGHUP alone", got)
	}
}

func TestOldLimitOfFiles(t *testing.T) {
	exe := program(t)
	for _, limit := range []string{"40", "256"} {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -n "$1"; exec "$0" /bin/sh -c 'ulimit -n; echo hello'`, exe, limit)
		cmd.Env = partEnv("run")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil || string(out) != limit+"\nhello\n" {
			t.Errorf("%v, %q", err, out)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn 100; exec "$0" /bin/sh -c 'ulimit -n'`, exe)
	cmd.Env = partEnv("run")
	if out, err := cmd.Output(); err != nil || string(out) != "100\n" {
		t.Errorf("the soft limit of 100 became %q, %v", out, err)
	}
}

func TestStandardFiles(t *testing.T) {
	f := start(t, supervise.Command{Path: "cat"}) // /dev/null
	if exit := wait(t, f); exit.ExitCode() != 0 {
		t.Error(exit)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out, lines := listen(t)
	f = start(t, supervise.Command{Path: "cat", Stdin: r, Stdout: out})
	r.Close()
	out.Close()
	if _, err := io.WriteString(w, "hello\n"); err != nil {
		t.Fatal(err)
	}
	expect(t, lines, "hello")
	w.Close()
	if lines.Scan() || lines.Err() != nil { // its end: nobody else holds it open
		t.Errorf("more: %q, %v", lines.Text(), lines.Err())
	}
	if exit := wait(t, f); exit.ExitCode() != 0 {
		t.Error(exit)
	}
}

func TestKeeperByHand(t *testing.T) {
	for _, args := range [][]string{{"elect-keeper", "x"}, {"elect-keeper", "200"}, {"elect-keeper", "-1"}, {"elect-keeper", "0"}} {
		cmd := exec.Cmd{Path: program(t), Args: args}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), "not to be started by hand") {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
}

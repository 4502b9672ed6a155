//go:build linux || darwin || freebsd

package file

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/harness"
)

// patience bounds what a test waits for. It is far beyond what anything takes on
// a busy machine.
const patience = 30 * time.Second

// helperEnv makes the test's own program a candidate: its value is the
// directory. It prints its token when it leads and ends when its input does.
// With helperVerbEnv it prints the first state that it observes, and ends.
const (
	helperEnv     = "ELECT_FILE_TEST_HELPER"
	helperVerbEnv = "ELECT_FILE_TEST_VERB"
)

func TestMain(m *testing.M) {
	electtest.Serve(map[string]driver.Opener{"file": Open})
	if dir := os.Getenv(helperEnv); dir != "" {
		if err := help(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func help(dir string) error {
	e, err := New(dir, "jobs", "helper", Config{})
	if err != nil {
		return err
	}
	if os.Getenv(helperVerbEnv) == "observe" {
		for s, err := range e.Watch(context.Background()) {
			if s.Stale && s.Leader == nil {
				fmt.Print("stale, nobody: ")
			}
			fmt.Println(s.Cause, err)
			return err
		}
	}
	m, err := e.Campaign(context.Background(), driver.Candidacy{})
	if err != nil {
		return err
	}
	fmt.Println("token:", m.Token())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return m.Release(context.Background())
}

// helper starts a candidate process, and returns it with its first line.
func helper(t *testing.T, dir string, adjust func(*exec.Cmd)) (*exec.Cmd, io.Closer, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	if adjust != nil {
		adjust(cmd)
	}
	stdin, stdout := harness.Start(t, cmd)
	t.Cleanup(func() { harness.End(cmd) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("helper: %v", err)
	}
	return cmd, stdin, strings.TrimSpace(line)
}

// elector is a participant that waits for a hundredth of HoldOff with a new lock. It is for tests of other things.
func elector(t testing.TB, dir, id string) *Elector {
	t.Helper()
	e := patient(t, dir, id)
	e.settles = HoldOff / 100
	return e
}

// patient is a participant as users have it, which waits for HoldOff.
func patient(t testing.TB, dir, id string) *Elector {
	t.Helper()
	e, err := New(dir, "jobs", id, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// shared is an elector for a place that others can write to, which root refuses
// otherwise. It logs to w.
func shared(t testing.TB, dir string, w io.Writer) *Elector {
	t.Helper()
	e, err := New(dir, "jobs", "shared", Config{SharedPlace: true, Logger: slog.New(slog.NewTextHandler(w, nil))})
	if err != nil {
		t.Fatal(err)
	}
	e.settles = HoldOff / 100
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func campaign(t testing.TB, e *Elector) *mandate {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatalf("%s: %v", e.id, err)
	}
	return m.(*mandate)
}

func release(t testing.TB, m driver.Mandate) {
	t.Helper()
	if err := m.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// lead campaigns and releases at the end of the test.
func lead(t testing.TB, e *Elector) *mandate {
	t.Helper()
	m := campaign(t, e)
	t.Cleanup(func() { _ = m.Release(context.Background()) })
	return m
}

type victory struct {
	m   *mandate
	err error
}

// stand campaigns in the background.
func stand(ctx context.Context, e *Elector) <-chan victory {
	won := make(chan victory, 1)
	go func() {
		m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
		v := victory{err: err}
		if err == nil {
			v.m = m.(*mandate)
		}
		won <- v
	}()
	return won
}

func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func count(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// resources returns how many descriptors, threads and goroutines there are.
func resources(t testing.TB) (fds, threads, goroutines int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	return count(t, "/proc/self/fd"), count(t, "/proc/self/task"), runtime.NumGoroutine()
}

// waiting waits until n threads of this process wait in flock.
func waiting(t testing.TB, n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc/locks")
	}
	harness.Eventually(t, fmt.Sprintf("%d threads wait in flock", n), func() bool { return inFlock(t) >= n })
}

// inFlock counts the locks that threads of this process wait for.
func inFlock(t testing.TB) int {
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 5 && fields[1] == "->" && fields[5] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

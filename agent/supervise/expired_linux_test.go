package supervise_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

// until is a lease that ends then.
func until(end clock.Boot) func() (time.Duration, bool) {
	return func() (time.Duration, bool) { return max(end.Sub(clock.Now()), 0), true }
}

// TestLeaseEndsBeforeTheFork: a keeper that gets its specification when the lease is about to end starts nothing, and
// frees no lock.
func TestLeaseEndsBeforeTheFork(t *testing.T) {
	out, lines := listen(t)
	lock := flocked(t)
	for _, left := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond} { // it kills 20 ms before the end
		end := clock.Now().Add(left)
		c := shell("echo started")
		c.Stdout = out
		_, err := supervise.Start(t.Context(), c.With(supervise.Held{Hold: []*os.File{lock}, Lease: until(end), Entrust: func(func() bool, <-chan struct{}) {
			// As if this process, or the keeper, got no processor.
			eventually(t, "the lease has ended", func() bool { return clock.Now() >= end })
		}}))
		if !errors.Is(err, driver.ErrExpired) {
			t.Errorf("%v of the lease: error %v; want that it has ended", left, err)
		}
		if free(t, lock.Name()) {
			t.Error("the lock was let go")
		}
	}
	out.Close()
	if lines.Scan() {
		t.Errorf("the command wrote %q", lines.Text())
	}
}

// slow returns a program whose execve waits until release is called: a lease of the file is broken then (fcntl(2)).
func slow(t *testing.T) (path string, release func()) {
	t.Helper()
	path = program(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no lease of a file in %s: %v", os.TempDir(), err)
	}
	return path, func() { f.Close() }
}

// TestLeaseEndsBeforeTheExec: a process that has been forked and waits before its execve dies with the lease. The
// keeper's thread waits for the execve meanwhile.
func TestLeaseEndsBeforeTheExec(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1") // the keeper's, as on a machine with one processor
	for _, level := range []string{"sweep", "cgroup", "pid"} {
		t.Run(level, func(t *testing.T) {
			atLevel(t, level, nil)
			leaseEndsBeforeTheExec(t)
		})
	}
}

func leaseEndsBeforeTheExec(t *testing.T) {
	path, release := slow(t)
	out, lines := listen(t)
	var f *supervise.Family
	var end clock.Boot
	err := driver.ErrExpired
	for lease := 400 * time.Millisecond; errors.Is(err, driver.ErrExpired) && lease < patience; lease *= 2 { // too short for a busy machine
		end = clock.Now().Add(lease)
		c := supervise.Command{Path: path, Args: []string{path, "-test.v", "-test.run=^$"}, Env: os.Environ(), Stdout: out, Containment: levelOfEnv()}
		f, err = supervise.Start(t.Context(), c.With(supervise.Held{Lease: until(end)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	exit := wait(t, f)
	release()
	out.Close()
	if lines.Scan() {
		t.Errorf("the command wrote %q after the lease", lines.Text())
	}
	if exit.Reason != supervise.Expired || f.Ended() < end.Add(-20*time.Millisecond) {
		t.Errorf("%v, %v before the end of the lease; want the deadline", exit, end.Sub(f.Ended()))
	}
	t.Logf("dead %v before the end of the lease", end.Sub(f.Ended()))
}

// TestLeaseRenewedBeforeTheExec: what the parent renews while the command waits for its execve counts.
func TestLeaseRenewedBeforeTheExec(t *testing.T) {
	path, release := slow(t)
	left := time.Second
	time.AfterFunc(left+200*time.Millisecond, release)
	lease := func() (time.Duration, bool) {
		now := left
		left = time.Hour // from the second call on
		return now, true
	}
	out, lines := listen(t)
	c := supervise.Command{Path: path, Args: []string{path, "-test.v", "-test.run=^$"}, Env: os.Environ(), Stdout: out}
	f := start(t, c.With(supervise.Held{Lease: lease}))
	exit := wait(t, f)
	out.Close()
	var wrote []string
	for lines.Scan() {
		wrote = append(wrote, lines.Text())
	}
	if exit != (supervise.Exit{Reason: supervise.Exited}) || len(wrote) == 0 {
		t.Errorf("%v after it wrote %q; want its own end", exit, strings.Join(wrote, "\n"))
	}
}

// TestStartGivenUpBeforeTheExec: Start does not wait for an execve after its ctx has ended.
func TestStartGivenUpBeforeTheExec(t *testing.T) {
	path, _ := slow(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := supervise.Command{Path: path}.With(supervise.Held{Lease: func() (time.Duration, bool) { return time.Hour, true }})
	if _, err := supervise.Start(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v; want that of the context", err)
	}
	if left := supervise.Descendants(os.Getpid(), false); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
}

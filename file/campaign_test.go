//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

func TestTokensRise(t *testing.T) {
	dir := t.TempDir() + "/not/yet/there"
	var last fence.Token
	for i := range 20 {
		e := elector(t, dir, fmt.Sprintf("c%d", i))
		m := campaign(t, e)
		if m.Token() != last+1 {
			t.Fatalf("token %v after %v", m.Token(), last)
		}
		last = m.Token()
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		release(t, m)
		if err := m.Check(); !errors.Is(err, driver.ErrResigned) {
			t.Fatalf("after Release: %v, want ErrResigned", err)
		}
	}
}

func TestEraRaisesTokens(t *testing.T) {
	dir := t.TempDir()
	release(t, campaign(t, elector(t, dir, "a")))
	raised, err := New(dir, "jobs", "b", Config{Era: 2})
	if err != nil {
		t.Fatal(err)
	}
	m := campaign(t, raised)
	if m.Token().Era() != 2 || m.Token().Count() != 1 {
		t.Fatalf("era %d, count %d; want 2 and 1", m.Token().Era(), m.Token().Count())
	}
	release(t, m)
	_, err = elector(t, dir, "c").Campaign(t.Context(), driver.Candidacy{})
	if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want era 2 or higher") {
		t.Fatalf("era 0 after 2: %v", err)
	}
}

// TestNeverTwo lets 20 candidates lead again and again.
func TestNeverTwo(t *testing.T) {
	dir := t.TempDir()
	release(t, campaign(t, elector(t, dir, "first")))
	var leading, last atomic.Int64
	last.Store(1)
	var all sync.WaitGroup
	for i := range 20 {
		e := elector(t, dir, fmt.Sprintf("c%d", i))
		all.Go(func() {
			for range 15 {
				m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
				if err != nil {
					t.Error(err)
					return
				}
				if n := leading.Add(1); n != 1 {
					t.Errorf("%d lead", n)
				}
				if token := int64(m.Token()); last.Swap(token) >= token {
					t.Errorf("token %d is not greater than the last", token)
				}
				if err := m.Check(); err != nil {
					t.Error(err)
				}
				leading.Add(-1)
				if err := m.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if last.Load() != 301 {
		t.Errorf("last token %d, want 301", last.Load())
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	m := lead(t, elector(t, dir, "a"))
	reason := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	won := stand(ctx, elector(t, dir, "b"))
	waiting(t, 1)
	cancel(reason)
	if v := receive(t, won, "the end of the campaign"); v.err != reason {
		t.Fatalf("got %v, want the cause of the context", v.err)
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	release(t, m)
	if n := campaign(t, elector(t, dir, "c")); n.Token() != 2 {
		t.Fatalf("token %v, want 2", n.Token())
	} else {
		release(t, n)
	}
}

func TestCampaignWithEndedContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := elector(t, dir, "a").Campaign(ctx, driver.Candidacy{}); err != context.Canceled {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	if count(t, dir) != 0 {
		t.Fatal("it left something behind")
	}
}

// TestCancelDuringHoldOff checks that a winner that is still holding off gives
// the lock back.
func TestCancelDuringHoldOff(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	won := stand(ctx, patient(t, dir, "a"))
	lock := filepath.Join(dir, "jobs", lockName)
	harness.Eventually(t, "the lock is held", func() bool {
		f, err := os.Open(lock)
		if err != nil {
			return false
		}
		defer f.Close()
		return tryFlock(int(f.Fd())) == unix.EWOULDBLOCK
	})
	cancel()
	if v := receive(t, won, "the end of the campaign"); v.err != context.Canceled {
		t.Fatalf("got %v, want context.Canceled", v.err)
	}
	if m := campaign(t, elector(t, dir, "b")); m.Token() != 1 {
		t.Fatalf("token %v, want 1", m.Token())
	} else {
		release(t, m)
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	a, b := elector(t, dir, "a"), elector(t, dir, "b")
	m := lead(t, a)
	won := stand(t.Context(), b)
	waiting(t, 1)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if v := receive(t, won, "the end of the campaign"); v.err != driver.ErrClosed {
		t.Fatalf("got %v, want ErrClosed", v.err)
	}
	if _, err := b.Campaign(t.Context(), driver.Candidacy{}); err != driver.ErrClosed {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	_ = a.Close()
	receive(t, m.Context().Done(), "the end of the mandate")
	if err := m.Check(); !errors.Is(err, driver.ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	release(t, m)
	if c := campaign(t, elector(t, dir, "c")); c.Token() != 2 {
		t.Fatalf("token %v, want 2", c.Token())
	} else {
		release(t, c)
	}
}

func TestTooMuchMetadata(t *testing.T) {
	_, err := elector(t, t.TempDir(), "a").Campaign(t.Context(), driver.Candidacy{Metadata: map[string]string{"k": strings.Repeat("x", 4096)}})
	if !driver.IsPermanent(err) {
		t.Fatalf("got %v, want a permanent error", err)
	}
}

// TestManyWaiters checks that a release wakes one of a thousand, and what a
// hand-over costs then.
func TestManyWaiters(t *testing.T) {
	long.Test(t, "it takes 1,000 threads")
	const n, handovers = 1000, 50
	dir := t.TempDir()
	m := campaign(t, elector(t, dir, "first"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	won := make(chan victory)
	var all sync.WaitGroup
	for i := range n {
		e := elector(t, dir, fmt.Sprintf("c%d", i))
		all.Go(func() {
			m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
			switch {
			case err == nil:
				won <- victory{m: m.(*mandate)}
			case err != context.Canceled:
				t.Errorf("%v", err)
			}
		})
	}
	waiting(t, n)
	before, switches := usage(t)
	start := time.Now()
	for i := range handovers {
		release(t, m)
		m = receive(t, won, "the next leader").m
		if m.Token() != fence.Token(i+2) {
			t.Fatalf("token %v at hand-over %d", m.Token(), i)
		}
	}
	elapsed := time.Since(start)
	after, switches2 := usage(t)
	each := (after - before) / handovers
	t.Logf("a hand-over among %d waiters: %v of CPU, %d context switches, %v", n, each, (switches2-switches)/handovers, elapsed/handovers)
	// Each second every waiter looks whether its lock is in place: that is in
	// here too, and far less than if each hand-over woke all of them.
	if each > 20*time.Millisecond {
		t.Errorf("a hand-over takes %v of CPU", each)
	}
	select {
	case v := <-won:
		t.Fatalf("two lead: %v and %v", m.Token(), v.m.Token())
	default:
	}
	cancel()
	all.Wait()
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	release(t, m)
}

// usage returns the CPU time of this process and its voluntary context switches.
func usage(t testing.TB) (time.Duration, int64) {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Nvcsw)
}

// TestIdleWaiterCostsNothing measures what 200 waiting candidates use.
func TestIdleWaiterCostsNothing(t *testing.T) {
	dir := t.TempDir()
	lead(t, elector(t, dir, "a"))
	const n = 200
	for i := range n {
		stand(t.Context(), elector(t, dir, fmt.Sprintf("c%d", i)))
	}
	waiting(t, n)
	before, _ := usage(t)
	const span = 3 * time.Second
	time.Sleep(span) // what is measured is the use over a span
	after, _ := usage(t)
	share := float64(after-before) / float64(span) / n
	t.Logf("an idle candidate uses %.5f %% of a core", 100*share)
	if share > 0.001 {
		t.Errorf("an idle candidate uses %.3f %% of a core, want less than 0.1 %%", 100*share)
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	a := elector(t, dir, "a")
	m := campaign(t, a)
	const n = 200
	round := func() {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range n {
			e := elector(t, dir, fmt.Sprintf("c%d", i))
			all.Go(func() {
				if _, err := e.Campaign(ctx, driver.Candidacy{}); err != context.Canceled {
					t.Errorf("got %v", err)
				}
				_ = e.Close()
			})
		}
		waiting(t, n)
		start := time.Now()
		cancel()
		all.Wait()
		t.Logf("%d waits ended within %v", n, time.Since(start))
	}
	round() // the first starts what os/signal needs, once
	fds, threads, goroutines := resources(t)
	for range 3 {
		round()
	}
	harness.Eventually(t, "descriptors, threads and goroutines are back", func() bool {
		f, th, g := resources(t)
		return f <= fds && th <= threads+8 && g <= goroutines
	})
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	release(t, m)
}

// TestCancelRacesWithVictory ends contexts at the moment of the victory. Nobody
// may be left with a lock that no one knows of.
func TestCancelRacesWithVictory(t *testing.T) {
	dir := t.TempDir()
	a, b := elector(t, dir, "a"), elector(t, dir, "b")
	wins, rounds := 0, 50
	if long.Asked() {
		rounds = 200
	}
	for i := range rounds {
		m := campaign(t, a)
		ctx, cancel := context.WithCancel(t.Context())
		won := stand(ctx, b)
		if i%2 == 0 {
			waiting(t, 1)
		}
		go cancel()
		release(t, m)
		if v := receive(t, won, "the end of the campaign"); v.err == nil {
			wins++
			release(t, v.m)
		} else if v.err != context.Canceled {
			t.Fatal(v.err)
		}
		cancel()
	}
	t.Logf("%d of %d won before they were cancelled", wins, rounds)
}

// TestKilledLeader kills a leader's process.
func TestKilledLeader(t *testing.T) {
	dir := t.TempDir()
	e := elector(t, dir, "a")
	release(t, campaign(t, e))
	for i := range 5 {
		cmd, _, line := helper(t, dir, nil)
		if want := fmt.Sprintf("token: %d", 2*i+2); line != want {
			t.Fatalf("helper says %q, want %q", line, want)
		}
		won := stand(t.Context(), e)
		waiting(t, 1)
		start := time.Now()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		m := receive(t, won, "the victory").m
		t.Logf("led %v after the kill", time.Since(start))
		if m.Token() != fence.Token(2*i+3) {
			t.Fatalf("token %v", m.Token())
		}
		release(t, m)
	}
}

// TestNewElection: an observer that looks while the first leader of a new election waits is told
// that, and of no process that holds the lock and does not lead.
func TestNewElection(t *testing.T) {
	e := elector(t, t.TempDir(), "a")
	won := stand(t.Context(), e)
	var seen driver.State
	harness.Eventually(t, "a cause or a leader", func() bool {
		for s := range e.Watch(t.Context()) {
			seen = s
			break
		}
		return seen.Cause != nil || seen.Leader != nil
	})
	switch {
	case seen.Leader != nil:
		t.Log("it was led before anybody could look") // on a machine that is late
	case seen.Cause != newElection:
		t.Errorf("the cause is %v; want %v", seen.Cause, newElection)
	}
	release(t, receive(t, won, "the victory").m)
}

// TestFlockExcludes has flock(1) hold the lock, and then be kept out.
func TestFlockExcludes(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("flock(1) is not installed")
	}
	dir := t.TempDir()
	lock := filepath.Join(dir, "jobs", lockName)
	if err := os.Mkdir(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	// flock(1) comes first and makes the file: it is adopted.
	cmd := exec.Command(flock, lock, "sh", "-c", "echo held; read x")
	stdin, stdout := harness.Start(t, cmd)
	if _, err := stdout.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	e := elector(t, dir, "a")
	won := stand(t.Context(), e)
	waiting(t, 1)
	for s, err := range e.Watch(t.Context()) {
		if err != nil || s.Leader != nil || s.Stale || s.Cause == nil || !strings.Contains(s.Cause.Error(), fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("state %+v, %v; want no leader, and a cause that names process %d", s, err, cmd.Process.Pid)
		}
		if !errors.Is(s.Cause, ErrHoldOff) {
			break // at first it might have been a candidate that waits
		}
	}
	_ = stdin.Close()
	_ = cmd.Wait() // the shell's read fails
	m := receive(t, won, "the victory").m
	if out, err := exec.Command(flock, "-n", lock, "true").CombinedOutput(); err == nil {
		t.Errorf("flock -n got the lock of a leader: %s", out)
	}
	release(t, m)
	if out, err := exec.Command(flock, "-n", lock, "true").CombinedOutput(); err != nil {
		t.Errorf("flock -n did not get a free lock: %v %s", err, out)
	}
}

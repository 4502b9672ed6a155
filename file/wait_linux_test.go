package file

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCancelWhateverSignalsAre checks that a campaign ends in a program that resets
// or ignores all signals, and that the ends of waits leave each signal as it was.
func TestCancelWhateverSignalsAre(t *testing.T) {
	dir := t.TempDir()
	lead(t, elector(t, dir, "a"))
	t.Cleanup(func() { signal.Reset() })
	for name, disturb := range map[string]func(){
		"nothing":         func() {},
		"reset":           func() { signal.Reset() },
		"ignored":         func() { signal.Ignore(nudge) },
		"all are ignored": func() { signal.Ignore() },
		"listened to":     func() { signal.Reset(); signal.Notify(make(chan os.Signal, 1), nudge) },
	} {
		for _, early := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			if early {
				disturb()
			}
			won := stand(ctx, elector(t, dir, "b"))
			waiting(t, 1)
			disturb()
			before := dispositions(t)
			cancel()
			if v := receive(t, won, "the end of the campaign"); v.err != context.Canceled {
				t.Fatalf("%s: got %v", name, v.err)
			}
			if after := dispositions(t); after != before {
				t.Errorf("%s: the masks of signals that are ignored and handled were %x and are %x", name, before, after)
			}
			if n := inFlock(t); n != 0 {
				t.Errorf("%s: %d threads wait in flock after the end of the campaign", name, n)
			}
		}
	}
}

// dispositions are the masks of the signals that this process ignores and handles,
// without the one that ends a wait: the runtime's handler of it ignores it, too.
func dispositions(t *testing.T) (masks [2]uint64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		for i, name := range []string{"SigIgn:", "SigCgt:"} {
			if mask, ok := strings.CutPrefix(line, name); ok {
				if masks[i], err = strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err != nil {
					t.Fatal(err)
				}
				masks[i] &^= 1 << (nudge - 1)
			}
		}
	}
	return masks
}

// TestWaitIsNotInherited starts children while a wait begins and ends: none may keep
// the lock, or a place in the queue.
func TestWaitIsNotInherited(t *testing.T) {
	dir := t.TempDir()
	m := campaign(t, elector(t, dir, "a"))
	b := elector(t, dir, "b")
	var children []*exec.Cmd
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		won := stand(ctx, b)
		waiting(t, 1)
		go cancel()
		child := exec.Command("sleep", "60")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
		if v := receive(t, won, "the end of the campaign"); v.err != context.Canceled {
			t.Fatal(v.err)
		}
	}
	release(t, m)
	release(t, campaign(t, b)) // while the children live
	for _, child := range children {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
}

// TestInterruptedAroundVictory ends waits before they begin, and about when the lock
// becomes free: the file is locked if and only if the wait says so.
func TestInterruptedAroundVictory(t *testing.T) {
	dir := t.TempDir()
	open := func() (*os.File, int) {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f, int(f.Fd())
	}
	_, holder := open()
	won := 0
	for i := range 400 {
		if err := tryFlock(holder); err != nil {
			t.Fatal(err)
		}
		f, fd := open()
		w, err := newWaiter(fd)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- w.wait(ctx, func() bool { return false }) }()
		if i%2 == 0 {
			waiting(t, 1)
		}
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(func() {
			for range 20 * i { // a little later each time
				runtime.Gosched()
			}
			_ = unix.Flock(holder, unix.LOCK_UN)
		})
		err = receive(t, result, "the end of the wait")
		both.Wait()
		taken := tryFlock(holder) == unix.EWOULDBLOCK
		switch {
		case err == nil && !taken, err == errInterrupted && taken, err != nil && err != errInterrupted:
			t.Fatalf("round %d: the wait says %v; locked: %v", i, err, taken)
		case err == nil:
			won++
		default:
			_ = unix.Flock(holder, unix.LOCK_UN)
		}
		w.close()
		_ = f.Close() // and with it the lock
	}
	t.Logf("%d of 400 waits got the lock", won)
}

// BenchmarkCancel is from the end of a context to the end of the campaign.
func BenchmarkCancel(b *testing.B) {
	dir := b.TempDir()
	lead(b, elector(b, dir, "a"))
	e := elector(b, dir, "b")
	for b.Loop() {
		b.StopTimer()
		ctx, cancel := context.WithCancel(b.Context())
		won := stand(ctx, e)
		waiting(b, 1)
		b.StartTimer()
		cancel()
		<-won
	}
}

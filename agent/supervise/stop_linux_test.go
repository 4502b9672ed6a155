package supervise_test

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		grace  time.Duration
		ctx    time.Duration // 0: none
		want   supervise.Exit
		least  time.Duration // it takes
		most   time.Duration
	}{
		{"hears TERM", "echo ready; while :; do sleep 0.01; done", time.Minute, 0,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGTERM}, 0, 30 * time.Second},
		{"ends well", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", time.Minute, 0,
			supervise.Exit{Reason: supervise.Stopped}, 0, 30 * time.Second},
		{"does not hear", "trap '' TERM; echo ready; while :; do sleep 0.01; done", 100 * time.Millisecond, 0,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGKILL}, 100 * time.Millisecond, 30 * time.Second},
		{"context ends first", "trap '' TERM; echo ready; while :; do sleep 0.01; done", time.Minute, 50 * time.Millisecond,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGKILL}, 50 * time.Millisecond, 30 * time.Second},
		{"another in the group uses the grace", "(trap 'sleep 0.2; exit 0' TERM; echo ready; while :; do sleep 0.01; done) & wait", time.Minute, 0,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGTERM}, 200 * time.Millisecond, 30 * time.Second},
		{"one with a session of its own does not", "setsid sleep 100 & echo ready; while :; do sleep 0.01; done", time.Minute, 0,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGTERM}, 0, 30 * time.Second},
		{"was stopped", "echo ready; kill -STOP $$", time.Minute, 0,
			supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGTERM}, 0, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := shell(c.script)
			out, lines := listen(t)
			cmd.Stdout, cmd.Grace = out, c.grace
			f := start(t, cmd)
			expect(t, lines, "ready")
			ctx := context.Background()
			if c.ctx != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.ctx)
				defer cancel()
			}
			before := time.Now()
			if got := f.Stop(ctx); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if took := time.Since(before); took < c.least || took > c.most {
				t.Errorf("took %v, want %v to %v", took, c.least, c.most)
			}
		})
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	cmd := shell("trap 'echo outer; exit 5' USR1; (trap 'echo inner; exit' USR1; echo ready; while :; do sleep 0.01; done) & echo $! && while :; do sleep 0.01; done")
	out, lines := listen(t)
	cmd.Stdout = out
	f := start(t, cmd)
	expect(t, lines, "ready")
	if err := f.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, f); exit != (supervise.Exit{Reason: supervise.Exited, Code: 5}) {
		t.Error(exit)
	}
}

func TestDeadline(t *testing.T) {
	f := start(t, shell("sleep 100"))
	const step = 100 * time.Millisecond
	for range 5 {
		f.Deadline(clock.Now().Add(2 * time.Second))
		select {
		case <-f.Done():
			t.Fatal("killed although the deadline was pushed out")
		case <-time.After(step):
		}
	}
	at := clock.Now().Add(step)
	f.Deadline(at)
	want := supervise.Exit{Reason: supervise.Expired, Code: -1, Signal: syscall.SIGKILL}
	if got := wait(t, f); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if late := clock.Now().Sub(at); late < 0 || late > 2*time.Second {
		t.Errorf("dead %v after the deadline", late)
	} else {
		t.Logf("dead %v after the deadline", late)
	}

	f = start(t, shell("sleep 1.2"))
	f.Deadline(clock.Now().Add(time.Second))
	f.Deadline(0) // takes it away
	if got := wait(t, f); got != (supervise.Exit{Reason: supervise.Exited}) {
		t.Errorf("%+v, want a good end", got)
	}

	f = start(t, shell("sleep 100"))
	f.Deadline(clock.Now().Add(-time.Hour))
	if got := wait(t, f); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestKill(t *testing.T) {
	f := start(t, shell("trap '' TERM; setsid sleep 100 & sleep 100"))
	f.Kill()
	if got := wait(t, f); got != (supervise.Exit{Reason: supervise.Killed, Code: -1, Signal: syscall.SIGKILL}) {
		t.Error(got)
	}
}

// TestGoneBeforeTheLockIsFree has others take the lock at once, and look
// whether the old holder still believed in it.
func TestGoneBeforeTheLockIsFree(t *testing.T) {
	for _, ofd := range []bool{false, true} {
		for range 30 {
			lock := flocked(t)
			take := func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }
			if ofd {
				take = func(f *os.File) error {
					return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
				}
				if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
					t.Fatal(err)
				}
				if err := take(lock); err != nil {
					t.Fatal(err)
				}
			}
			cmd := shell("read x")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdin = r
			cmd = cmd.With(supervise.Held{Hold: []*os.File{lock}})
			f := start(t, cmd)
			r.Close()
			other, err := os.OpenFile(lock.Name(), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			believed := make(chan bool, 1)
			go func() {
				for take(other) == unix.EINTR {
				}
				believed <- !f.Gone()
			}()
			if f.Gone() {
				t.Error("gone while the command runs")
			}
			w.Close() // the command reads the end
			select {
			case b := <-believed:
				if b {
					t.Error("another had the lock while the old holder believed in it")
				}
			case <-time.After(patience):
				t.Fatal("the lock was never free")
			}
			wait(t, f)
			other.Close()
			lock.Close()
		}
	}
}

// TestKeeperKilledInALibrary is the death of the keeper where the parent has
// not adopted orphans: the group dies, and what its members have below them.
func TestKeeperKilledInALibrary(t *testing.T) {
	cmd := shell("trap '' TERM; sleep 100 & (setsid sleep 101 & echo $!; sleep 102) & echo $!; echo $$; echo ready; while :; do sleep 0.01; done")
	out, lines := listen(t)
	cmd.Stdout = out
	lock := flocked(t)
	cmd = cmd.With(supervise.Held{Hold: []*os.File{lock}})
	f := start(t, cmd)
	var pids []int
	for len(pids) < 3 && lines.Scan() {
		if pid, err := strconv.Atoi(lines.Text()); err == nil {
			pids = append(pids, pid)
		}
	}
	f.KillKeeper()
	exit := wait(t, f)
	if exit.Reason != supervise.KeeperLost || exit.Signal != syscall.SIGKILL || exit.Err == nil {
		t.Errorf("%+v", exit)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	if free(t, lock.Name()) {
		t.Error("the lock is free before its holder let go")
	}
}

// TestFrozenKeeper has the keeper stopped again and again: Kill must work.
func TestFrozenKeeper(t *testing.T) {
	f := start(t, shell("sleep 100"))
	for range 20 {
		if err := syscall.Kill(f.Keeper(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	f.Kill()
	if got := wait(t, f); got.Signal != syscall.SIGKILL {
		t.Error(got)
	}
}

func TestManyFamilies(t *testing.T) {
	const n = 10
	var all []*supervise.Family
	for range n {
		all = append(all, start(t, shell("sleep 100 & sleep 100")))
	}
	all[3].KillKeeper()
	wait(t, all[3])
	for i, f := range all {
		if i != 3 && (f.Gone() || !alive(f.PID())) {
			t.Errorf("family %d ended with another one", i)
		}
	}
	for i, f := range all {
		if i != 3 {
			if got := f.Stop(t.Context()); got.Reason != supervise.Stopped {
				t.Errorf("family %d: %v", i, got)
			}
		}
	}
}

// TestWithoutListsOfChildren uses /proc/PID/stat, for kernels that have no more.
func TestWithoutListsOfChildren(t *testing.T) {
	cmd := shell("sleep 100 & setsid sh -c 'sleep 100 & echo ready; sleep 100' & sleep 100")
	out, lines := listen(t)
	cmd.Stdout = out
	f := start(t, cmd)
	expect(t, lines, "ready")
	var with, without []int
	eventually(t, "the family is complete", func() bool {
		with = supervise.Descendants(f.Keeper(), false)
		return len(with) >= 6
	})
	without = supervise.Descendants(f.Keeper(), true)
	if len(with) != len(without) {
		t.Errorf("%v and %v", with, without)
	}

	exe := program(t)
	part := startPart(t, exe, "strike", nil)
	done := make(chan error, 1)
	go func() { done <- part.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("does not end")
	}
}

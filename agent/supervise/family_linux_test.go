package supervise_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// scene is a parent with a family, in processes of their own, and a lock.
type scene struct {
	t      *testing.T
	board  *board
	path   string // the board's
	lock   string
	parent int
	pids   []int // of the family, the command's first
	starts map[int]int
	wait   func() error
}

// members is how many places each family fills.
var members = map[string]int{"hostile": 6, "tree": 6, "forkloop": 1 + chains, "shout": 2, "linger": 1, "evil": 1, "bomb": 2, "setuid": 2, "member": 1, "leave": 1}

func newScene(t *testing.T, command string, as *syscall.Credential, args ...string) *scene {
	return newSceneWith(t, os.Stderr, command, as, args...)
}

func newSceneWith(t *testing.T, stderr *os.File, command string, as *syscall.Credential, args ...string) *scene {
	t.Helper()
	dir := openDir(t)
	s := &scene{t: t, path: filepath.Join(dir, "board"), lock: filepath.Join(dir, "lock")}
	for path, size := range map[string]int64{s.path: 8192, s.lock: 0} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.board, err = openBoard(s.path); err != nil {
		t.Fatal(err)
	}
	cmd := startPartWith(t, stderr, program(t), "parent", as,
		append([]string{"board=" + s.path, "lock=" + s.lock, "command=" + command}, args...)...)
	s.parent, s.wait = cmd.Process.Pid, cmd.Wait
	eventually(t, "the parent runs the command", func() bool { return s.board.Parent.Load() != 0 && s.board.Keeper.Load() != 0 })
	for n := range members[command] {
		p := &s.board.Members[n]
		eventually(t, fmt.Sprintf("process %d of the family lives", n), func() bool { return p.Alive.Load() != 0 && p.PID.Load() != 0 })
		s.pids = append(s.pids, int(p.PID.Load()))
	}
	if os.Getenv("SUPERVISE_LEVEL") == "pid" {
		s.pids = outside(t, s.keeper(), s.pids)
	}
	s.remember()
	return s
}

// remember notes when the family's processes have started, because their numbers may be reused.
func (s *scene) remember() {
	s.starts = map[int]int{}
	for _, pid := range s.pids {
		p, _ := proc.Read(pid)
		s.starts[pid] = p.Start
	}
}

// lives reports whether one of pids is alive.
func (s *scene) lives(pid int) bool {
	p, ok := proc.Read(pid)
	return ok && !p.Dead() && p.Start == s.starts[pid]
}

// compete waits for the lock, as the next candidate does, and returns when it
// was had.
func (s *scene) compete() <-chan clock.Boot {
	had := make(chan clock.Boot, 1)
	f, err := os.OpenFile(s.lock, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer f.Close()
		for {
			err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
			if err == nil {
				had <- clock.Now()
				return
			}
			if err != unix.EINTR {
				s.t.Error(err)
				return
			}
		}
	}()
	return had
}

// arm has the parent set its deadline, and returns it: the family lives by now,
// however long its start took.
func (s *scene) arm() clock.Boot {
	s.t.Helper()
	s.board.Arm.Store(1)
	eventually(s.t, "the parent has set its deadline", func() bool { return s.board.Deadline.Load() != 0 })
	return clock.Boot(s.board.Deadline.Load())
}

// settle checks that the family is dead before had has the lock, and returns when
// that was. How long after since depends on the machine: see BenchmarkSweep.
func (s *scene) settle(since clock.Boot, had <-chan clock.Boot) (at clock.Boot) {
	s.t.Helper()
	select {
	case at = <-had:
	case <-time.After(patience):
		s.t.Fatal("the lock was never free")
	}
	var last clock.Boot
	for range 20 { // whoever lives now writes now
		for n := range s.board.Members {
			last = max(last, clock.Boot(s.board.Members[n].Alive.Load()))
		}
		time.Sleep(time.Millisecond)
	}
	for _, pid := range s.pids {
		if s.lives(pid) {
			s.t.Errorf("process %d of the family is alive after the lock was free", pid)
		}
	}
	if last > at {
		s.t.Errorf("a member was alive %v after the lock was free", last.Sub(at))
	}
	s.t.Logf("last member alive after %v, lock free after %v", last.Sub(since), at.Sub(since))
	return at
}

func (s *scene) kill(pid int, sig syscall.Signal) clock.Boot {
	s.t.Helper()
	if s.board.Hurry.Swap(1) == 0 {
		time.Sleep(10 * time.Millisecond) // until all chains have ended their nap
	}
	now := clock.Now()
	if err := syscall.Kill(pid, sig); err != nil {
		s.t.Fatal(err)
	}
	return now
}

func (s *scene) keeper() int { return int(s.board.Keeper.Load()) }

// wantExit waits for the parent's verdict.
func (s *scene) wantExit(why supervise.Reason, code int) {
	s.t.Helper()
	eventually(s.t, "the parent sees that all are dead", func() bool { return s.board.Done.Load() != 0 })
	got := s.board.Exit.Load()
	if supervise.Reason(got>>16) != why || int(got&0xffff) != code {
		s.t.Errorf("ended as %v with %d, want %v with %d", supervise.Reason(got>>16), got&0xffff, why, code)
	}
}

// frozen waits until a process has stopped.
func (s *scene) freeze(pid int) {
	s.t.Helper()
	s.kill(pid, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		s.t.Fatalf("the parent did not stop: %v %v", status, err)
	}
}

func TestFamilyDiesBeforeTheLockIsFree(t *testing.T) {
	for _, command := range []string{"hostile", "tree", "forkloop"} {
		t.Run(command, func(t *testing.T) {
			users(t, func(t *testing.T, as *syscall.Credential) { testVictims(t, command, as) })
		})
	}
}

func testVictims(t *testing.T, command string, as *syscall.Credential) {
	t.Run("parent killed", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes")
		had := s.compete()
		s.settle(s.kill(s.parent, syscall.SIGKILL), had)
	})
	t.Run("keeper killed", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes")
		had := s.compete()
		s.settle(s.kill(s.keeper(), syscall.SIGKILL), had)
		s.wantExit(supervise.KeeperLost, 128+9)
	})
	t.Run("keeper stopped, then parent killed", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes")
		had := s.compete()
		// The parent wakes it up. Only then may the parent be killed: nobody
		// else would.
		s.kill(s.keeper(), syscall.SIGSTOP)
		eventually(t, "the keeper is woken up", func() bool { return s.board.Woken.Load() > 0 })
		s.settle(s.kill(s.parent, syscall.SIGKILL), had)
	})
	t.Run("keeper told to stop", func(t *testing.T) {
		grace, code := "grace=50ms", 128+9
		if command == "tree" { // the others do not hear it
			grace, code = "grace=1m", 128+15
		}
		s := newScene(t, command, as, "adopt=yes", grace)
		had := s.compete()
		s.settle(s.kill(s.keeper(), syscall.SIGTERM), had)
		s.wantExit(supervise.Terminated, code)
	})
	t.Run("command killed", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes")
		had := s.compete()
		s.settle(s.kill(s.pids[0], syscall.SIGKILL), had)
		s.wantExit(supervise.Exited, 128+9)
	})
	t.Run("command killed, parent frozen", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes")
		had := s.compete()
		s.freeze(s.parent)
		s.settle(s.kill(s.pids[0], syscall.SIGKILL), had)
		if s.board.Gone.Load() != 0 {
			t.Error("the parent was not frozen")
		}
		s.kill(s.parent, syscall.SIGCONT)
		s.wantExit(supervise.Exited, 128+9)
	})
	t.Run("parent frozen beyond the deadline", func(t *testing.T) {
		s := newScene(t, command, as, "adopt=yes", "deadline=2s")
		had := s.compete()
		deadline := s.arm()
		s.freeze(s.parent)
		s.board.Hurry.Store(0)
		time.Sleep(deadline.Sub(clock.Now()) - 20*time.Millisecond)
		s.board.Hurry.Store(1)
		if at := s.settle(deadline, had); at < deadline {
			t.Errorf("the lock was free %v before the deadline", deadline.Sub(at))
		}
		s.kill(s.parent, syscall.SIGCONT)
		s.wantExit(supervise.Expired, 128+9)
	})
}

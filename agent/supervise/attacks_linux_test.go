package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
)

// atLevel makes the parents that the test starts as that user contain their commands by level. It skips the test where
// there is no such level.
func atLevel(t *testing.T, level string, as *syscall.Credential) {
	t.Helper()
	if level == "pid" {
		atPid(t, as)
		return
	}
	t.Setenv("SUPERVISE_LEVEL", level)
	if level != "cgroup" {
		return
	}
	contain(t)
	if as != nil {
		dir := delegate(t, true)
		t.Setenv("SUPERVISE_CGROUP", dir)
	}
}

// eachLevel calls test at each level, as this user and, if that is root, as an ordinary one.
func eachLevel(t *testing.T, test func(t *testing.T, level string, as *syscall.Credential)) {
	for _, level := range []string{"sweep", "cgroup", "pid"} {
		t.Run(level, func(t *testing.T) {
			users(t, func(t *testing.T, as *syscall.Credential) {
				atLevel(t, level, as)
				test(t, level, as)
			})
		})
	}
}

// The places of evil's family on the board.
const (
	evilHeadless = 2 + iota
	_            // for its good end
	evilTraced
	evilTracer
	evilKeeper  // the tracer's error when it traces its keeper, plus 1
	evilEnviron // that when it opens the keeper's environment, plus 1
	evilRoot    // the user that setUID is, plus 1
)

// evil is a command whose family has a process without a main thread, and a tracer that holds another process stopped.
func evil(args []string) {
	deafen()
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	for part, place := range map[string]int{"headless": evilHeadless, "tracer": evilTracer} {
		_, err := syscall.ForkExec(selfExe(), []string{part, "board=" + a["board"], fmt.Sprintf("place=%d", place), fmt.Sprintf("keeper=%d", os.Getppid())},
			&syscall.ProcAttr{Env: partEnv(part), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
		check(err)
	}
	b.Members[0].live()
}

// tracer holds a child stopped. If Arm is not 0, it also stops its keeper. Arguments: board, place, keeper.
func tracer(args []string) {
	runtime.LockOSThread() // a tracer is a thread
	deafen()
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	traced, err := syscall.ForkExec(selfExe(), []string{"member", "board=" + a["board"], fmt.Sprintf("place=%d", evilTraced)},
		&syscall.ProcAttr{Env: partEnv("member"), Sys: &syscall.SysProcAttr{Setsid: true}})
	check(err)
	for b.Members[evilTraced].Alive.Load() == 0 {
		runtime.Gosched()
	}
	check(trace(traced))
	var keeper int
	_, err = fmt.Sscan(a["keeper"], &keeper)
	check(err)
	errno := syscall.Errno(0)
	if os.Getuid() != 0 || os.Getenv("SUPERVISE_TRACE") != "" {
		errno, _ = errors.AsType[syscall.Errno](trace(keeper))
	}
	b.Members[evilKeeper].PID.Store(int64(errno) + 1)
	_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", keeper))
	errno, _ = errors.AsType[syscall.Errno](err)
	b.Members[evilEnviron].PID.Store(int64(errno) + 1)
	b.Members[evilTracer].live()
}

// trace stops the main thread of a process as its tracer.
func trace(pid int) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	_, err := unix.Wait4(pid, nil, unix.WALL, nil)
	return err
}

// newEvil is a scene with evil's family, when that is complete.
func newEvil(t *testing.T, level string, as *syscall.Credential) *scene {
	t.Helper()
	s := newScene(t, "evil", as, "adopt=yes", "deadline=200ms")
	var pids []int
	for _, n := range []int{evilTracer, evilHeadless, evilTraced} {
		p := &s.board.Members[n]
		eventually(t, fmt.Sprintf("process %d of the family lives", n), func() bool { return p.Alive.Load() != 0 })
		pids = append(pids, int(p.PID.Load()))
	}
	if level == "pid" {
		pids = outside(t, s.keeper(), pids)
	}
	s.pids = append(s.pids, pids...)
	s.remember()
	if len(s.pids) != 4 {
		t.Fatalf("processes %d; want four", s.pids)
	}
	return s
}

// ends are ways in which a family is ended.
var ends = []struct {
	name string
	end  func(s *scene) clock.Boot
}{
	{"parent killed", func(s *scene) clock.Boot { return s.kill(s.parent, syscall.SIGKILL) }},
	{"parent stopped", func(s *scene) clock.Boot { s.arm(); return s.kill(s.parent, syscall.SIGSTOP) }},
	{"command killed", func(s *scene) clock.Boot { return s.kill(s.pids[0], syscall.SIGKILL) }},
	{"keeper killed", func(s *scene) clock.Boot { return s.kill(s.keeper(), syscall.SIGKILL) }},
}

// TestAttacks: at each level families that do what they can to survive are dead before the lock is free. One has a
// process without a main thread and one that a tracer holds stopped; others are fork bombs. The command hostile runs
// here only for an ordinary user at the level cgroup; for the rest see TestFamilyDiesBeforeTheLockIsFree, TestPid and
// TestCgroup.
func TestAttacks(t *testing.T) {
	t.Setenv("SUPERVISE_FORKS", "500")
	commands, ends := long.FullOr([]string{"evil", "bomb", "hostile"}, []string{"evil"}), long.FullOr(ends, ends[:1])
	eachLevel(t, func(t *testing.T, level string, as *syscall.Credential) {
		for _, command := range commands {
			if command == "hostile" && (level != "cgroup" || as == nil) {
				continue
			}
			for _, e := range ends {
				t.Run(command+", "+e.name, func(t *testing.T) {
					var s *scene
					if command != "evil" {
						s = newScene(t, command, as, "adopt=yes", "deadline=200ms")
					} else {
						s = newEvil(t, level, as)
						ordinary := as != nil || os.Getuid() != 0
						for place, want := range map[int]syscall.Errno{evilKeeper: unix.EPERM, evilEnviron: unix.EACCES} {
							if errno := syscall.Errno(s.board.Members[place].PID.Load() - 1); ordinary && errno != want {
								t.Errorf("the family traces its keeper, or reads its environment (place %d): %v; want %v", place, errno, want)
							}
						}
					}
					had := s.compete()
					s.settle(e.end(s), had)
				})
			}
		}
	})
}

// TestKeeperTraced: no level keeps a command with the rights of root from stopping its keeper as a tracer. The family
// then lives on after its lease, with the lock held. It dies when the tracer does.
func TestKeeperTraced(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an ordinary user may not trace its keeper: TestAttacks")
	}
	long.Full(t, "each family lives on for a second")
	t.Setenv("SUPERVISE_TRACE", "yes")
	for _, level := range []string{"sweep", "cgroup", "pid"} {
		t.Run(level, func(t *testing.T) {
			atLevel(t, level, nil)
			s := newEvil(t, level, nil)
			had := s.compete()
			deadline := s.arm()
			eventually(t, "it acts after its lease", func() bool { return clock.Boot(s.board.Members[0].Alive.Load()) > deadline.Add(time.Second) })
			select {
			case <-had:
				t.Fatal("the lock is free")
			default:
			}
			s.settle(s.kill(s.pids[1], syscall.SIGKILL), had)
		})
	}
}

// setUID is a command with a descendant that is root if a set-uid program can make it so. Argument: board.
func setUID(args []string) {
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	if a["place"] == "" {
		_, err := syscall.ForkExec(os.Getenv("SUPERVISE_SETUID"), append([]string{"setuid", "place=1"}, args...),
			&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
		check(err)
		b.Members[0].live()
	}
	if os.Geteuid() == 0 {
		check(syscall.Setresuid(0, 0, 0)) // the user may kill a process whose real user it is
	}
	b.Members[evilRoot].PID.Store(int64(os.Getuid()) + 1)
	b.Members[1].live()
}

// TestSetUID: sweep cannot kill an ordinary user's descendant that became root by a set-uid program; the lock is held
// while it lives. The kernel kills it with its cgroup, and gives it no rights in a pid namespace.
func TestSetUID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to make a set-uid program")
	}
	long.Full(t, "six families")
	exe := program(t)
	// No other user may run it.
	if err := errors.Join(os.Chown(exe, 0, nobody), os.Chmod(exe, 0o750|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if fs := (unix.Statfs_t{}); unix.Statfs(exe, &fs) != nil || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skip("set-uid programs have no rights in the directory for temporary files")
	}
	t.Setenv("SUPERVISE_SETUID", exe)
	eachLevel(t, func(t *testing.T, level string, as *syscall.Credential) {
		s := newScene(t, "setuid", as, "adopt=yes")
		user := int(s.board.Members[evilRoot].PID.Load() - 1)
		if isRoot := as == nil || level != "pid"; isRoot != (user == 0) {
			t.Fatalf("the descendant is user %d; root: %t", user, isRoot)
		}
		had := s.compete()
		since := s.kill(s.parent, syscall.SIGKILL)
		if as != nil && level == "sweep" {
			eventually(t, "its command is dead", func() bool { return !alive(s.pids[0]) })
			select {
			case <-had:
				t.Error("the lock is free although a descendant lives")
			case <-time.After(50 * time.Millisecond):
			}
			if !alive(s.pids[1]) {
				t.Error("the keeper has killed a process of root")
			}
			since = s.kill(s.pids[1], syscall.SIGKILL)
		}
		s.settle(since, had)
	})
}

// enter starts a member in another pid namespace, and waits for it. Arguments: board, place, namespace.
func enter(args []string) { within(parseArgs(args)["namespace"], "member", args) }

// within runs a part in a pid namespace.
func within(namespace, part string, args []string) {
	runtime.LockOSThread()
	fd, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(err)
	check(unix.Setns(fd, unix.CLONE_NEWPID))
	pid, err := syscall.ForkExec(selfExe(), append([]string{part}, args...), &syscall.ProcAttr{Env: partEnv(part)})
	check(err)
	_, err = unix.Wait4(pid, nil, 0, nil)
	check(err)
}

// leave is a command with a daemon in another pid namespace. Argument: board.
func leave(args []string) {
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	within(os.Getenv("SUPERVISE_NAMESPACE"), "daemon", append(args, "place=1"))
	b.Members[0].live()
}

// TestNamespaceLeft: a daemon that root has started in the pid namespace of another process outlives the family at the
// level sweep, and dies with its cgroup. At the level pid it cannot be started: see TestPidOfTheFamily.
func TestNamespaceLeft(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to enter a namespace")
	}
	long.Full(t, "two families")
	for _, level := range []string{"sweep", "cgroup"} {
		t.Run(level, func(t *testing.T) {
			atLevel(t, level, nil)
			other := exec.Command("sleep", "300")
			other.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() }) // and with it all in its namespace
			t.Setenv("SUPERVISE_NAMESPACE", fmt.Sprintf("/proc/%d/ns/pid", other.Process.Pid))
			s := newScene(t, "leave", nil, "adopt=yes")
			daemon := &s.board.Members[1]
			eventually(t, "the daemon lives", func() bool { return daemon.Alive.Load() != 0 })
			had := s.compete()
			since := s.kill(s.parent, syscall.SIGKILL)
			if level == "cgroup" {
				s.settle(since, had)
				return
			}
			select {
			case at := <-had:
				eventually(t, "the daemon acts beside the next leader", func() bool { return clock.Boot(daemon.Alive.Load()) > at })
			case <-time.After(patience):
				t.Fatal("the lock was never free")
			}
		})
	}
}

// TestPidEntered: a process that has entered the namespace from outside is dead before the lock is free.
func TestPidEntered(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to enter a namespace")
	}
	long.Full(t, "four families")
	const place = 15
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			atPid(t, nil)
			s := newScene(t, "member", nil, "adopt=yes", "deadline=200ms")
			entered := &s.board.Members[place]
			startPart(t, executable(t), "enter", nil, "board="+s.path, fmt.Sprintf("place=%d", place), fmt.Sprintf("namespace=/proc/%d/ns/pid", s.keeper()))
			eventually(t, "it has entered", func() bool { return entered.Alive.Load() != 0 })
			had := s.compete()
			s.settle(e.end(s), had)
		})
	}
}

// TestPidConceals: a command reaches no /proc but that of its own namespace: not through its keeper's files, which an
// ordinary user cannot see, and not beneath its own, not even with the rights of root in a user namespace of its own.
func TestPidConceals(t *testing.T) {
	users(t, func(t *testing.T, as *syscall.Credential) {
		atPid(t, as)
		cmd := exec.Command(program(t), "/bin/sh", "-c", `cat /proc/1/environ >/dev/null 2>&1 && echo environment
			ls /proc/1/fd >/dev/null 2>&1 && echo descriptors
			for f in /proc/1/fd/*; do ls -d "$f"/[0-9]* 2>/dev/null; done
			below='if umount -l /proc 2>/dev/null; then echo removed; ls -d /proc/[0-9]* 2>/dev/null; else [ -d /proc/1 ] && echo refused; fi'
			unshare --user --map-root-user --mount sh -c "$below"
			sh -c "$below"
			true`)
		cmd.Env, cmd.Stderr = partEnv("run"), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		want := "refused\nrefused\n"
		if as == nil && os.Getuid() == 0 {
			want = "environment\ndescriptors\nrefused\nremoved\n"
		}
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%v, %q; want %q", err, out, want)
		}
	})
}

// BenchmarkKill measures, from Kill, the last sign of life of a family of that many processes, and the instant in which
// the kernel has confirmed the death of all.
func BenchmarkKill(b *testing.B) {
	for _, level := range []supervise.Level{supervise.Cgroup, supervise.Pid} {
		for _, size := range []int{10, 1000, 6000} {
			b.Run(fmt.Sprintf("%v,size=%d", level, size), func(b *testing.B) {
				c, err := supervise.Contain(b.Context(), level, fmt.Sprintf("bench%d", os.Getpid()), nil)
				if err != nil {
					b.Skip(err)
				}
				var acted, dead []time.Duration
				for b.Loop() {
					f, board := startCrowd(b, size, c)
					killed := clock.Now()
					f.Kill()
					dead = append(dead, f.Ended().Sub(killed))
					acted = append(acted, board.lastAct().Sub(killed))
				}
				reportTimes(b, "acted", acted)
				reportTimes(b, "dead", dead)
			})
		}
	}
}

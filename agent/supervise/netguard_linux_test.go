package supervise_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
)

// guardNetwork returns a containment with a network guard. Where there can be none the test is skipped.
func guardNetwork(t testing.TB) (c *supervise.Containment, name string) {
	t.Helper()
	c, name = contain(t)
	if err := c.GuardNetwork(); errors.Is(err, supervise.ErrContain) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return c, name
}

// leavesNone returns a function that waits until the programs are gone that are attached to the families of a name now.
func leavesNone(t testing.TB, name string) (gone func()) {
	t.Helper()
	var ours []uint32
	for _, path := range cgroups(t, name) {
		ids, err := supervise.Attached(path)
		if err != nil || len(ids) != 1 {
			t.Fatalf("the programs of %s: %v, %v", path, ids, err)
		}
		ours = append(ours, ids...)
	}
	if len(ours) == 0 {
		t.Fatal("no family has a program")
	}
	return func() {
		t.Helper()
		for _, id := range ours {
			eventually(t, "the program is unloaded", func() bool {
				next := id - 1
				err := supervise.NextProgram(&next)
				return err != nil || next != id
			})
		}
	}
}

// speaker is a family that sends what it is told, under a lease that the test holds.
type speaker struct {
	*talker
	family *supervise.Family
	left   atomic.Int64 // of the lease; negative is without end
}

func startSpeaker(t *testing.T, c *supervise.Containment, addr string, left time.Duration) *speaker {
	return startSpeakerBy(t, "udp", c, addr, left)
}

func startSpeakerBy(t *testing.T, way string, c *supervise.Containment, addr string, left time.Duration) *speaker {
	t.Helper()
	out, lines := listen(t)
	in, mine, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); mine.Close() })
	exe := executable(t)
	s := &speaker{talker: &talker{t: t, in: mine, lines: lines}}
	s.left.Store(int64(left))
	s.family = start(t, supervise.Command{
		Path: exe, Args: []string{exe, way, addr}, Env: partEnv("talk"), Stdin: in, Stdout: out, Stderr: os.Stderr, Containment: c,
	}.With(supervise.Held{Lease: func() (time.Duration, bool) {
		left := s.left.Load()
		return time.Duration(max(left, 0)), left >= 0
	}}))
	if answer := s.line(); answer != "open" {
		t.Fatal(answer)
	}
	return s
}

// TestNetworkGuard: a lease that is lost closes the guard before Renew returns, that of another election on the same
// machine stays open, and what has no lease may send until its end. Nothing is left of any.
func TestNetworkGuard(t *testing.T) {
	first, name := guardNetwork(t)
	second, _ := guardNetwork(t)
	third, _ := guardNetwork(t)
	e := packets(t, "udp4", "127.0.0.1:0")
	a, b, c := startSpeaker(t, first, e.addr, time.Hour), startSpeaker(t, second, e.addr, time.Hour), startSpeaker(t, third, e.addr, -1)
	gone := leavesNone(t, name)
	for _, s := range []*speaker{a, b, c} {
		if answer := s.send("before"); answer != "sent" {
			t.Fatalf("before the loss: %s", answer)
		}
	}
	a.left.Store(0)
	a.family.Renew()
	if answer := a.send("after"); !strings.HasSuffix(answer, "not permitted") {
		t.Errorf("after the loss: %s", answer)
	}
	for _, s := range []*speaker{b, c} {
		if answer := s.send("beside"); answer != "sent" {
			t.Errorf("after the loss of another: %s", answer)
		}
	}
	for _, s := range []*speaker{a, b, c} {
		end(t, s.family)
	}
	gone()
}

// TestNetworkGuardAtPid: a family in a pid namespace is guarded, too. An ordinary user, who has that in a user namespace,
// is told in one line what is missing.
func TestNetworkGuardAtPid(t *testing.T) {
	t.Run("root", func(t *testing.T) {
		atPid(t, nil)
		guardNetwork(t) // else this is skipped
		c, err := supervise.Contain(t.Context(), supervise.Pid, fmt.Sprintf("test%d.%d", os.Getpid(), clock.Now()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.GuardNetwork(); err != nil {
			t.Fatal(err)
		}
		e := packets(t, "udp4", "127.0.0.1:0")
		s := startSpeaker(t, c, e.addr, time.Hour)
		if namespaceOf(s.family.PID()) == namespaceOf(os.Getpid()) {
			t.Error("the command is in no pid namespace of its own")
		}
		if answer := s.send("before"); answer != "sent" || !e.hears(t, "before", patience) {
			t.Fatalf("before the loss: %s", answer)
		}
		s.left.Store(0)
		s.family.Renew()
		if answer := s.send("after"); !strings.HasSuffix(answer, "not permitted") {
			t.Errorf("after the loss: %s", answer)
		}
		end(t, s.family)
	})
	t.Run("ordinary", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("want root, to delegate a cgroup")
		}
		contain(t)
		as := &syscall.Credential{Uid: nobody, Gid: nobody}
		atPid(t, as)
		in, err := os.Open(delegate(t, true))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cmd := exec.Command(program(t), "pid+network")
		cmd.Env, cmd.Stderr = partEnv("level"), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, UseCgroupFD: true, CgroupFD: int(in.Fd())}
		want := "network: " + supervise.ErrContain.Error() + ": at the level pid the keeper of this user is in a user namespace, where " +
			"the network guard cannot be made; want CAP_SYS_ADMIN, too, or the level cgroup\n"
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%v, %q; want %q", err, out, want)
		}
	})
}

// shout sends the time, by a descendant that outlives it. Argument: board. The address is in the environment. Member 1
// tells what was sent, member 2 what was refused.
func shout(args []string) {
	deafen()
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	if len(args) == 1 {
		_, err := syscall.ForkExec(selfExe(), []string{"shout", args[0], "descendant"},
			&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
		check(err)
		b.Members[0].live()
	}
	c, err := net.Dial("udp", os.Getenv("SUPERVISE_ADDR"))
	check(err)
	for end := clock.Now().Add(3 * patience); clock.Now() < end; {
		now := clock.Now()
		p := &b.Members[1]
		if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(now))); errors.Is(err, unix.EPERM) {
			p = &b.Members[2]
		}
		p.PID.Store(int64(os.Getpid()))
		p.Alive.Store(int64(now))
		ts := unix.NsecToTimespec(1_000_000)
		_ = unix.Nanosleep(&ts, nil)
	}
}

// stopped reports whether each thread of a process is.
func stopped(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(tasks, func(path string) bool {
		text, _ := os.ReadFile(path)
		return !bytes.Contains(text, []byte(") T "))
	})
}

// TestGuardOfNobody: with keeper and parent both stopped the guard closes at the end of the lease, and with both
// killed it is closed, with or without a lease. The same holds for a program with a TermGuard, which has no keeper.
func TestGuardOfNobody(t *testing.T) {
	for _, c := range []struct {
		lease string // renewed as long as the parent runs; "" is none
		sig   syscall.Signal
		by    string // the part that leads
	}{
		{"5s", unix.SIGSTOP, "parent"},
		{"1h", unix.SIGKILL, "parent"},
		{"", unix.SIGKILL, "parent"},
		{"5s", unix.SIGSTOP, "terms"},
		{"1h", unix.SIGKILL, "terms"},
		{"", unix.SIGKILL, "terms"},
	} {
		t.Run(fmt.Sprintf("%s, lease %q, %v", c.by, c.lease, c.sig), func(t *testing.T) {
			_, name := guardNetwork(t)
			e := packets(t, "udp4", "127.0.0.1:0")
			t.Setenv("SUPERVISE_ADDR", e.addr)
			s := newScene(t, "shout", nil, "contain="+name, "network=yes", "lease="+c.lease, "by="+c.by)
			keeper, refused := int(s.board.Keeper.Load()), &s.board.Members[2].Alive
			gone := leavesNone(t, name)
			if refused.Load() != 0 {
				t.Fatal("refused under a lease")
			}
			for _, pid := range []int{s.parent, keeper} { // this order: the parent wakes up a keeper that was stopped
				_ = unix.Kill(pid, unix.SIGSTOP)
				eventually(t, "it is stopped", func() bool { return stopped(pid) })
			}
			if c.sig == unix.SIGKILL {
				_ = unix.Kill(keeper, c.sig)
				_ = unix.Kill(s.parent, c.sig)
			}
			eventually(t, "it is refused", func() bool { return refused.Load() != 0 })
			first := refused.Load()
			eventually(t, "it tries again", func() bool { return refused.Load() > first+int64(100*time.Millisecond) })
			last := s.board.Members[1].Alive.Load()
			if last > first {
				t.Errorf("it has sent %v after it was first refused", time.Duration(last-first))
			}
			if end := s.board.Deadline.Load(); c.sig == unix.SIGSTOP && last > end {
				t.Errorf("it has sent %v after its lease", time.Duration(last-end))
			}
			for _, pid := range []int{s.parent, keeper} {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			_ = s.wait()
			eventually(t, "the keeper is dead", func() bool { return !alive(keeper) })
			if _, err := supervise.Contain(t.Context(), supervise.Sweep, name, nil); err != nil {
				t.Fatal(err)
			}
			if list := cgroups(t, name); len(list) > 0 {
				t.Errorf("%q are left", list)
			}
			gone()
		})
	}
}

// linger has a connection, on which it says nothing more. Argument: board. The address is in the environment.
func linger(args []string) {
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	fd, err := socketTo(os.Getenv("SUPERVISE_ADDR"), unix.SOCK_STREAM)
	check(err)
	_, err = unix.Write(fd, []byte("before"))
	check(err)
	b.Members[0].live()
}

// TestGuardResetsLate: while keeper and parent are both stopped nobody resets a connection of the family. The keeper
// does when it goes on.
func TestGuardResetsLate(t *testing.T) {
	long.Full(t, "it waits for the end of a lease of 5 s")
	_, name := guardNetwork(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("SUPERVISE_ADDR", l.Addr().String())
	s := newScene(t, "linger", nil, "contain="+name, "network=yes", "lease=5s")
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buf := make([]byte, 100)
	if n, err := conn.Read(buf); string(buf[:n]) != "before" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	for _, pid := range []int{s.parent, s.keeper()} { // this order: the parent wakes up a keeper that was stopped
		_ = unix.Kill(pid, unix.SIGSTOP)
		eventually(t, "it is stopped", func() bool { return stopped(pid) })
	}
	eventually(t, "the lease is over", func() bool { return int64(clock.Now()) > s.board.Deadline.Load() })
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	if n, err := conn.Read(buf); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server has read %q, %v while nobody ran; want nothing", buf[:n], err)
	}
	if !alive(s.pids[0]) {
		t.Error("the family is dead, so that nothing is shown")
	}
	_ = unix.Kill(s.keeper(), unix.SIGCONT)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := conn.Read(buf); n > 0 || !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the server has read %q, %v after the keeper went on; want a reset", buf[:n], err)
	}
	_ = unix.Kill(s.parent, unix.SIGCONT)
	_ = s.wait()
}

// TestNetworkGuardRefused: a socket that the command would inherit is outside of the guard.
func TestNetworkGuardRefused(t *testing.T) {
	c, _ := guardNetwork(t)
	e := packets(t, "udp4", "127.0.0.1:0")
	command := shell("exit 0")
	command.Containment, command.Stdin = c, dialFile(t, e.addr)
	if _, err := supervise.Start(t.Context(), command); !errors.Is(err, supervise.ErrContain) || !strings.Contains(fmt.Sprint(err), "opened outside") {
		t.Errorf("a command whose standard input is a socket: %v", err)
	}
	cmd := exec.Command(os.Args[0], "auto+network")
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = partEnv("level"), os.Stderr, []*os.File{dialFile(t, e.addr)}
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "descriptor 3, which the command would inherit, is a socket") {
		t.Errorf("a program that has inherited a socket: %s, %v", out, err)
	}
}

// TestGuardResets: a plain TCP server is told that the connection of a family has ended, although the family was killed
// when its guard was closed, and what it has sent since never arrives.
func TestGuardResets(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			c, _ := guardNetwork(t)
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skip(err)
			}
			defer l.Close()
			s := startSpeakerBy(t, "tcp", c, l.Addr().String(), time.Hour)
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			buf := make([]byte, 100)
			if answer := s.send("before"); answer != "sent" {
				t.Fatal(answer)
			}
			if n, err := conn.Read(buf); string(buf[:n]) != "before" {
				t.Fatalf("%q, %v", buf[:n], err)
			}
			s.left.Store(0)
			s.family.Renew()
			if answer := s.send("after"); answer != "sent" {
				t.Fatal(answer)
			}
			end(t, s.family)
			if n, err := conn.Read(buf); n > 0 || !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("the server has read %q, %v; want a reset", buf[:n], err)
			}
		})
	}
}

package supervise_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// atPid has all commands of the test contained by pid. It skips the test where the user cannot have that.
func atPid(t *testing.T, as *syscall.Credential) {
	t.Helper()
	cmd := exec.Command(program(t), "pid")
	cmd.Env, cmd.Stderr = partEnv("level"), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), supervise.ErrContain.Error()) {
		t.Skipf("%s", out)
	}
	t.Setenv("SUPERVISE_LEVEL", "pid")
}

// outside returns the numbers that processes of a keeper's pid namespace have here. One that has ended has none.
func outside(t *testing.T, keeper int, inside []int) (pids []int) {
	t.Helper()
	here := map[int]int{}
	for _, pid := range supervise.Descendants(keeper, false) {
		here[innermost(pid)] = pid
	}
	for n, pid := range inside {
		if at, ok := here[pid]; ok {
			pids = append(pids, at)
		} else if n == 0 {
			t.Fatalf("the command, process %d of the keeper's namespace, is not among the descendants of keeper %d", pid, keeper)
		}
	}
	return pids
}

// innermost is the number of a process in its own pid namespace, or 0.
func innermost(pid int) (n int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "NSpid:" {
			n, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return n
}

// namespaceOf names a process's pid namespace.
func namespaceOf(pid int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return name
}

// inside lists the processes of a pid namespace that are alive.
func inside(t *testing.T, namespace string) (pids []int) {
	t.Helper()
	if namespace == "" || namespace == namespaceOf(os.Getpid()) {
		t.Fatalf("the keeper is not in a pid namespace of its own: %q", namespace)
	}
	places, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range places {
		if pid, _ := strconv.Atoi(filepath.Base(place)); namespaceOf(pid) == namespace && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestPid: what holds at other levels holds for a keeper that is the init of a pid namespace.
func TestPid(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"exit status": TestExitStatus, "stop": TestStop, "signals": TestSignalReachesTheGroup, "deadline": TestDeadline, "kill": TestKill,
		"frozen keeper": TestFrozenKeeper, "families": TestManyFamilies, "what it finds": TestWhatTheCommandFinds,
		"replaced lock": TestReplacedLock, "lease": TestLease, "spare": TestSpare, "spare of no use": TestSpareIsOfNoUse, "witness": TestWitness,
		"terminal input": TestTerminalInput, "interrupt": TestTerminalInterrupt, "stop and foreground": TestTerminalStopAndForeground,
		"background": TestTerminalFromTheBackground, "shell": TestTerminalShellInside, "no shell": TestTerminalWithoutAShell,
		"terminal after kill": TestTerminalAfterTheCommandWasKilled,
	} {
		t.Run(name, func(t *testing.T) {
			atPid(t, nil)
			test(t)
		})
	}
	users(t, func(t *testing.T, as *syscall.Credential) {
		for _, command := range []string{"hostile", "forkloop"} {
			t.Run(command, func(t *testing.T) {
				atPid(t, as)
				testVictims(t, command, as)
			})
		}
	})
}

// TestPidBothKilled: the kernel kills the family when keeper and parent are killed at once. What had its own session, and
// daemons, are dead when the keeper is.
func TestPidBothKilled(t *testing.T) {
	users(t, func(t *testing.T, as *syscall.Credential) {
		for _, command := range []string{"hostile", "forkloop"} {
			t.Run(command, func(t *testing.T) {
				atPid(t, as)
				name := fmt.Sprintf("test%d.%d", os.Getpid(), clock.Now())
				s := newScene(t, command, as, "contain="+name)
				namespace := namespaceOf(s.keeper())
				if len(inside(t, namespace)) < 2 {
					t.Fatal("the family is not in the keeper's namespace")
				}
				for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped first, so that neither acts on the other's death
					for _, pid := range []int{s.keeper(), s.parent} {
						if err := unix.Kill(pid, sig); err != nil {
							t.Fatal(err)
						}
					}
				}
				_ = s.wait()
				eventually(t, "the keeper is dead", func() bool { return !alive(s.keeper()) })
				if left := inside(t, namespace); len(left) > 0 {
					t.Errorf("processes %d of the namespace are alive", left)
				}
				for _, pid := range s.pids {
					if s.lives(pid) {
						t.Errorf("process %d of the family is alive", pid)
					}
				}
				if _, err := supervise.Contain(t.Context(), supervise.Sweep, name, nil); err != nil { // removes its cgroup
					t.Error(err)
				}
			})
		}
	})
}

// TestPidCrowd: 1,000 processes with a session each are dead when their keeper was killed and is reaped.
func TestPidCrowd(t *testing.T) {
	atPid(t, nil)
	f, b := startCrowd(t, 1000, levelOfEnv())
	namespace := namespaceOf(f.Keeper())
	f.KillKeeper()
	if got := wait(t, f); got.Reason != supervise.KeeperLost {
		t.Error(got)
	}
	if left := inside(t, namespace); len(left) > 0 {
		t.Errorf("processes %d are alive", left)
	}
	last := b.lastAct()
	if last > f.Ended() {
		t.Errorf("one acted %v after the death of all", last.Sub(f.Ended()))
	}
}

// TestPidOfTheFamily: the family sees itself alone, cannot end its keeper, and cannot enter the namespace of the host,
// even with the rights of root and with a file of it. The number that the caller gets is that of the caller's namespace.
func TestPidOfTheFamily(t *testing.T) {
	atPid(t, nil)
	w, lines := listen(t)
	script, tries := `kill -9 $PPID; kill -STOP $PPID; kill -0 $PPID; echo $PPID $(ls -d /proc/[0-9]* | wc -l); sleep 100`, false
	if _, err := exec.LookPath("nsenter"); err == nil && os.Getuid() == 0 {
		script, tries = `nsenter --pid=/proc/self/fd/0 true 2>&1; `+script, true
	}
	command := shell(script)
	command.Stdout = w
	host, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	command.Stdin = host
	f := start(t, command)
	if tries && (!lines.Scan() || !strings.Contains(lines.Text(), "Invalid argument")) {
		t.Errorf("nsenter: %q; want Invalid argument", lines.Text())
	}
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "1 ") {
		t.Fatalf("%q; want 1, the number of its parent", lines.Text())
	}
	if n, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "1 ")); n < 2 || n > 6 {
		t.Errorf("it sees %d processes; want its own alone", n)
	}
	if namespaceOf(f.PID()) != namespaceOf(f.Keeper()) || namespaceOf(f.PID()) == namespaceOf(os.Getpid()) {
		t.Errorf("process %d is not the command", f.PID())
	}
	if !alive(f.Keeper()) {
		t.Error("its command has killed the keeper")
	}
}

// TestPidOfOrdinaryUser: the command of an ordinary user has no right that its user has not.
func TestPidOfOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to become another user")
	}
	const user = 54321 // no number that stands for one without a mapping, as nobody's does
	as := &syscall.Credential{Uid: user, Gid: user}
	atPid(t, as)
	cmd := exec.Command(program(t), "/bin/sh", "-c", `id -u; id -g; grep -c "^Cap\(Inh\|Prm\|Eff\|Amb\):.0*$" /proc/self/status; cat /proc/self/setgroups`)
	cmd.Env, cmd.Stderr = partEnv("run"), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.Output()
	if want := fmt.Sprintf("%d\n%d\n4\ndeny\n", user, user); err != nil || string(out) != want {
		t.Errorf("%v, %q; want %q", err, out, want)
	}
}

// TestPidRefused: what is missing is named.
func TestPidRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to take rights away")
	}
	atPid(t, nil)
	as := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	for name, c := range map[string]struct {
		before string
		want   string
	}{
		"no namespaces": {"unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces && exec \"$@\"' sh", "no pid namespace can be made: no space left on device; want root with CAP_SYS_ADMIN, or user namespaces"},
		"masked /proc":  {"unshare --mount sh -c 'mount --bind /dev/null /proc/meminfo && exec \"$@\"' sh " + strings.Join(as, " "), "/proc cannot be mounted in a new pid namespace: operation not permitted; want one that is not masked"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", c.before+` "$0" pid`, program(t))
			cmd.Env, cmd.Stderr = partEnv("level"), os.Stderr
			out, err := cmd.Output()
			if want := "pid: " + supervise.ErrContain.Error() + ": " + c.want; err != nil || !strings.HasPrefix(string(out), want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("%v, %q; want %q", err, out, want)
			}
		})
	}
}

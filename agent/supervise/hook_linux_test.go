package supervise_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
)

// TestHook: what a hook leaves in sessions of its own is dead when RunHook returns, and its cgroup is removed.
func TestHook(t *testing.T) {
	c, name := contain(t)
	file := t.TempDir() + "/pid"
	cmd := exec.Command("sh", "-c", `setsid sh -c 'echo $$ > "$0"; exec sleep 1000' "$0" & until [ -s "$0" ]; do :; done; cat /proc/self/cgroup; exit 3`, file)
	var out strings.Builder
	cmd.Stdout, cmd.WaitDelay = &out, time.Millisecond // the daemon has it open
	if err := c.RunHook(cmd, patience); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v, %v; want exit status 3", err, cmd.ProcessState)
	}
	if pid := readPID(t, file); alive(pid) {
		t.Errorf("process %d, which the hook has left, is alive", pid)
	}
	if !strings.Contains(out.String(), "/elect-"+name+"-h") {
		t.Errorf("the hook ran in %q; want a cgroup of its own", out.String())
	}
	if left := cgroups(t, name); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestHookLimit: a hook has the limit of processes, if they are counted in the cgroups of families.
func TestHookLimit(t *testing.T) {
	c, _ := contain(t)
	root, own, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(own + "/cgroup.subtree_control"); !strings.Contains(string(text), "pids") {
		t.Skipf("want pids in %s/cgroup.subtree_control", own)
	}
	cmd := exec.Command("sh", "-c", `cat "$0$(sed -n s/^0:://p /proc/self/cgroup)/pids.max"`, root)
	var out strings.Builder
	cmd.Stdout = &out
	if err := c.RunHook(cmd, patience); err != nil || out.String() != "256\n" {
		t.Errorf("pids.max is %q, %v; want 256", out.String(), err)
	}
}

// TestHookForkBomb: a fork bomb of daemons is dead when RunHook returns, and nothing of it is left to be reaped. Another
// cgroup limits it.
func TestHookForkBomb(t *testing.T) {
	_, name := contain(t)
	const limit = 100
	pids := boundedPIDs(t, limit)
	path, _ := newBoard(t)
	hook := startPart(t, executable(t), "hook", nil, name, "bomb", "sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, pids, executable(t), "board="+path)
	eventually(t, "the bomb has come to its limit", func() bool { return numberIn(pids+"/pids.current") == limit })
	if err := hook.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := hook.Wait(); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(pids + "/cgroup.procs"); len(text) > 0 {
		t.Errorf("alive: %q", text)
	}
}

// TestHookOutlivesNobody: when the process that runs a hook is killed, the hook's own process is killed, too, and in a
// cgroup the rest is by the next Contain of that name.
func TestHookOutlivesNobody(t *testing.T) {
	for _, level := range []supervise.Level{supervise.Sweep, supervise.Cgroup} {
		t.Run(level.String(), func(t *testing.T) {
			_, name := contain(t)
			if level == supervise.Sweep {
				name = ""
			}
			dir := t.TempDir()
			parent := startPart(t, executable(t), "hook", nil, name, "",
				"sh", "-c", `setsid sh -c 'echo $$ > "$0"; exec sleep 1000' "$0/rest" & echo $$ > "$0/hook"; wait`, dir)
			hook, rest := readPID(t, dir+"/hook"), readPID(t, dir+"/rest")
			defer unix.Kill(rest, unix.SIGKILL)
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			eventually(t, "the hook is dead", func() bool { return !alive(hook) })
			if level == supervise.Sweep {
				return
			}
			if !alive(rest) {
				t.Fatal("nothing was left, so that nothing is shown")
			}
			if _, err := supervise.Contain(t.Context(), supervise.Sweep, name, nil); err != nil {
				t.Fatal(err)
			}
			if alive(rest) {
				t.Errorf("process %d, which the hook has left, is alive", rest)
			}
		})
	}
}

// hook runs a hook until SIGTERM, and fails if children are left. Arguments: the name of the containment, or none for
// no containment; the part that the hook is; the hook.
func hook(args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	check(supervise.AdoptOrphans())
	var c *supervise.Containment
	if args[0] != "" {
		var err error
		c, err = supervise.Contain(ctx, supervise.Cgroup, args[0], nil)
		check(err)
	}
	cmd := exec.CommandContext(ctx, args[2], args[3:]...)
	cmd.Env, cmd.Stderr = partEnv(args[1]), os.Stderr
	if err := c.RunHook(cmd, patience); ctx.Err() == nil {
		check(fmt.Errorf("%v; want a hook that runs until it is killed", err))
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		check(fmt.Errorf("a child is left: %d, %v; want none", pid, err))
	}
}

// readPID waits until a file has a number.
func readPID(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, "a number in "+file, func() bool {
		pid = numberIn(file)
		return pid > 1
	})
	return pid
}

// numberIn is the number in a file, or 0.
func numberIn(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

//go:build linux

package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/race"
)

// Command is a command of scripts in addition to those of testscript and of this package, with its least number of
// arguments.
type Command struct {
	Usage string
	Least int
	Do    func(ts *testscript.TestScript, args []string)
}

// Run runs the scripts of testdata/script. The processes that they start do not outlive them.
func Run(t *testing.T, variables func(*testscript.Env) error, more ...Command) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			if variables != nil {
				if err := variables(env); err != nil {
					return err
				}
			}
			return setUp(env)
		},
		Cmds:                commands(more),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "long":
				return long.Asked(), nil
			case "race":
				return race.Enabled, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// family is the processes that one script has started, by name.
type family struct {
	t     testing.TB
	env   []string
	named map[string]*started
}

type familyKey struct{}

// started is a process that a script runs in the background.
type started struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// setUp ensures that none of a script's processes outlives it.
func setUp(env *testscript.Env) error {
	id := Mark + "=" + env.WorkDir
	env.Vars = append(env.Vars, id, RaceEnv())
	f := &family{t: env.T().(testing.TB), env: env.Vars, named: map[string]*started{}}
	env.Values[familyKey{}] = f
	env.Defer(func() {
		f.end()
		if left := AwaitNone(id); left != "" {
			env.T().Log("processes of the script were left:\n" + left)
			env.T().FailNow()
		}
	})
	return nil
}

// end ends the running processes: with SIGTERM, and then with SIGKILL.
func (f *family) end() {
	late := time.After(Patience)
	for _, s := range f.named {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, s := range f.named {
		select {
		case <-s.done:
			continue
		case <-late:
			late = time.After(0)
		}
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

func commands(more []Command) map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for _, c := range append(more,
		// In the background, with the files NAME.out, NAME.err and NAME.pid. Variables that the script sets with env do not
		// reach it.
		Command{"start NAME COMMAND [ARG…]", 2, start},
		// Waits for its end, which is an exit code or a signal's name.
		Command{"ended NAME END", 2, ended},
		Command{"code NUMBER COMMAND [ARG…]", 2, code},
		Command{"await FILE REGEXP", 2, await},
		Command{"awaitgone PIDFILE", 1, awaitGone},
		Command{"signal NAME PIDFILE", 2, sendSignal},
		// Skips the script where a program of a Debian package is missing, and fails in CI.
		Command{"need PROGRAM PACKAGE", 2, need},
	) {
		name, _, _ := strings.Cut(c.Usage, " ")
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < c.Least {
				ts.Fatalf("usage: %s", c.Usage)
			}
			c.Do(ts, args)
		}
	}
	return all
}

func need(ts *testscript.TestScript, args []string) {
	harness.Need(ts.Value(familyKey{}).(*family).t, args[0], args[1])
}

func start(ts *testscript.TestScript, args []string) {
	name, f := args[0], ts.Value(familyKey{}).(*family)
	if f.named[name] != nil {
		ts.Fatalf("%s was started already", name)
	}
	open := func(suffix string) *os.File {
		file, err := os.OpenFile(ts.MkAbs(name+suffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		ts.Check(err)
		return file
	}
	out, err := open(".out"), open(".err")
	defer out.Close()
	defer err.Close()
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), f.env, out, err
	ts.Check(cmd.Start())
	s := &started{cmd: cmd, done: make(chan struct{})}
	f.named[name] = s
	go func() {
		defer close(s.done)
		_ = cmd.Wait() // the process state says more
	}()
	ts.Check(os.WriteFile(ts.MkAbs(name+".pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o666))
}

func ended(ts *testscript.TestScript, args []string) {
	s := ts.Value(familyKey{}).(*family).named[args[0]]
	if s == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	select {
	case <-s.done:
	case <-time.After(Patience):
		ts.Fatalf("%s has not ended within %v; it said:\n%s", args[0], Patience, ts.ReadFile(args[0]+".err"))
	}
	if got := EndOf(s.cmd.ProcessState); got != args[1] {
		ts.Fatalf("%s ended with %s, not with %s; it said:\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

// EndOf distinguishes a signal from the exit code that a shell would make of it.
func EndOf(state *os.ProcessState) string {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	}
	return strconv.Itoa(state.ExitCode())
}

func code(ts *testscript.TestScript, args []string) {
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = EndOf(exit.ProcessState)
	}
	if got != args[0] {
		ts.Fatalf("it ended with %s, not with %s", got, args[0])
	}
}

func await(ts *testscript.TestScript, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	if !Eventually(func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0]))
		return pattern.Match(text)
	}) {
		ts.Fatalf("%s did not match %q within %v; it has:\n%s", args[0], args[1], Patience, text)
	}
}

func awaitGone(ts *testscript.TestScript, args []string) {
	pid := pidIn(ts, args[0])
	if !Eventually(func() bool { return Dead(pid) }) {
		ts.Fatalf("process %d of %s lives after %v", pid, args[0], Patience)
	}
}

func sendSignal(ts *testscript.TestScript, args []string) {
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("%q is no signal; want a name such as TERM", args[0])
	}
	ts.Check(syscall.Kill(pidIn(ts, args[1]), sig))
}

func pidIn(ts *testscript.TestScript, path string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(path)))
	ts.Check(err)
	if pid <= 1 {
		ts.Fatalf("%s has %d, which is no process of this script", path, pid)
	}
	return pid
}

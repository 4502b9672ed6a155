//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/long"
)

// TestScript runs the scripts of testdata/script.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               setUp,
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "long":
				return long.Asked(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// family is the processes that one script has started, by name.
type family struct {
	env   []string
	named map[string]*started
}

type familyKey struct{}

// started is a process that a script has running beside it.
type started struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// setUp gives a script a state directory of its own, and makes sure that none
// of its processes outlives it.
func setUp(env *testscript.Env) error {
	id := mark + "=" + env.WorkDir
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	voters, err := freePeers(8)
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars, id, raceEnv(), "XDG_STATE_HOME="+filepath.Join(env.WorkDir, "state"), "EXAMPLES="+examples,
		"PEERS=peer://"+strings.Join(voters[:3], ",")+"?profile=lan")
	for i, v := range voters {
		env.Vars = append(env.Vars, fmt.Sprintf("N%d=%s", i+1, v))
	}
	f := &family{env: env.Vars, named: map[string]*started{}}
	env.Values[familyKey{}] = f
	env.Defer(func() {
		f.end()
		if left := awaitNone(id); left != "" {
			env.T().Log("processes of the script were left:\n" + left)
			env.T().FailNow()
		}
	})
	return nil
}

// freePeers are n peers as they stand in a URL, on ports of the loopback that are
// free. Somebody else may take one before they do.
func freePeers(n int) (voters []string, err error) {
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open until all are known
		voters = append(voters, fmt.Sprintf("n%d@%v", i+1, l.Addr()))
	}
	return voters, nil
}

// end ends what still runs: as a person would, and hard if that does not help.
func (f *family) end() {
	late := time.After(patience)
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

// scriptCommands are those that scripts have beyond testscript's own.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for _, c := range []struct {
		usage string
		least int // arguments
		do    func(ts *testscript.TestScript, args []string)
	}{
		// In the background, with the files NAME.out, NAME.err and NAME.pid.
		// What the script sets with env does not reach it.
		{"start NAME COMMAND [ARG…]", 2, start},
		// Waits for its end, which is an exit code or a signal's name.
		{"ended NAME END", 2, ended},
		{"code NUMBER COMMAND [ARG…]", 2, code},
		{"await FILE REGEXP", 2, await},
		{"awaitgone PIDFILE", 1, awaitGone},
		{"signal NAME PIDFILE", 2, sendSignal},
		{"readenv NAME FILE", 2, readEnv},
		{"addresses FILE", 1, addresses},
		// METHOD URL [RESOURCE;TOKEN [BODY]]; - is no token.
		{"ask METHOD URL", 2, ask},
	} {
		name, _, _ := strings.Cut(c.usage, " ")
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < c.least {
				ts.Fatalf("usage: %s", c.usage)
			}
			c.do(ts, args)
		}
	}
	return all
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
		_ = cmd.Wait() // the state tells more
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
	case <-time.After(patience):
		ts.Fatalf("%s has not ended within %v; it said:\n%s", args[0], patience, ts.ReadFile(args[0]+".err"))
	}
	if got := endOf(s.cmd.ProcessState); got != args[1] {
		ts.Fatalf("%s ended with %s, not with %s; it said:\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

// endOf tells a signal from the exit code that a shell would make of it.
func endOf(state *os.ProcessState) string {
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
		got = endOf(exit.ProcessState)
	}
	if got != args[0] {
		ts.Fatalf("it ended with %s, not with %s", got, args[0])
	}
}

func await(ts *testscript.TestScript, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	if !eventually(func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0]))
		return pattern.Match(text)
	}) {
		ts.Fatalf("%s did not match %q within %v; it has:\n%s", args[0], args[1], patience, text)
	}
}

func awaitGone(ts *testscript.TestScript, args []string) {
	pid := pidIn(ts, args[0])
	if !eventually(func() bool { return dead(pid) }) {
		ts.Fatalf("process %d of %s lives after %v", pid, args[0], patience)
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

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/cli/clitest"
	"github.com/electd/elect/internal/terminal"
)

// environment is that of the processes of one test: with a state directory of
// their own. None of them outlives the test.
func environment(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	id := clitest.Mark + "=" + dir
	t.Cleanup(func() {
		if left := clitest.AwaitNone(id); left != "" {
			t.Errorf("processes of the test were left:\n%s", left)
		}
	})
	return []string{
		id, clitest.RaceEnv(), "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"TERM=dumb", "PS1=$ ", "HISTFILE=", "ENV=",
	}
}

// screen is a terminal on which a program of a test runs.
type screen struct {
	*terminal.Terminal
	t *testing.T
}

// open starts a program on a terminal of its own.
func open(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	return &screen{terminal.Start(t, cmd), t}
}

// expectEnd waits until the program has ended, and wants it to end like that.
func (s *screen) expectEnd(want string) {
	s.t.Helper()
	late := time.AfterFunc(clitest.Patience, func() { _ = s.Cmd.Process.Signal(syscall.SIGABRT) })
	defer late.Stop()
	_ = s.Cmd.Wait() // the state tells more
	if got := clitest.EndOf(s.Cmd.ProcessState); got != want {
		s.t.Fatalf("it ended with %s, not with %s", got, want)
	}
}

func TestTerminalInput(t *testing.T) {
	s := open(t, environment(t), "elect", "run", "--", "cat")
	s.Expect("elect: leading cat (token 1) at file:")
	for _, line := range []string{"hello", "again"} {
		s.Type(line + "\n")
		s.Expect(line + "\r\n") // the terminal's echo
		s.Expect(line + "\r\n") // cat's
	}
	s.Type(terminal.CtrlD)
	s.expectEnd("0")
}

// Ctrl-C is the command's, and the end of elect with it: also where a command
// that was interrupted would be started again otherwise.
func TestTerminalInterrupt(t *testing.T) {
	for name, flags := range map[string][]string{
		"default": nil, "once": {"--once"}, "always": {"--restart", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(append([]string{"elect", "run"}, flags...), "--", "sh", "-c", "echo started; exec sleep 1000")
			s := open(t, environment(t), args...)
			s.Expect("started\r\n")
			s.Type(terminal.CtrlC)
			s.expectEnd("130")
		})
	}
}

// A command that deals with Ctrl-C goes on.
func TestTerminalInterruptCaught(t *testing.T) {
	s := open(t, environment(t), "elect", "run", "--", "sh", "-c", `trap "echo caught" INT; echo started; while :; do read line && exit "$line"; done`)
	s.Expect("started\r\n")
	s.Type(terminal.CtrlC)
	s.Expect("caught\r\n")
	s.Type("6\n")
	s.Expect("sh ended: exit status 6")
	s.Expect("elect: leading sh (token 2)")
	s.Expect("started\r\n")
	s.Type("0\n")
	s.expectEnd("0")
}

// Standing by, there is no command that Ctrl-C could be for.
func TestTerminalInterruptStandingBy(t *testing.T) {
	env := environment(t)
	leader := open(t, env, "elect", "run", "--id", "a", "--", "cat")
	leader.Expect("leading cat (token 1)")
	s := open(t, env, "elect", "run", "--id", "b", "--", "cat")
	s.Expect("elect: standing by for cat (behind a, token 1)\r\n")
	s.Type(terminal.CtrlC)
	s.expectEnd("0")
	leader.Type(terminal.CtrlD)
	leader.expectEnd("0")
}

// A shell with job control stops and continues elect and its command as one.
func TestTerminalStop(t *testing.T) {
	for name, shell := range map[string][]string{
		"sh": {"sh", "-i"}, "bash": {"bash", "--norc", "--noprofile", "--noediting", "-i"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip(err)
			}
			s := open(t, environment(t), shell...)
			s.Type("stty -echo; echo re''ady\n")
			s.Expect("ready\r\n")
			s.Type("elect run -- cat; echo code=$?\n")
			s.Expect("leading cat (token 1) at file:")
			for _, line := range []string{"one", "two"} {
				s.Type(line + "\n")
				s.Expect(line + "\r\n")
				s.Type(terminal.CtrlZ)
				s.Expect("Stopped")
				s.Expect("$ ")
				s.Type("echo the shell has it\n")
				s.Expect("the shell has it\r\n")
				s.Type("fg; echo code=$?\n")
				s.Expect("elect run -- cat")
			}
			s.Type("three\n")
			s.Expect("three\r\n")
			s.Type(terminal.CtrlD)
			s.Expect("code=0\r\n")
			s.Type("echo the shell has it back\n")
			s.Expect("the shell has it back\r\n")
			s.Type("exit 3\n")
			s.expectEnd("3")
		})
	}
}

// elect top and elect group top restore the terminal however it ends, and draws anew when a shell has continued it.
func TestTopOnTerminal(t *testing.T) {
	env := append(environment(t), "TERM=xterm", "NO_COLOR=1")
	s := open(t, env, "sh", "-i")
	s.Type("stty -echo; echo re''ady\n")
	s.Expect("ready\r\n")
	s.Type("elect run --name nightly --id web-1 -- elect top; echo code=$?\n")
	s.Expect(pictureBegins)
	s.Expect("1 election,")
	s.Expect("> nightly")
	s.Expect("web-1")
	s.Resize(30, 90)
	s.Expect("by name")
	s.Type("\r")
	s.Expect("leader web-1, token 1")
	s.Type("q")
	s.Expect(pictureEnds)
	s.Expect("code=0\r\n")
	s.Type("elect top; echo code=$?\n")
	s.Expect(pictureBegins)
	s.Expect("(nobody)")
	s.Type(terminal.CtrlZ)
	s.Expect(pictureEnds)
	s.Expect("Stopped")
	s.Expect("$ ")
	s.Type("fg; echo code=$?\n")
	s.Expect(pictureBegins)
	s.Expect("(nobody)")
	s.Type(terminal.CtrlC)
	s.Expect(pictureEnds)
	s.Expect("code=0\r\n")
	s.Type("elect run --election group+file:$HOME/g --name k --id m1 -- elect group top --election group+file:$HOME/g; echo code=$?\n")
	s.Expect(pictureBegins)
	s.Expect("1 member,")
	s.Expect("coordinator m1, token 1")
	s.Type("s")
	s.Expect("by keys")
	s.Type("q")
	s.Expect(pictureEnds)
	s.Expect("code=0\r\n")
	s.Type("exec elect top\n")
	s.Expect(pictureBegins)
	s.Expect("(nobody)")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Expect(pictureEnds)
	s.expectEnd("0")
}

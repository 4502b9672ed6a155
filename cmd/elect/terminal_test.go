//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// environment is that of the processes of one test: with a state directory of
// their own. None of them outlives the test.
func environment(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	id := mark + "=" + dir
	t.Cleanup(func() {
		if left := awaitNone(id); left != "" {
			t.Errorf("processes of the test were left:\n%s", left)
		}
	})
	return []string{
		id, raceEnv(), "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"TERM=dumb", "PS1=$ ", "HISTFILE=", "ENV=",
	}
}

// screen is a terminal with a person at it.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	read   chan struct{} // nobody has the terminal open any more

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int // how much of it was expected already
}

// open starts a program on a terminal of its own, as the leader of a session.
func open(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, cmd: exec.Command(args[0], args[1:]...), read: make(chan struct{})}
	s.cmd.Env = env
	var err error
	if s.master, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: 200}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		buf := make([]byte, 4096)
		for {
			n, err := s.master.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		s.master.Close()         // hangs up
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Wait()
		}
		<-s.read
		if t.Failed() {
			t.Logf("the screen:\n%s", s.shown.String())
		}
	})
	return s
}

func (s *screen) typeIn(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for text after what was expected last.
func (s *screen) expect(text string) {
	s.t.Helper()
	if !eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := strings.Index(s.shown.String()[s.seen:], text)
		if at < 0 {
			return false
		}
		s.seen += at + len(text)
		return true
	}) {
		s.t.Fatalf("%q was not on the screen within %v", text, patience)
	}
}

// expectEnd waits until the program has ended, and wants it to end like that.
func (s *screen) expectEnd(want string) {
	s.t.Helper()
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Signal(syscall.SIGABRT) })
	defer late.Stop()
	_ = s.cmd.Wait() // the state tells more
	if got := endOf(s.cmd.ProcessState); got != want {
		s.t.Fatalf("it ended with %s, not with %s", got, want)
	}
}

func TestTerminalInput(t *testing.T) {
	s := open(t, environment(t), "elect", "run", "--", "cat")
	s.expect("elect: leading cat (token 1)\r\n")
	for _, line := range []string{"hello", "again"} {
		s.typeIn(line + "\n")
		s.expect(line + "\r\n") // the terminal's echo
		s.expect(line + "\r\n") // cat's
	}
	s.typeIn(ctrlD)
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
			s.expect("started\r\n")
			s.typeIn(ctrlC)
			s.expectEnd("130")
		})
	}
}

// A command that deals with Ctrl-C goes on.
func TestTerminalInterruptCaught(t *testing.T) {
	s := open(t, environment(t), "elect", "run", "--", "sh", "-c", `trap "echo caught" INT; echo started; while :; do read line && exit "$line"; done`)
	s.expect("started\r\n")
	s.typeIn(ctrlC)
	s.expect("caught\r\n")
	s.typeIn("6\n")
	s.expect("sh ended: exit status 6")
	s.expect("elect: leading sh (token 2)")
	s.expect("started\r\n")
	s.typeIn("0\n")
	s.expectEnd("0")
}

// Standing by, there is no command that Ctrl-C could be for.
func TestTerminalInterruptStandingBy(t *testing.T) {
	env := environment(t)
	leader := open(t, env, "elect", "run", "--id", "a", "--", "cat")
	leader.expect("leading cat (token 1)")
	s := open(t, env, "elect", "run", "--id", "b", "--", "cat")
	s.expect("elect: standing by for cat (behind a, token 1)\r\n")
	s.typeIn(ctrlC)
	s.expectEnd("0")
	leader.typeIn(ctrlD)
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
			s.typeIn("stty -echo; echo re''ady\n")
			s.expect("ready\r\n")
			s.typeIn("elect run -- cat; echo code=$?\n")
			s.expect("leading cat (token 1)\r\n")
			for _, line := range []string{"one", "two"} {
				s.typeIn(line + "\n")
				s.expect(line + "\r\n")
				s.typeIn(ctrlZ)
				s.expect("Stopped")
				s.typeIn("echo the shell has it\n")
				s.expect("the shell has it\r\n")
				s.typeIn("fg; echo code=$?\n")
				s.expect("elect run -- cat")
			}
			s.typeIn("three\n")
			s.expect("three\r\n")
			s.typeIn(ctrlD)
			s.expect("code=0\r\n")
			s.typeIn("echo the shell has it back\n")
			s.expect("the shell has it back\r\n")
			s.typeIn("exit 3\n")
			s.expectEnd("3")
		})
	}
}

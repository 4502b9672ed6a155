package supervise_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/terminal"
)

// newTerminal starts a program on a terminal.
func newTerminal(t *testing.T, env []string, args ...string) *terminal.Terminal {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return terminal.Start(t, cmd)
}

// newShell starts a shell that does job control. In it, r runs a command under
// supervision.
func newShell(t *testing.T) *terminal.Terminal {
	s := newTerminal(t, append(os.Environ(), "PS1=$ ", "R="+program(t), "ENV=", "HISTFILE=", "SUPERVISE_PART="), "/bin/sh", "-i")
	s.Type(`r() { SUPERVISE_PART=run "$R" "$@"; }; stty -echo; echo re''ady` + "\n")
	s.Expect("ready\r\n")
	return s
}

func TestTerminalInput(t *testing.T) {
	s := newShell(t)
	s.Type("r cat; echo code=$?\n")
	s.Type("hello\n")
	s.Expect("hello\r\n")
	s.Type(terminal.CtrlD)
	s.Expect("code=0")
	s.Type("echo shell has it back\n")
	s.Expect("shell has it back\r\n")
}

func TestTerminalInterrupt(t *testing.T) {
	s := newShell(t)
	// Neither forks after it said so: some shells lose an interrupt between
	// vfork and exec, supervised or not.
	s.Type("r sh -c 'echo started; exec sleep 100'; echo code=$?\n")
	s.Expect("started")
	s.Type(terminal.CtrlC)
	s.Expect("code=130")
	s.Type("r sh -c 'trap \"echo caught; exit 5\" INT; echo started; read x'; echo code=$?\n")
	s.Expect("started")
	s.Type(terminal.CtrlC)
	s.Expect("caught")
	s.Expect("code=5")
}

func TestTerminalStopAndForeground(t *testing.T) {
	s := newShell(t)
	s.Type("SUPERVISE_PART=run \"$R\" cat\n")
	for range 3 {
		s.Type("one\n")
		s.Expect("one\r\n")
		s.Type(terminal.CtrlZ)
		s.Expect("Stopped")
		s.Expect("$ ")
		s.Type("echo shell has it\n")
		s.Expect("shell has it\r\n")
		s.Type("fg\n")
		s.Expect("cat") // the shell says what it continues
		s.Type("two\n")
		s.Expect("two\r\n")
	}
	s.Type(terminal.CtrlC)
	s.Expect("$ ") // the terminal drops what is typed before it has seen to the interrupt
	s.Type("echo code=$?\n")
	s.Expect("code=130")
}

func TestTerminalFromTheBackground(t *testing.T) {
	s := newShell(t)
	// It reads from the terminal, and is stopped for that.
	s.Type("SUPERVISE_PART=run \"$R\" cat &\n")
	eventually(t, "the job has stopped", func() bool {
		s.Type("jobs\n")
		time.Sleep(50 * time.Millisecond)
		return strings.Contains(s.Text(), "Stopped")
	})
	s.Type("fg\n")
	s.Expect("cat")
	s.Type("hello\n")
	s.Expect("hello\r\n")
	s.Type(terminal.CtrlD)
	s.Type("echo code=$?\n")
	s.Expect("code=0")
}

func TestTerminalBackgroundAfterStop(t *testing.T) {
	s := newShell(t)
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// It waits without forking: a shell whose child is stopped between vfork
	// and exec cannot be stopped itself, supervised or not.
	s.Type("SUPERVISE_PART=run \"$R\" sh -c 'echo started; read x <\"$0\"; echo on' '" + fifo + "'\n")
	s.Expect("started")
	s.Type(terminal.CtrlZ)
	s.Expect("Stopped")
	s.Expect("$ ")
	s.Type("bg; echo in the back\n")
	s.Expect("in the back")
	s.Type("echo >'" + fifo + "'\n")
	s.Expect("on\r\n")
	s.Type("wait; echo code=$?\n")
	s.Expect("code=0")
}

func TestTerminalShellInside(t *testing.T) {
	s := newShell(t)
	s.Type("r /bin/sh -i; echo code=$?\n")
	s.Type("echo in''side; cat\n")
	s.Expect("inside")
	s.Type("text\n")
	s.Expect("text")
	s.Type(terminal.CtrlZ) // for the inner shell's cat
	s.Expect("Stopped")
	s.Expect("$ ")
	s.Type("echo inner''most; kill %1; exit 7\n")
	s.Expect("innermost")
	s.Type("exit 7\n") // a shell may warn of stopped jobs first; the outer one then exits
	s.Expect("code=7")
}

// TestTerminalWithoutAShell has nobody who could continue a stopped job: the
// command must go on as if Ctrl-Z did nothing, as it does without supervision.
func TestTerminalWithoutAShell(t *testing.T) {
	s := newTerminal(t, partEnv("run"), program(t), "/bin/cat")
	s.Type("one\n")
	s.Expect("one\r\none\r\n")
	s.Type(terminal.CtrlZ)
	s.Type("two\n")
	s.Expect("two\r\ntwo\r\n")
	s.Type(terminal.CtrlD)
}

// TestTerminalAfterTheCommandWasKilled leaves modes that nobody can type in.
func TestTerminalAfterTheCommandWasKilled(t *testing.T) {
	s := newShell(t)
	s.Type("stty echo\n")
	s.Type("r sh -c 'stty raw -echo; echo started; kill -KILL $$'; stty -a\n")
	s.Expect("started")
	s.Expect(" icanon")
	s.Expect(" echo ")
}

// TestTerminalParentKilled has the shell get its terminal back.
func TestTerminalParentKilled(t *testing.T) {
	s := newShell(t)
	s.Type("r sh -c 'echo started; kill -KILL $(ps -o ppid= -p $PPID); sleep 100'; echo code=$?\n")
	s.Expect("started")
	s.Expect("code=137")
	s.Type("echo shell has it back\n")
	s.Expect("shell has it back\r\n")
}

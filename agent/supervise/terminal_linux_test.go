package supervise_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal with a person at it.
type screen struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
	seen   int // how much of it has been expected already
}

// newScreen starts a program on a terminal of its own, as a session's leader.
func newScreen(t *testing.T, env []string, args ...string) (*screen, *exec.Cmd) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	s := &screen{t: t, master: os.NewFile(uintptr(fd), "ptmx")}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := s.master.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return // EIO: nobody has the terminal open any more
			}
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			ps, _ := exec.Command("ps", "-s", fmt.Sprint(cmd.Process.Pid), "-o", "pid,ppid,pgid,tpgid,stat,wchan:20,pending,ignored,args").Output()
			t.Logf("the session:\n%s", ps)
		}
		s.master.Close() // hangs up
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-read
		if t.Failed() {
			t.Logf("the screen:\n%s", s.shown.String())
		}
	})
	return s, cmd
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
	eventually(s.t, fmt.Sprintf("%q on the screen", text), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := strings.Index(s.shown.String()[s.seen:], text)
		if at < 0 {
			return false
		}
		s.seen += at + len(text)
		return true
	})
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// newShell starts a shell that does job control. In it, r runs a command under
// supervision.
func newShell(t *testing.T) *screen {
	s, _ := newScreen(t, append(os.Environ(), "PS1=$ ", "R="+program(t), "ENV=", "HISTFILE=", "SUPERVISE_PART="), "/bin/sh", "-i")
	s.typeIn(`r() { SUPERVISE_PART=run "$R" "$@"; }; stty -echo; echo re''ady` + "\n")
	s.expect("ready\r\n")
	return s
}

func TestTerminalInput(t *testing.T) {
	s := newShell(t)
	s.typeIn("r cat; echo code=$?\n")
	s.typeIn("hello\n")
	s.expect("hello\r\n")
	s.typeIn(ctrlD)
	s.expect("code=0")
	s.typeIn("echo shell has it back\n")
	s.expect("shell has it back\r\n")
}

func TestTerminalInterrupt(t *testing.T) {
	s := newShell(t)
	// Neither forks after it said so: some shells lose an interrupt between
	// vfork and exec, supervised or not.
	s.typeIn("r sh -c 'echo started; exec sleep 100'; echo code=$?\n")
	s.expect("started")
	s.typeIn(ctrlC)
	s.expect("code=130")
	s.typeIn("r sh -c 'trap \"echo caught; exit 5\" INT; echo started; read x'; echo code=$?\n")
	s.expect("started")
	s.typeIn(ctrlC)
	s.expect("caught")
	s.expect("code=5")
}

func TestTerminalStopAndForeground(t *testing.T) {
	s := newShell(t)
	s.typeIn("SUPERVISE_PART=run \"$R\" cat\n")
	for range 3 {
		s.typeIn("one\n")
		s.expect("one\r\n")
		s.typeIn(ctrlZ)
		s.expect("Stopped")
		s.typeIn("echo shell has it\n")
		s.expect("shell has it\r\n")
		s.typeIn("fg\n")
		s.expect("cat") // the shell says what it continues
		s.typeIn("two\n")
		s.expect("two\r\n")
	}
	s.typeIn(ctrlC)
	s.expect("$ ") // the terminal drops what is typed before it has seen to the interrupt
	s.typeIn("echo code=$?\n")
	s.expect("code=130")
}

func TestTerminalFromTheBackground(t *testing.T) {
	s := newShell(t)
	// It reads from the terminal, and is stopped for that.
	s.typeIn("SUPERVISE_PART=run \"$R\" cat &\n")
	eventually(t, "the job has stopped", func() bool {
		s.typeIn("jobs\n")
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.shown.String(), "Stopped")
	})
	s.typeIn("fg\n")
	s.expect("cat")
	s.typeIn("hello\n")
	s.expect("hello\r\n")
	s.typeIn(ctrlD)
	s.typeIn("echo code=$?\n")
	s.expect("code=0")
}

func TestTerminalBackgroundAfterStop(t *testing.T) {
	s := newShell(t)
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// It waits without forking: a shell whose child is stopped between vfork
	// and exec cannot be stopped itself, supervised or not.
	s.typeIn("SUPERVISE_PART=run \"$R\" sh -c 'echo started; read x <\"$0\"; echo on' " + fifo + "\n")
	s.expect("started")
	s.typeIn(ctrlZ)
	s.expect("Stopped")
	s.typeIn("bg; echo in the back\n")
	s.expect("in the back")
	s.typeIn("echo >" + fifo + "\n")
	s.expect("on\r\n")
	s.typeIn("wait; echo code=$?\n")
	s.expect("code=0")
}

func TestTerminalShellInside(t *testing.T) {
	s := newShell(t)
	s.typeIn("r /bin/sh -i; echo code=$?\n")
	s.typeIn("echo in''side; cat\n")
	s.expect("inside")
	s.typeIn("text\n")
	s.expect("text")
	s.typeIn(ctrlZ) // for the inner shell's cat
	s.expect("Stopped")
	s.typeIn("echo inner''most; kill %1; exit 7\n")
	s.expect("innermost")
	s.typeIn("exit 7\n") // a shell may warn of stopped jobs first; the outer one then exits
	s.expect("code=7")
}

// TestTerminalWithoutAShell has nobody who could continue a stopped job: the
// command must go on as if Ctrl-Z did nothing, as it does without supervision.
func TestTerminalWithoutAShell(t *testing.T) {
	s, _ := newScreen(t, partEnv("run"), program(t), "/bin/cat")
	s.typeIn("one\n")
	s.expect("one\r\none\r\n")
	s.typeIn(ctrlZ)
	s.typeIn("two\n")
	s.expect("two\r\ntwo\r\n")
	s.typeIn(ctrlD)
}

// TestTerminalAfterTheCommandWasKilled leaves modes that nobody can type in.
func TestTerminalAfterTheCommandWasKilled(t *testing.T) {
	s := newShell(t)
	s.typeIn("stty echo\n")
	s.typeIn("r sh -c 'stty raw -echo; echo started; kill -KILL $$'; stty -a\n")
	s.expect("started")
	s.expect(" icanon")
	s.expect(" echo ")
}

// TestTerminalParentKilled has the shell get its terminal back.
func TestTerminalParentKilled(t *testing.T) {
	s := newShell(t)
	s.typeIn("r sh -c 'echo started; kill -KILL $(ps -o ppid= -p $PPID); sleep 100'; echo code=$?\n")
	s.expect("started")
	s.expect("code=137")
	s.typeIn("echo shell has it back\n")
	s.expect("shell has it back\r\n")
}

// Package terminal simulates a terminal with a person at it, for tests of interactive programs: the test types, and
// waits for output.
//
// A [Terminal] belongs to its test's goroutine. A failure, or output that does not come in time, ends the test. At
// the test's end the terminal is hung up and the program killed.
package terminal

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The bytes that keys send.
const (
	CtrlC = "\x03"
	CtrlD = "\x04"
	CtrlZ = "\x1a"
)

// patience is how long a test waits for output that takes milliseconds.
const patience = 30 * time.Second

// Terminal is a terminal with a program on it, which leads the session.
type Terminal struct {
	Cmd *exec.Cmd // the program

	t      testing.TB
	fd     int // the other end, until the test is over
	master *os.File
	seen   int // how much of the output was already expected

	mu    sync.Mutex
	shown []byte
	more  chan struct{} // closed, and replaced, at further output
}

// Start starts cmd on a terminal of its own of 24 rows and 200 columns.
func Start(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	s := &Terminal{Cmd: cmd, t: t, fd: fd, master: os.NewFile(uintptr(fd), "ptmx"), more: make(chan struct{})}
	s.Resize(24, 200)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			ps, _ := exec.Command("ps", "-s", fmt.Sprint(cmd.Process.Pid), "-o", "pid,ppid,pgid,tpgid,stat,wchan:20,pending,ignored,args").Output()
			t.Logf("the session:\n%s", ps)
		}
		s.master.Close()       // hangs up
		_ = cmd.Process.Kill() // it may have ended
		if cmd.ProcessState == nil {
			_ = cmd.Wait()
		}
		<-read
		if t.Failed() {
			t.Logf("the screen:\n%s", s.shown)
		}
	})
	return s
}

// read collects the program's output, until no process has the terminal open.
func (s *Terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.shown = append(s.shown, buf[:n]...)
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Resize gives the terminal another size.
func (s *Terminal) Resize(rows, columns uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(s.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		s.t.Fatal(err)
	}
}

// Type types text.
func (s *Terminal) Type(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// Expect waits until text appears after the text expected last, for half a minute at most.
func (s *Terminal) Expect(text string) {
	s.t.Helper()
	late := time.After(patience)
	for {
		s.mu.Lock()
		at, more := bytes.Index(s.shown[s.seen:], []byte(text)), s.more
		s.mu.Unlock()
		if at >= 0 {
			s.seen += at + len(text)
			return
		}
		select {
		case <-more:
		case <-late:
			s.t.Fatalf("%q was not on the screen within %v", text, patience)
		}
	}
}

// Text is all output so far.
func (s *Terminal) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

// Package terminal is a terminal with a person at it, for tests of programs that
// are used at one: the person types, and waits for what is to be seen.
//
// A [Terminal] belongs to its test's goroutine. What fails, or is not seen in
// time, ends the test. At its end the terminal is hung up and the program killed.
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

// What keys send.
const (
	CtrlC = "\x03"
	CtrlD = "\x04"
	CtrlZ = "\x1a"
)

// patience is how long a person waits for what takes milliseconds.
const patience = 30 * time.Second

// Terminal is one on which a program runs, as the leader of a session.
type Terminal struct {
	Cmd *exec.Cmd // the program

	t      testing.TB
	fd     int // the terminal's other end, until the test is over
	master *os.File
	seen   int // how much of what is shown was expected already

	mu    sync.Mutex
	shown []byte
	more  chan struct{} // closed, and made anew, when more is shown
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

// read shows what the program writes, until nobody has the terminal open any more.
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

// Expect waits until text is shown after what was expected last, for half a minute at
// most.
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

// Text is all that was shown so far.
func (s *Terminal) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

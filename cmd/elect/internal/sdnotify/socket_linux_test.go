package sdnotify

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func listen(t *testing.T) *Socket {
	t.Helper()
	s, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSocket(t *testing.T) {
	s := listen(t)
	if err := Send(s.Name(), "READY=1\nSTATUS=up"); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Next(time.Now().Add(time.Minute)); err != nil || !m.Ready || m.Status == nil || *m.Status != "up" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := s.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%+v, %v; want the deadline", m, err)
	}
	_ = s.Close()
	if _, err := s.Next(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v; want net.ErrClosed", err)
	}
	if err := Send(s.Name(), "READY=1"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%v; want that nobody listens", err)
	}
	for _, name := range []string{"", "vsock:2:1234", "relative", filepath.Join(t.TempDir(), "none"), "/" + string(make([]byte, 200))} {
		if Send(name, "READY=1") == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

// TestSendDoesNotWait: Send fails when the manager does not read.
func TestSendDoesNotWait(t *testing.T) {
	s := listen(t)
	for range 1 << 16 {
		if err := Send(s.Name(), "WATCHDOG=1"); err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the socket is never full")
}

// TestBarrier: descriptors that come with a message are closed, in order: senders wait for that.
func TestBarrier(t *testing.T) {
	s := listen(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(fd, []byte("BARRIER=1"), unix.UnixRights(int(w.Fd())), &unix.SockaddrUnix{Name: s.Name()}, 0); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := s.Next(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_ = r.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := r.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v; want the end of the pipe", n, err)
	}
}

// TestWhoMaySpeak: this user, root, and those that descend from this process.
func TestWhoMaySpeak(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	other := uint32(os.Geteuid()) + 1
	for _, c := range []struct {
		pid  int
		uid  uint32
		want bool
	}{
		{1, 0, true}, {1, uint32(os.Geteuid()), true}, {1, other, false}, {os.Getppid(), other, false},
		{child.Process.Pid, other, true}, {os.Getpid(), other, true}, {0, other, false}, {1 << 30, other, false},
	} {
		if got := mayspeak(unix.UnixCredentials(&unix.Ucred{Pid: int32(c.pid), Uid: c.uid})); got != c.want {
			t.Errorf("process %d of user %d: %v", c.pid, c.uid, got)
		}
	}
	if mayspeak(nil) {
		t.Error("a message without credentials is heard")
	}
}

package supervise_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/proc"
)

// stuckEnv names the file system on which stuck gets stuck.
const stuckEnv = "SUPERVISE_STUCK"

// stuck asks a file system that does not answer, and cannot be killed until it does.
func stuck(args []string) {
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	b.Members[0].PID.Store(int64(os.Getpid()))
	if addr := os.Getenv("SUPERVISE_ADDR"); addr != "" { // with a connection
		fd, err := socketTo(addr, unix.SOCK_STREAM)
		check(err)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		check(err)
		_, err = unix.Write(fd, []byte("before"))
		check(err)
	}
	// A program with one thread: in this one another thread than the main thread might get stuck.
	check(unix.Exec("/bin/cat", []string{"cat", filepath.Join(os.Getenv(stuckEnv), "file")}, nil))
}

// deafDisk mounts a file system that answers nothing, and returns the processes that ask
// it, and what has it fail.
func deafDisk(t *testing.T) (dir string, asked <-chan int, fail func()) {
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: a process in state D needs root, to mount a file system")
	}
	dir = t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("NOT RUN: a process in state D needs FUSE: %v", err)
	}
	fail = sync.OnceFunc(func() { unix.Close(fd) })
	t.Cleanup(fail)
	if err := unix.Mount("deaf", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Skipf("NOT RUN: a process in state D needs FUSE: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	// The first request is FUSE_INIT, of linux/fuse.h: 40 bytes of header, then
	// what the kernel speaks. The answer is 16 bytes of header and 64 more.
	in := make([]byte, 1<<17)
	n, err := unix.Read(fd, in)
	if err != nil || n < 48 || binary.NativeEndian.Uint32(in[4:]) != 26 {
		t.Fatalf("FUSE_INIT: %d bytes, %v", n, err)
	}
	out := make([]byte, 16+64)
	binary.NativeEndian.PutUint32(out, uint32(len(out)))
	copy(out[8:16], in[8:16])                     // the request's number
	copy(out[16:20], in[40:44])                   // version 7
	copy(out[20:24], in[44:48])                   // and its minor number
	binary.NativeEndian.PutUint32(out[36:], 4096) // of a write
	if _, err := unix.Write(fd, out); err != nil {
		t.Fatal(err)
	}
	// What is asked after that is taken, and never answered.
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	over, pids := make(chan struct{}), make(chan int, 16)
	var reader sync.WaitGroup
	closeFD := fail
	fail = sync.OnceFunc(func() { close(over); reader.Wait(); closeFD() })
	t.Cleanup(fail)
	reader.Go(func() {
		for {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, _ = unix.Poll(fds, 10)
			if n, _ := unix.Read(fd, in); n >= 40 {
				select {
				case pids <- int(binary.NativeEndian.Uint32(in[32:])):
				default:
				}
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	return dir, pids, fail
}

// awaitStuck waits until the command sleeps in a way that no signal ends, and returns its pid. A signal wakes it once
// after the file system has taken its request; until it has had a processor again it is running.
func awaitStuck(t *testing.T, b *board, asked <-chan int) (pid int) {
	t.Helper()
	eventually(t, "the file system has the request of the command", func() bool {
		select {
		case pid = <-asked:
		default:
		}
		return pid != 0 && innermost(pid) == int(b.Members[0].PID.Load())
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it cannot be killed", func() bool { s, _ := proc.Read(pid); return s.State == 'D' })
	return pid
}

// TestOutlived: a process that cannot be killed outlives the lease, and the keeper says so: to its parent, in the log,
// and by holding the lock until it is dead.
func TestOutlived(t *testing.T) { testOutlived(t) }

// TestOutlivedAtLevels: no level can kill such a process. At each the keeper holds the lock, and says why, and its
// witness is silent, until the process is dead.
func TestOutlivedAtLevels(t *testing.T) {
	long.Full(t, "each family outlives its lease")
	for _, level := range []string{"cgroup", "pid"} {
		t.Run(level, func(t *testing.T) {
			atLevel(t, level, nil)
			t.Run("lease", testOutlived)
			t.Run("parent killed", testOutlivedItsParent)
		})
	}
}

func testOutlived(t *testing.T) {
	dir, asked, fail := deafDisk(t)
	t.Setenv(stuckEnv, dir)
	path := filepath.Join(t.TempDir(), "board")
	if err := os.WriteFile(path, make([]byte, 8192), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	exe := program(t)
	lock := flocked(t)
	cmd := shell(`exec "$@"`)
	cmd.Args, cmd.Env = append(cmd.Args, "sh", exe, "board="+path), partEnv("stuck")
	cmd.Containment = levelOfEnv()
	cmd = cmd.With(supervise.Held{Hold: []*os.File{lock}})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cmd.Logger = slog.New(slog.NewTextHandler(w, nil))
	f := start(t, cmd)
	t.Cleanup(fail) // before the end of start's, which waits
	pid := awaitStuck(t, b, asked)
	end := clock.Now().Add(300 * time.Millisecond)
	f.LeaseEnds(end)
	told := make(chan bool, 1)
	go func() { told <- f.InTime() }()
	select {
	case inTime := <-told:
		if inTime {
			t.Error("in time, although it lives")
		}
	case <-time.After(patience):
		t.Fatal("nobody says that it outlives the lease")
	}
	if now := clock.Now(); now < end {
		t.Errorf("an overrun %v before the end of the lease", end.Sub(now))
	}
	if s, _ := proc.Read(pid); s.State != 'D' {
		t.Errorf("it has state %c; want D", s.State)
	}
	line := ""
	for lines := bufio.NewScanner(r); !strings.Contains(line, "OVERRUN") && lines.Scan(); {
		line = lines.Text()
	}
	if !strings.Contains(line, fmt.Sprintf("%d (", pid)) || !strings.Contains(line, "state D in ") {
		t.Errorf("%s; want the process, its state, and where it waits", line)
	}
	select {
	case <-f.Done():
		t.Error("Done, although it lives")
	default:
	}
	if free(t, lock.Name()) {
		t.Error("the lock is free, although it lives")
	}
	fail()
	wait(t, f)
	if over := f.Overrun(); f.InTime() || over <= 0 || over > clock.Now().Sub(end) {
		t.Errorf("in time: %t, overrun %v; want an overrun of at most %v", f.InTime(), over, clock.Now().Sub(end))
	}
}

// TestOutlivedItsParent: the witness does not speak while a process cannot be killed, and the keeper writes why to
// standard error.
func TestOutlivedItsParent(t *testing.T) { testOutlivedItsParent(t) }

func testOutlivedItsParent(t *testing.T) {
	dir, asked, fail := deafDisk(t)
	t.Setenv(stuckEnv, dir)
	home := openDir(t)
	path, held := filepath.Join(home, "board"), filepath.Join(home, "held")
	for name, size := range map[string]int{path: 8192, held: 0} {
		if err := os.WriteFile(name, make([]byte, size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	r, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := newTestament(t)
	cmd := startPartWith(t, stderr, program(t), "parent", nil, append(w.args("speaks"), "board="+path, "lock="+held, "command=stuck")...)
	stderr.Close()
	w.line("prepared")
	eventually(t, "the parent has told", func() bool { return b.Parent.Load() != 0 })
	pid := awaitStuck(t, b, asked)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	line := ""
	for lines := bufio.NewScanner(r); !strings.Contains(line, "still alive") && lines.Scan(); {
		line = lines.Text()
	}
	if !strings.Contains(line, fmt.Sprintf("%d (", pid)) || !strings.Contains(line, "state D") {
		t.Errorf("%q; want the process and its state", line)
	}
	if said := w.has("speaks"); said != "" || free(t, held) {
		t.Errorf("the witness %q; lock free: %t; want nothing of that while process %d is alive", said, free(t, held), pid)
	}
	fail()
	w.spoke()
	if alive(pid) {
		t.Error("it is alive after the witness spoke")
	}
}

// TestGuardOutlived: the connection of a process that cannot be killed is reset at the end of the lease, while it lives.
func TestGuardOutlived(t *testing.T) {
	c, _ := guardNetwork(t)
	dir, asked, fail := deafDisk(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv(stuckEnv, dir)
	t.Setenv("SUPERVISE_ADDR", l.Addr().String())
	path, b := newBoard(t)
	cmd := shell(`exec "$@"`)
	cmd.Args, cmd.Env, cmd.Containment = append(cmd.Args, "sh", program(t), "board="+path), partEnv("stuck"), c
	left := atomic.Int64{}
	left.Store(int64(time.Hour))
	cmd = cmd.With(supervise.Held{Lease: func() (time.Duration, bool) { return time.Duration(left.Load()), true }})
	f := start(t, cmd)
	t.Cleanup(fail) // before the end of start's, which waits
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 100)
	if n, err := conn.Read(buf); string(buf[:n]) != "before" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	pid := awaitStuck(t, b, asked)
	left.Store(0)
	f.Renew()
	f.LeaseEnds(clock.Now())
	if n, err := conn.Read(buf); n > 0 || !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the server has read %q, %v; want a reset", buf[:n], err)
	}
	if !alive(pid) {
		t.Error("it has died, so that nothing is shown")
	}
	fail()
	wait(t, f)
}

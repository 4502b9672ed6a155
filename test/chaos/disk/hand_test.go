//go:build linux

package disk

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/race"
)

// A hand is another process, which makes system calls on files, one at a time, by orders.

// order is an order to a hand.
type order struct {
	Do       string
	Path, To string
	File     int // a descriptor
	Flags    int
	At, Size int64
	Data     []byte
}

// answer is the result.
type answer struct {
	Errno unix.Errno
	File  int
	N     int64
	Data  []byte
	Names []string
}

const handEnv = "ELECT_CHAOS_DISK_HAND"

func TestMain(m *testing.M) {
	if os.Getenv(handEnv) != "" {
		obey(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(race.Main(m))
}

// obey carries out orders until there are none.
func obey(in io.Reader, out io.Writer) {
	orders, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	mapped := map[int64][]byte{}
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		a, err := carry(o, mapped)
		if err != nil {
			var ok bool
			if a.Errno, ok = errors.AsType[unix.Errno](err); !ok {
				panic(err)
			}
		}
		if answers.Encode(a) != nil {
			return
		}
	}
}

func carry(o order, mapped map[int64][]byte) (a answer, err error) {
	n := 0
	switch o.Do {
	case "open":
		a.File, err = unix.Open(o.Path, o.Flags|unix.O_CLOEXEC, 0o600)
	case "close":
		err = unix.Close(o.File)
	case "write":
		n, err = unix.Pwrite(o.File, o.Data, o.At)
	case "append":
		n, err = unix.Write(o.File, o.Data)
	case "read":
		a.Data = make([]byte, o.Size)
		n, err = unix.Pread(o.File, a.Data, o.At)
		a.Data = a.Data[:max(n, 0)]
	case "fsync":
		err = unix.Fsync(o.File)
	case "fdatasync":
		err = unix.Fdatasync(o.File)
	case "forget":
		err = unix.Fadvise(o.File, 0, 0, unix.FADV_DONTNEED)
	case "ftruncate":
		err = unix.Ftruncate(o.File, o.Size)
	case "fallocate":
		err = unix.Fallocate(o.File, uint32(o.Flags), o.At, o.Size)
	case "mkdir":
		err = unix.Mkdir(o.Path, 0o700)
	case "unlink":
		err = unix.Unlink(o.Path)
	case "rmdir":
		err = unix.Rmdir(o.Path)
	case "rename":
		err = unix.Renameat2(unix.AT_FDCWD, o.Path, unix.AT_FDCWD, o.To, uint(o.Flags))
	case "link":
		err = unix.Link(o.Path, o.To)
	case "link-file":
		err = unix.Linkat(o.File, "", unix.AT_FDCWD, o.To, unix.AT_EMPTY_PATH)
	case "symlink":
		err = unix.Symlink(o.To, o.Path)
	case "chmod":
		err = unix.Chmod(o.Path, uint32(o.Flags))
	case "list":
		a.Names, err = list(o.Path)
	case "stat":
		var st unix.Stat_t
		err = unix.Stat(o.Path, &st)
		a.N, a.File = st.Size, int(st.Ino)
		return a, err
	case "free":
		var st unix.Statfs_t
		err = unix.Statfs(o.Path, &st)
		a.N = int64(st.Bavail)
		return a, err
	case "flock":
		err = unix.Flock(o.File, o.Flags)
	case "ofd":
		l := unix.Flock_t{Type: int16(o.Flags), Whence: io.SeekStart}
		err = unix.FcntlFlock(uintptr(o.File), unix.F_OFD_SETLK, &l)
	case "ofd-ask":
		l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err = unix.FcntlFlock(uintptr(o.File), unix.F_OFD_GETLK, &l)
		a.N = int64(l.Type)
		return a, err
	case "map":
		mapped[int64(o.File)], err = unix.Mmap(o.File, 0, int(o.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	case "poke":
		copy(mapped[int64(o.File)][o.At:], o.Data)
	case "msync":
		err = unix.Msync(mapped[int64(o.File)], unix.MS_SYNC)
	case "run":
		var out []byte
		out, err = exec.Command(o.Path).Output()
		a.Data = out
	default:
		panic(o.Do)
	}
	a.N = int64(n)
	return a, err
}

func list(path string) ([]string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 1<<13)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if n <= 0 || err != nil {
			slices.Sort(names)
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// hand is the test's end of a hand.
type hand struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	// late bounds a read of out.
	late func(time.Time) error
}

// answerIn bounds how long an order may take.
const answerIn = 20 * time.Second

func newHand(t *testing.T) *hand {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), handEnv+"=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	in, out := harness.Start(t, cmd)
	h := &hand{t: t, cmd: cmd, in: json.NewEncoder(in), out: json.NewDecoder(out), late: out.(*os.File).SetReadDeadline}
	// It may end only after its disk, which is closed later.
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		go func() { _ = cmd.Wait() }()
	})
	return h
}

// send gives an order without waiting for the result.
func (h *hand) send(o order) {
	h.t.Helper()
	if err := h.in.Encode(o); err != nil {
		h.t.Fatalf("%s: %v", o.Do, err)
	}
}

// receive waits for the result of the oldest order.
func (h *hand) receive() answer {
	h.t.Helper()
	if err := h.late(time.Now().Add(answerIn)); err != nil {
		h.t.Fatal(err)
	}
	var a answer
	if err := h.out.Decode(&a); err != nil {
		h.t.Fatalf("no answer: %v", err)
	}
	return a
}

func (h *hand) do(o order) answer {
	h.t.Helper()
	h.send(o)
	return h.receive()
}

// must is do for an order that must succeed.
func (h *hand) must(o order) answer {
	h.t.Helper()
	a := h.do(o)
	if a.Errno != 0 {
		h.t.Fatalf("%s %s %s: %v", o.Do, o.Path, o.To, a.Errno)
	}
	return a
}

// fails is do for an order that must fail in one way.
func (h *hand) fails(o order, want unix.Errno) {
	h.t.Helper()
	if a := h.do(o); a.Errno != want {
		h.t.Errorf("%s %s: %v; want %v", o.Do, o.Path, a.Errno, want)
	}
}

func (h *hand) open(path string, flags int) int {
	h.t.Helper()
	return h.must(order{Do: "open", Path: path, Flags: flags}).File
}

// create makes a file with data in it, and syncs nothing.
func (h *hand) create(path, data string) int {
	h.t.Helper()
	f := h.open(path, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	h.write(f, 0, data)
	return f
}

func (h *hand) write(f int, at int64, data string) {
	h.t.Helper()
	if a := h.must(order{Do: "write", File: f, At: at, Data: []byte(data)}); a.N != int64(len(data)) {
		h.t.Fatalf("%d of %d bytes are written", a.N, len(data))
	}
}

func (h *hand) fsync(f int) { h.t.Helper(); h.must(order{Do: "fsync", File: f}) }

func (h *hand) syncDir(path string) {
	h.t.Helper()
	f := h.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	h.fsync(f)
	h.must(order{Do: "close", File: f})
}

// content is what is in a file, "absent" if there is none.
func (h *hand) content(path string) string {
	h.t.Helper()
	a := h.do(order{Do: "open", Path: path, Flags: unix.O_RDONLY})
	if a.Errno == unix.ENOENT {
		return "absent"
	}
	if a.Errno != 0 {
		h.t.Fatalf("%s: %v", path, a.Errno)
	}
	data := h.must(order{Do: "read", File: a.File, Size: 1 << 16}).Data
	h.must(order{Do: "close", File: a.File})
	return string(data)
}

// kill ends it, and waits for that.
func (h *hand) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// Package harness is for tests that start processes: it asks for programs, waits for a condition, keeps what processes
// log, starts and ends processes, finds free ports, and builds programs of this repository.
//
// The goroutine of the test calls its functions. Many goroutines may use a [Buffer]. A failure ends the test.
package harness

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Patience limits how long tests wait. It is far longer than anything takes on a busy machine.
const Patience = 60 * time.Second

// Absent skips the test because something is missing, and fails it in CI, where CI=true.
func Absent(t testing.TB, missing string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Need returns the path of a program, which is in a Debian package. If it is not installed, the test is skipped, or
// fails in CI: see [Absent].
func Need(t testing.TB, program, debian string) (path string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Absent(t, fmt.Sprintf("%v; on Debian: apt-get install %s", err, debian))
	}
	return path
}

// Eventually polls ok until it returns true, for [Patience] at most.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for late := time.After(Patience); !ok(); {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not after %v: %s", Patience, what)
		}
	}
}

// Buffer keeps what is written to it.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Start starts a command, and returns the pipes to its input and from its output. The caller calls End.
func Start(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", filepath.Base(cmd.Path), err)
	}
	return in, out
}

// End kills a process that Start started, and waits for it. The process may have ended before.
func End(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// given counts the ports that were tried. A process gives no port twice, because tests run at the same time.
var given atomic.Uint32

// Addrs returns n different addresses of the loopback on which no process listens. Their ports are below those that the
// kernel gives to outgoing connections, one of which might take a port before the caller listens there, or while it
// restarts.
func Addrs(n int) (addrs []string, err error) {
	const firstPort, ports = 10_000, 20_000
	for range ports {
		if len(addrs) == n {
			return addrs, nil
		}
		port := firstPort + (64*uint32(os.Getpid())+given.Add(1))%ports // so that processes begin at different ports
		l, failed := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if failed != nil {
			err = failed
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		addrs = append(addrs, l.Addr().String())
	}
	return nil, fmt.Errorf("only %d of %d ports are free: %w", len(addrs), n, err)
}

// FreeAddrs is Addrs for a test.
func FreeAddrs(t testing.TB, n int) []string {
	t.Helper()
	addrs, err := Addrs(n)
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// FreeAddr returns one such address.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return FreeAddrs(t, 1)[0]
}

// FreePeers returns the URL of n peers, n1 to nN, at free addresses.
func FreePeers(t testing.TB, n int) string {
	t.Helper()
	peers := FreeAddrs(t, n)
	for i := range peers {
		peers[i] = fmt.Sprintf("n%d@%s", i+1, peers[i])
	}
	return "peer://" + strings.Join(peers, ",")
}

// Build builds the program in a directory, such as "../../cmd/elect", with build tags, and returns its path. It builds
// without the race detector, as users do. A second build copies the first one: go run keeps what it has linked.
func Build(t testing.TB, dir string, tags ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), filepath.Base(dir))
	build := exec.CommandContext(t.Context(), "go", "run", "-C", dir, "-race=false", "-buildvcs=false", "-tags="+strings.Join(tags, ","), "-exec=cp", ".", program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return program
}

//go:build linux

package address

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/chaos/network"
)

func TestMain(m *testing.M) {
	if os.Getenv("ADDRESS_PART") == "client" {
		ask()
	}
	os.Exit(m.Run())
}

// machines is the number of them.
const machines = 3

// rig are the machines, their network, the client, and what looks at the machines.
type rig struct {
	t     testing.TB
	dir   string
	net   network.Network
	diary *diary
	looks [machines]int // a process in each machine, for its /proc/PID/net

	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	both time.Duration                   // for how long two machines have had an address, at most
	from clock.Boot                      // the last call of together
	gone [machines]map[byte][]clock.Boot // when a machine was seen without that address, and had it before
}

func newRig(t testing.TB) *rig {
	dir := t.TempDir()
	w, err := network.NewNamespaces(filepath.Join(dir), machines)
	if errors.Is(err, network.ErrUnable) {
		harness.Absent(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	s := &rig{t: t, dir: dir, net: w, diary: &diary{macs: map[string]int{}}}
	s.ip(network.Operator, "-6", "addr", "add", "fd77::fe/64", "dev", "br0", "nodad")
	for i := range machines {
		s.ip(i, "-6", "addr", "add", fmt.Sprintf("fd77::%d/64", i+1), "dev", "eth0", "nodad")
		f := strings.Fields(s.ip(i, "-o", "link", "show", "eth0"))
		for k, word := range f {
			if word == "link/ether" {
				s.diary.macs[strings.ReplaceAll(f[k+1], ":", "")] = i
			}
		}
		s.gone[i] = map[byte][]clock.Boot{}
		s.looks[i] = s.start(w.Command(i, "sleep", "infinity")).Pid
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := w.Command(network.Operator, exe)
	client.Env = append(client.Env, "ADDRESS_PART=client")
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.start(client)
	s.done.Go(func() { s.diary.read(bufio.NewScanner(out)) })
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.look(ctx, false) })
	s.done.Go(func() { s.look(ctx, true) })
	t.Cleanup(func() {
		stop()
		_ = client.Process.Kill()
		s.done.Wait()
		if len(s.diary.bad) > 0 {
			t.Errorf("the client has noted %d lines that make no sense, such as %q", len(s.diary.bad), s.diary.bad[0])
		}
	})
	return s
}

// ip runs ip(8) in a machine.
func (s *rig) ip(i int, args ...string) string {
	s.t.Helper()
	out, err := s.net.Command(i, "ip", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ip %v: %v: %s", args, err, out)
	}
	return string(out)
}

// start starts a program, which is killed when the test ends.
func (s *rig) start(cmd *exec.Cmd) *os.Process {
	s.t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process
}

// look asks the kernel again and again which machines have the addresses. Two have had one together if the earlier of
// the two in a round had it again in the next one.
func (s *rig) look(ctx context.Context, six bool) {
	var last, now [machines]bool
	seen := clock.Now() // when the last round was over
	var since [machines][machines]clock.Boot
	family := byte('4')
	if six {
		family = '6'
	}
	for ctx.Err() == nil {
		for i := range machines {
			if now[i] = s.has(i, six); last[i] && !now[i] {
				s.mu.Lock()
				s.gone[i][family] = append(s.gone[i][family], clock.Now())
				s.mu.Unlock()
			}
		}
		for a := range machines {
			for b := a + 1; b < machines; b++ {
				switch {
				case !last[a] || !now[a] || !last[b]:
					since[a][b] = 0
				case since[a][b] == 0:
					since[a][b] = seen
				}
				if since[a][b] != 0 {
					s.mu.Lock()
					s.both = max(s.both, clock.Now().Sub(max(since[a][b], s.from)))
					s.mu.Unlock()
				}
			}
		}
		last, seen = now, clock.Now()
		time.Sleep(time.Millisecond)
	}
}

// has reports whether a machine has the address of that family.
func (s *rig) has(i int, six bool) bool {
	file, text := "fib_trie", "|-- "+ipv4+"\n"
	if six {
		file, text = "if_inet6", "fd770000000000000000000000000100"
	}
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(s.looks[i]) + "/net/" + file)
	return strings.Contains(string(b), text)
}

// without reports whether a machine was seen to lose that address between two instants.
func (s *rig) without(i int, family byte, from, to clock.Boot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.gone[i][family], func(at clock.Boot) bool { return from < at && at < to })
}

// together returns for how long two machines have had an address since the last call, at most.
func (s *rig) together() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	both := s.both
	s.both, s.from = 0, clock.Now()
	return both
}

// holder waits until one machine has answered alone for a while, other than the given one.
func (s *rig) holder(other int, limit time.Duration) int {
	s.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if i := s.diary.answers(settled); i >= 0 && i != other {
			return i
		}
	}
	return -1
}

// settled is for how long one machine alone must have answered.
const settled = 300 * time.Millisecond

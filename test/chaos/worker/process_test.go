//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

// TestLife runs the life of a command under a real elect run: it stamps and writes
// with its token, and its descendant stamps; both are dead before the next one
// begins, whatever is killed.
func TestLife(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	programs, err := cluster.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t)
	at := []string{"--election", "file:" + filepath.Join(r.dir, "elections"), "--name", "once"}
	stand := func(i int) *process {
		args := append([]string{"run"}, at...)
		return r.start(i, programs.Elect, append(args, "--restart", "always", "--", os.Args[0], "life")...)
	}
	nodes := []*process{stand(0), stand(1)}
	first := r.leader(0)
	d := r.descendant(first)
	if first.Kind != lives.Command || first.Keeper == 0 || first.Pid == d.Pid || d.Keeper != 0 || d.Node != first.Node {
		t.Errorf("%+v and %+v", first, d)
	}
	r.written(first.Token)
	if err := syscall.Kill(int(first.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := r.leader(first.Token)
	r.written(second.Token)
	nodes[second.Node].signal(syscall.SIGKILL) // elect run itself
	third := r.leader(second.Token)
	if third.Node == second.Node {
		t.Errorf("the node that was killed leads: %+v", third)
	}
	r.written(third.Token)
	nodes[third.Node].signal(syscall.SIGTERM)
	if code := nodes[third.Node].end(); code != 0 && code != 128+int(syscall.SIGTERM) {
		t.Errorf("elect run ended with %d", code)
	}
	r.judge()
	ended := r.ledger.Now()
	for _, life := range r.ledger.Lives() {
		if life.Last > ended || syscall.Kill(int(life.Pid), 0) == nil {
			t.Errorf("it goes on: %+v", life)
		}
	}
	if s := r.register.Stats(); s.Refused != 0 || s.OutOfTurn != 0 {
		t.Errorf("stale writes, without a pause: %+v", s)
	}
}

// TestGuarded kills programs that embed the library, in all ways, on a file
// election; a watcher sees each leader.
func TestGuarded(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	for _, kind := range []lives.Kind{lives.Library, lives.Guarded} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			r := newRun(t)
			at := []string{"--election", "file:" + filepath.Join(r.dir, "elections"), "--name", "once"}
			watcher := r.worker(9, append([]string{"watch", "--as", "w"}, at...)...)
			stand := func(i int) *process {
				args := append([]string{"guarded", "--id", "n" + strconv.Itoa(i+1)}, at...)
				if kind == lives.Guarded {
					args = append(args, "--guardian")
				}
				return r.worker(i, args...)
			}
			nodes := []*process{stand(0), stand(1)}
			first := r.leader(0)
			if first.Kind != kind || (first.Keeper != 0) != (kind == lives.Guarded) {
				t.Errorf("%+v", first)
			}
			r.written(first.Token)
			r.awaitSeen(first)
			r.counted(first, nodes[first.Node])
			if kind == lives.Guarded {
				r.descendant(first)
			}
			if err := syscall.Kill(int(first.Pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			second := r.leader(first.Token)
			if second.Node == first.Node {
				t.Errorf("the dead node leads: %+v", second)
			}
			if code := nodes[first.Node].end(); code != -1 {
				t.Errorf("what was killed ended with %d", code)
			}
			nodes[first.Node] = stand(int(first.Node))
			r.written(second.Token)
			r.awaitSeen(second)

			nodes[second.Node].signal(syscall.SIGTERM)
			if code := nodes[second.Node].end(); code != 0 {
				t.Errorf("told to end, it ended with %d", code)
			}
			third := r.leader(second.Token)
			r.written(third.Token)
			r.awaitSeen(third)
			nodes[third.Node].signal(syscall.SIGTERM) // the parent of this test may have made it ignore SIGINT
			watcher.signal(syscall.SIGTERM)
			for _, p := range []*process{nodes[third.Node], watcher} {
				if code := p.end(); code != 0 {
					t.Errorf("told to end, it ended with %d", code)
				}
			}
			r.judge()
			for _, life := range r.ledger.Lives() {
				if syscall.Kill(int(life.Pid), 0) == nil {
					t.Errorf("it goes on: %+v", life)
				}
			}
		})
	}
}

// awaitSeen waits until a watcher has seen a leader.
func (r *run) awaitSeen(l lives.Life) {
	r.t.Helper()
	want := fmt.Sprintf(`"leader":{"id":"n%d","token":"%d"`, l.Node+1, l.Token)
	harness.Eventually(r.t, "a watcher that sees "+want, func() bool { return strings.Contains(r.seen(), want) })
}

// counted asks a program for the number of its goroutines, through the front if it has one.
func (r *run) counted(l lives.Life, p *process) {
	r.t.Helper()
	path := filepath.Join(r.dir, "usage", fmt.Sprintf("%d.json", l.Pid))
	look := func() (u usage) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &u)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return u
	}
	before := look()
	p.signal(syscall.SIGUSR1)
	harness.Eventually(r.t, "a count of goroutines", func() bool { return look().At > before.At })
	if u := look(); u.Pid != int(l.Pid) || u.Node != l.Node || u.Goroutines < 5 || u.Goroutines > 50 {
		r.t.Errorf("%+v", u)
	}
}

// TestPeers freezes a program that leads among peers until another leads. When it resumes it does
// not lead any more and knows it; under a keeper it is dead by then. The fence refuses the write
// that it was about to make.
func TestPeers(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	for _, kind := range []lives.Kind{lives.Library, lives.Guarded} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRun(t)
			t.Setenv("XDG_STATE_HOME", t.TempDir()) // for what nodes on the loopback make there
			url := harness.FreePeers(t, 3) + "?data=" + filepath.Join(r.dir, "data")
			var nodes []*process
			for i := range 3 {
				args := []string{"guarded", "--election", url, "--name", "once", "--id", "n" + strconv.Itoa(i+1), "--heartbeat", "200ms", "--promise", "2s"}
				if kind == lives.Guarded {
					args = append(args, "--guardian")
				}
				nodes = append(nodes, r.worker(i, args...))
			}
			var first lives.Life
			for { // on a busy machine it may have been replaced just before
				first = r.leader(0)
				if err := syscall.Kill(int(first.Pid), syscall.SIGSTOP); err == nil && r.highest() == first.Token {
					break
				} else if err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
				_ = syscall.Kill(int(first.Pid), syscall.SIGCONT) // it may be dead, too
			}
			r.leader(first.Token)
			_ = syscall.Kill(int(first.Pid), syscall.SIGCONT) // under a keeper it is dead
			if kind == lives.Guarded {
				if code := nodes[first.Node].end(); code != -1 {
					t.Errorf("the frozen program was ended with %d; want a kill", code)
				}
				r.judge()
				return
			}
			r.counted(first, nodes[first.Node]) // it goes on
			r.judge()

			// The textbook's pause: between a check and its write. On a busy machine a leader may
			// have been replaced just before.
			refused := r.register.Stats().Refused
			for stopped := false; !stopped; {
				leader := r.leader(0)
				node := nodes[leader.Node]
				harness.Eventually(t, "a pause, or another leader", func() bool {
					node.signal(syscall.SIGUSR2)
					stopped = node.stopped()
					return stopped || r.highest() > leader.Token
				})
				r.written(leader.Token + 1)
				node.signal(syscall.SIGCONT)
			}
			harness.Eventually(t, "a stale write that the fence refuses", func() bool { return r.register.Stats().Refused > refused })
			for _, p := range nodes {
				p.signal(syscall.SIGTERM)
			}
			for i, p := range nodes {
				if code := p.end(); code != 0 {
					t.Errorf("n%d was told to end, and ended with %d", i+1, code)
				}
			}
			r.judge()
		})
	}
}

// highest is the highest token of a life.
func (r *run) highest() (token int64) {
	for _, life := range r.ledger.Lives() {
		token = max(token, life.Token)
	}
	return token
}

// stopped reports whether the process is.
func (p *process) stopped() bool {
	p.t.Helper()
	s, ok := proc.Read(p.Process.Pid)
	if !ok {
		p.t.Fatal("it is not there")
	}
	return s.State == 'T'
}

// TestRunGone: processes that are left end when the directory of the run has gone.
func TestRunGone(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	r := newRun(t)
	t.Setenv("ELECT_TOKEN", "3")
	at := []string{"--election", "file:" + filepath.Join(r.dir, "elections"), "--name", "once"}
	all := []*process{
		r.worker(0, "descendant"), r.worker(1, "life"), r.worker(2, append([]string{"guarded", "--id", "n3"}, at...)...), r.worker(3, append([]string{"watch"}, at...)...),
	}
	harness.Eventually(t, "four lives", func() bool { return r.ledger.Len() == 4 }) // life has a descendant
	harness.Eventually(t, "a watcher", func() bool { return r.seen() != "" })
	if err := os.Remove(filepath.Join(r.dir, "ledger")); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		if code := p.end(); code != codeWorker {
			t.Errorf("worker %d ended with %d; want %d", i, code, codeWorker)
		}
	}
	for _, life := range r.ledger.Lives() {
		harness.Eventually(t, "its end", func() bool { return syscall.Kill(int(life.Pid), 0) != nil })
	}
}

// TestBurn: it spins, and ends with its parent.
func TestBurn(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	cmd := exec.Command("sh", "-c", `"$0" burn 2 & echo $!; read x`, os.Args[0])
	cmd.Env = append(os.Environ(), underTest+"=1")
	in, out := harness.Start(t, cmd)
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	ended := func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	harness.Eventually(t, "some ticks of a processor", func() bool {
		s, ok := proc.Read(pid)
		if !ok {
			t.Fatal("it is not there")
		}
		return s.User > 20
	})
	if ended() {
		t.Fatal("it ended by itself")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Logf("sh: %v", err) // read has seen the end of its input
	}
	harness.Eventually(t, "its end", ended)
}

// TestTools serves and prints what a person would look at.
func TestTools(t *testing.T) {
	long.Full(t, "it starts a dozen processes")
	dir := t.TempDir()
	env := append(os.Environ(), underTest+"=1", "CHAOS_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	server := exec.Command(os.Args[0], "register")
	server.Env = env
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	c, err := register.Open(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	harness.Eventually(t, "a register", func() bool {
		_, err := c.Write(t.Context(), 2, "a")
		return err == nil
	})
	if a, err := c.Write(t.Context(), 1, "b"); err != nil || !a.Stale {
		t.Errorf("%+v, %v", a, err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil || !strings.Contains(said.String(), "2 writes offered, 1 of them stale") {
		t.Errorf("%v: %s", err, said.String())
	}

	print := func() (string, error) {
		cmd := exec.Command(os.Args[0], "lives")
		cmd.Env = env
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := print(); err == nil {
		t.Errorf("there is no ledger, and it printed %q", out)
	}
	l, err := lives.Open(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Begin(lives.Life{Token: 9, Kind: lives.Guarded}).Stamp()
	if out, err := print(); err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"token":9`) || !strings.Contains(out, `"kind":"guarded"`) {
		t.Errorf("%q, %v", out, err)
	}
}

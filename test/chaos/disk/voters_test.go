//go:build linux

package disk_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/chaos/disk"
)

// build builds the elect command, with what lets it use disks of FUSE.
func build(t *testing.T) string {
	t.Helper()
	return harness.Build(t, "../../../cmd/elect", "chaos")
}

// node is one elect run on a disk of its own.
type node struct {
	t      *testing.T
	id     string
	elect  string // the program
	disk   disk.Disk
	args   []string
	output *os.File
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended
}

// start begins its next life.
func (n *node) start() {
	n.t.Helper()
	n.cmd = exec.Command(n.elect, n.args...)
	n.cmd.Stdout, n.cmd.Stderr = n.output, n.output
	n.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait()
	}(n.cmd, n.ended)
}

// kill kills it, its keeper and its command, as nearly at once as can be.
func (n *node) kill() {
	family := append([]int{n.cmd.Process.Pid}, harness.Descendants(n.cmd.Process.Pid)...)
	for _, pid := range family {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// up says whether it was started and has not ended.
func (n *node) up() bool {
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// powerLoss kills it, and what it had not synced is gone.
func (n *node) powerLoss() {
	n.t.Helper()
	n.kill()
	if err := n.disk.PowerLoss(); err != nil {
		n.t.Fatal(err)
	}
	n.join()
}

func (n *node) join() {
	n.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.t.Fatalf("%s was killed, and has not ended after %v", n.id, patience)
	}
}

func (n *node) fault(f disk.Fault) {
	n.t.Helper()
	if err := n.disk.Fault(f); err != nil {
		n.t.Fatal(err)
	}
}

// said is what it has printed in all its lives.
func (n *node) said() string {
	text, err := os.ReadFile(n.output.Name())
	if err != nil {
		n.t.Error(err)
	}
	return string(text)
}

// patience is how long something that must happen may take on a machine that is
// busy.
const patience = 60 * time.Second

// newDisk makes a disk with all faults. Where it cannot be made the test is
// skipped, but not in CI: there it must run.
func newDisk(t *testing.T) disk.Disk {
	t.Helper()
	d, err := disk.NewFUSE(t.TempDir())
	if errors.Is(err, disk.ErrUnable) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, and so no election was held on a disk that fails: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newNode makes a node without a command line, and starts nothing.
func newNode(t *testing.T, elect, id string, d disk.Disk) *node {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), id+".log"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, id: id, elect: elect, disk: d, output: output}
	t.Cleanup(func() {
		if n.cmd != nil {
			n.kill()
			if err := d.Fault(disk.Fault{}); err != nil { // it may wait for its disk
				t.Error(err)
			}
			n.join()
		}
		if err := output.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", id, n.said())
		}
	})
	return n
}

// voters are three nodes of one election, on the loopback.
type voters struct {
	t       *testing.T
	promise time.Duration
	nodes   []*node
	client  *peer.Client
	chance  *rand.Rand
	tokens  string // a file in which each command has written its token

	// What was seen of each to be durable, and must not fall.
	term, incarnation []uint64
}

// newVoters makes them, with heartbeats of a tenth of the promise, and starts
// nothing.
func newVoters(t *testing.T, elect string, promise time.Duration) *voters {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // for what nodes on the loopback make there
	v := &voters{
		t: t, promise: promise, chance: rand.New(rand.NewPCG(disk.Seed(t), 1)), tokens: filepath.Join(t.TempDir(), "tokens"),
		term: make([]uint64, 3), incarnation: make([]uint64, 3),
	}
	const name = "disks"
	var peers []peer.Peer
	var list []string
	for i, addr := range harness.FreeAddrs(t, len(v.term)) {
		p := peer.Peer{ID: "n" + strconv.Itoa(i+1), Addr: addr}
		peers = append(peers, p)
		list = append(list, p.ID+"@"+p.Addr)
	}
	for _, p := range peers {
		n := newNode(t, elect, p.ID, newDisk(t))
		n.args = append([]string{"run", "--election", "peer://" + strings.Join(list, ","), "--data", n.disk.Path(), "--name", name, "--id", n.id,
			"--heartbeat", (promise / 10).String(), "--promise", promise.String()}, command(v.tokens)...)
		v.nodes = append(v.nodes, n)
	}
	client, err := peer.NewClient(peers, name, peer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	v.client = client
	return v
}

// command is the end of a command line: what elect run runs, which writes its
// token to a file, and how.
func command(tokens string) []string {
	return []string{"--restart", "always", "--grace", "50ms", "--", "/bin/sh", "-c", "echo $ELECT_TOKEN >>" + tokens + "; exec sleep 1000000"}
}

func (v *voters) start() {
	for _, n := range v.nodes {
		if n.cmd == nil || !n.up() {
			n.start()
		}
	}
}

func (v *voters) fault(f disk.Fault) {
	v.t.Helper()
	for _, n := range v.nodes {
		n.fault(f)
	}
}

// look asks all that answer, and fails the test if what was durable at one of them
// has fallen. It returns the node whose lease is proven, -1 if there is none.
//
// A node shows the term that it has in mind, which it may forget before it was
// saved: others have heard of it by then, but nothing has come of it. What a leader
// has by an ack was saved, as was its own vote. It says so for the next look: all are asked at the same time, and one
// may have answered before it saved what the leader's answer has.
func (v *voters) look() (leader int, token uint64, all bool) {
	v.t.Helper()
	leader, all = -1, true
	saved := slices.Clone(v.term)
	for i, r := range v.client.Statuses(v.t.Context()) {
		s := r.Status
		if s == nil {
			all = false
			continue
		}
		if s.Term < saved[i] {
			v.t.Fatalf("%s is in term %d, and had saved term %d before", v.nodes[i].id, s.Term, saved[i])
		}
		if s.Incarnation < v.incarnation[i] {
			v.t.Fatalf("%s has incarnation %d, and had %d before", v.nodes[i].id, s.Incarnation, v.incarnation[i])
		}
		v.incarnation[i] = s.Incarnation
		if s.Active {
			v.term[i] = max(v.term[i], s.Term)
			for j, voter := range s.Membership.Voters {
				if text, _, _ := strings.Cut(voter.Held, "."); text != "" {
					held, err := strconv.ParseUint(text, 10, 64)
					if err != nil {
						v.t.Fatal(err)
					}
					v.term[j] = max(v.term[j], held)
				}
			}
			if uint64(s.Token) > token {
				leader, token = i, uint64(s.Token)
			}
		}
		all = all && s.Founded && s.Leader != nil && !s.Stale
	}
	return leader, token, all
}

// leads waits until one leads whose token is greater than after.
func (v *voters) leads(after uint64) (leader int, token uint64) {
	v.t.Helper()
	v.await("another leads", func() bool {
		leader, token, _ = v.look()
		return leader >= 0 && token > after
	})
	return leader, token
}

// calm waits until all are up, and follow one that leads.
func (v *voters) calm() (leader int, token uint64) {
	v.t.Helper()
	v.await("all are up and one leads", func() (all bool) {
		leader, token, all = v.look()
		return all && leader >= 0
	})
	return leader, token
}

func (v *voters) await(what string, so func() bool) {
	v.t.Helper()
	harness.Eventually(v.t, what, so)
}

// stays lets time pass, and fails the test if another leads after it, or none.
// The machine must have been there all the time for that to be asked: a leader that
// says that it did not run may have lost its lease.
func (v *voters) stays(d time.Duration, leader int, token uint64) {
	v.t.Helper()
	v.hold(d)
	l, now, all := v.look()
	switch {
	case l == leader && now == token && all:
	case strings.Contains(v.nodes[leader].said(), "this process did not run for a while"):
		v.t.Logf("%s, which led with token %d, did not run for a while, and now node %d leads with %d", v.nodes[leader].id, token, l, now)
	default:
		v.t.Errorf("%s led with token %d, and now node %d leads with %d; all answer and follow: %v", v.nodes[leader].id, token, l, now, all)
	}
}

// hold lets time pass, looking on.
func (v *voters) hold(d time.Duration) {
	v.t.Helper()
	over := time.After(d)
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
			v.look()
		}
	}
}

// rising fails the test if the tokens of the commands, in the order in which they began, do not rise. It waits for the
// first one, which a leader starts a little after it has said that it leads.
func rising(t *testing.T, path string) (count int) {
	t.Helper()
	var text []byte
	harness.Eventually(t, "a command has begun", func() (begun bool) {
		text, _ = os.ReadFile(path)
		return len(text) > 0
	})
	last := uint64(0)
	for line := range strings.Lines(string(text)) {
		token, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("a command had token %q after %d", line, last)
		}
		last = token
		count++
	}
	return count
}

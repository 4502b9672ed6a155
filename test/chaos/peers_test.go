//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
)

// The times of the election under test. Another leads after at most worst; slack
// is for the machine, which starts and kills processes beside that.
const (
	peersHeartbeat = 50 * time.Millisecond
	peersPromise   = 500 * time.Millisecond
	peersWorst     = 593 * time.Millisecond // what elect run prints at its start
	slack          = 5 * time.Second

	// span is how long the test goes on by default.
	span = 40 * time.Second
)

// TestPeersUnderPacketLoss has three `elect run` elect among themselves, each in
// a network of its own, and drops their packets, kills and stops them, and fills
// their disks. It then asks the ledger that the children wrote themselves: at no
// instant were members of two families alive, and tokens rose strictly. And each
// time somebody led again in time.
func TestPeersUnderPacketLoss(t *testing.T) {
	p := newPeers(t)
	begin := time.Now()
	rounds := number(t, "ELECT_CHAOS_ROUNDS", 1000)
	limit := span
	if os.Getenv("ELECT_CHAOS_ROUNDS") != "" {
		limit = time.Hour
	} else if testing.Short() {
		limit = span / 4
	}
	done := map[string]int{}
	var deck []peerFault
	var longest time.Duration
	for range rounds {
		// Each fault once, if the machine is slow: but not for ever.
		past := time.Since(begin)
		if past >= limit && (limit < span || len(done) == len(peerFaults) || past >= 4*limit) {
			break
		}
		if len(deck) == 0 {
			deck = append(deck, peerFaults...)
			p.rand.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		p.last = f.name
		l := p.calm()
		f.do(p, l)
		healed := clock.Now()
		p.net.heal()
		p.leader()
		longest = max(longest, clock.Now().Sub(healed))
		done[f.name]++
	}
	p.calm()
	p.stop()
	families := merge(p.ledger.lives())
	t.Logf("%v in %v, %d families; at most %v from the end of a fault until somebody led", done, time.Since(begin).Round(time.Second), len(families), longest)
	if total := len(done); limit >= span && total < len(peerFaults) && rounds >= len(peerFaults) {
		t.Errorf("only %d of %d faults within %v", total, len(peerFaults), 4*limit)
	}
	violations := judge(families)
	for _, v := range violations {
		t.Error(v)
	}
	t.Logf("%d overlaps or tokens that did not rise", len(violations))
}

// peers are a crowd of three on a network.
type peers struct {
	*crowd
	net *network
}

const disk = 0 // the node whose data directory is on a disk that can be filled

func newPeers(t *testing.T) *peers {
	p := &peers{net: newNetwork(t, 3)}
	p.crowd = prepareCrowd(t, 3, func(_ *crowd, i int) *exec.Cmd {
		return p.net.command(i, p.elect, "run", "--election", p.url(i), "--name", "once", "--id", peerID(i),
			"--heartbeat", peersHeartbeat.String(), "--promise", peersPromise.String(),
			"--restart", "always", "--grace", "50ms", "--", p.self)
	})
	args := []string{"certs", "--dir", filepath.Join(p.dir, "certs")}
	for i := range p.procs {
		args = append(args, peerID(i)+"="+address(i))
	}
	if out, err := exec.Command(p.elect, args...).CombinedOutput(); err != nil {
		t.Fatalf("elect certs: %v: %s", err, out)
	}
	if err := os.Mkdir(p.data(disk), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("elect-chaos", p.data(disk), "tmpfs", 0, "size=16m,mode=700"); err != nil {
		t.Fatalf("a small disk: %v", err)
	}
	t.Cleanup(func() { // after the crowd's own, which was registered before, and so before it: lazily
		if err := unix.Unmount(p.data(disk), unix.MNT_DETACH); err != nil {
			t.Errorf("the small disk: %v", err)
		}
	})
	for i := range p.procs {
		p.start(i)
	}
	return p
}

func peerID(i int) string { return "n" + strconv.Itoa(i+1) }

func (p *peers) data(i int) string { return filepath.Join(p.dir, "data-"+peerID(i)) }

// url is the election as node i has it, and for -1 as one who asks.
func (p *peers) url(i int) string {
	var all []string
	for j := range p.procs {
		all = append(all, peerID(j)+"@"+address(j)+":7400")
	}
	q := url.Values{"certs": {filepath.Join(p.dir, "certs")}}
	if i >= 0 {
		q.Set("data", p.data(i))
	}
	return "peer://" + strings.Join(all, ",") + "?" + q.Encode()
}

// node is the number of the node that leads.
func (p *peers) node(l leader) int {
	p.t.Helper()
	for i, proc := range p.procs {
		if proc.Process.Pid == l.elect {
			return i
		}
	}
	p.t.Fatalf("process %d leads, which is none of the nodes", l.elect)
	return -1
}

// others are the other nodes.
func (p *peers) others(i int) (a, b int) { return (i + 1) % 3, (i + 2) % 3 }

// calm waits until all nodes are connected and follow one leader whose command
// runs, and returns that.
func (p *peers) calm() leader {
	p.t.Helper()
	late := time.Now().Add(30 * time.Second)
	for {
		l := p.leader()
		why := p.unrest(l)
		if why == "" {
			return l
		}
		if time.Now().After(late) {
			p.t.Fatalf("no calm 30 s after %q: %s", p.last, why)
		}
	}
}

// unrest says why there is none.
func (p *peers) unrest(l leader) string {
	out, err := p.net.command(0, p.elect, "members", "--election", p.url(-1), "--name", "once", "-o", "json").Output()
	if err != nil {
		return fmt.Sprintf("elect members: %v", err)
	}
	var seen struct {
		Leader  string
		Members []struct {
			ID     string
			Status *struct {
				Token  int64 `json:",string"`
				Active bool
				Peers  []struct {
					ID        string
					Connected bool
				}
			}
		}
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		p.t.Fatalf("elect members: %v in %s", err, out)
	}
	if len(seen.Members) != len(p.procs) {
		p.t.Fatalf("elect members shows %d of %d: %s", len(seen.Members), len(p.procs), out)
	}
	for _, m := range seen.Members {
		if m.Status == nil {
			return m.ID + " does not answer"
		}
		for _, other := range m.Status.Peers {
			if !other.Connected {
				return m.ID + " has no connection with " + other.ID
			}
		}
		if m.ID == seen.Leader && (!m.Status.Active || m.Status.Token != l.token) {
			return fmt.Sprintf("%s leads with token %d, and the command has %d", m.ID, m.Status.Token, l.token)
		}
	}
	if seen.Leader != peerID(p.node(l)) {
		return fmt.Sprintf("%q is said to lead, and the command of %s runs", seen.Leader, peerID(p.node(l)))
	}
	return ""
}

// takeover waits for a family later than l, and fails if it comes too late.
func (p *peers) takeover(l leader) {
	p.t.Helper()
	begin := clock.Now()
	p.after(l)
	if took := clock.Now().Sub(begin); took > peersWorst+slack {
		p.t.Errorf("%s: another led after %v; want at most %v and %v for the machine", p.last, took, peersWorst, slack)
	}
}

// undisturbed holds a fault for a while, during which the leader must stay. The
// machine must have been there all the time for that to be asked.
func (p *peers) undisturbed(l leader, fault func()) {
	p.t.Helper()
	paused := pulse()
	fault()
	p.hold(3 * peersPromise)
	p.net.heal()
	p.hold(3 * peersPromise)
	now := p.leader()
	if most := paused(); now.token != l.token {
		if most > peersHeartbeat {
			p.t.Logf("%s: another led with token %d after %d; the machine had paused for %v", p.last, now.token, l.token, most)
			return
		}
		p.t.Errorf("%s: another led with token %d after %d", p.last, now.token, l.token)
	}
}

// hold lets a fault last. Whatever ends meanwhile is started again.
func (p *peers) hold(d time.Duration) {
	over := time.After(d)
	for {
		select {
		case <-over:
			return
		case i := <-p.ended:
			p.start(i)
		}
	}
}

// pulse looks how much later than wanted this process comes to run, until the
// function is called that it returns.
func pulse() (most func() time.Duration) {
	const beat = 5 * time.Millisecond
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		last := clock.Now()
		for {
			select {
			case <-time.After(beat):
			case <-stop:
				result <- longest
				return
			}
			now := clock.Now()
			longest = max(longest, now.Sub(last)-beat)
			last = now
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}

// peerFault is something that befalls an election among peers. The network is
// healed after it.
type peerFault struct {
	name string
	do   func(p *peers, l leader)
}

var peerFaults = []peerFault{
	{"isolate the leader", func(p *peers, l leader) {
		p.net.change(func() { p.net.isolate(p.node(l)) })
		p.takeover(l)
	}},
	{"isolate a follower", func(p *peers, l leader) {
		p.undisturbed(l, func() {
			a, _ := p.others(p.node(l))
			p.net.change(func() { p.net.isolate(a) })
		})
	}},
	{"cut the leader from one follower", func(p *peers, l leader) {
		p.undisturbed(l, func() {
			i := p.node(l)
			a, _ := p.others(i)
			p.net.change(func() { p.net.cut(i, a); p.net.cut(a, i) })
		})
	}},
	{"cut the followers from each other", func(p *peers, l leader) {
		p.undisturbed(l, func() {
			a, b := p.others(p.node(l))
			p.net.change(func() { p.net.cut(a, b); p.net.cut(b, a) })
		})
	}},
	{"the leader is not heard", func(p *peers, l leader) {
		i := p.node(l)
		a, b := p.others(i)
		p.net.change(func() { p.net.cut(i, a); p.net.cut(i, b) })
		p.takeover(l)
	}},
	{"the leader does not hear", func(p *peers, l leader) {
		i := p.node(l)
		a, b := p.others(i)
		p.net.change(func() { p.net.cut(a, i); p.net.cut(b, i) })
		p.takeover(l)
	}},
	{"cut all from all", func(p *peers, l leader) {
		p.net.change(func() {
			for i := range p.net.nodes {
				p.net.isolate(i)
			}
		})
		p.hold(peersPromise + slack/5)
		p.silent()
	}},
	{"isolate the leader for a moment", func(p *peers, l leader) {
		p.net.change(func() { p.net.isolate(p.node(l)) })
		p.hold(time.Duration(p.rand.Int64N(int64(peersPromise))))
	}},
	{"lose packets", func(p *peers, l leader) {
		p.net.change(func() { p.net.loss = 5 + p.rand.IntN(40) })
		p.hold(3 * peersPromise)
	}},
	{"lose packets, kill elect", func(p *peers, l leader) {
		p.net.change(func() { p.net.loss = 5 + p.rand.IntN(20) })
		p.signal(l.elect, syscall.SIGKILL)
		p.hold(2 * peersPromise)
	}},
	{"kill child", func(p *peers, l leader) {
		p.signal(l.child, syscall.SIGKILL)
		p.takeover(l)
	}},
	{"kill elect", func(p *peers, l leader) {
		p.signal(l.elect, syscall.SIGKILL)
		p.takeover(l)
	}},
	{"kill keeper", func(p *peers, l leader) {
		p.signal(l.keeper, syscall.SIGKILL)
		p.takeover(l)
	}},
	{"stop elect, and resume when another leads", func(p *peers, l leader) {
		p.signal(l.elect, syscall.SIGSTOP)
		p.takeover(l)
		p.signal(l.elect, syscall.SIGCONT)
	}},
	{"stop and resume a follower", func(p *peers, l leader) {
		a, _ := p.others(p.node(l))
		pid := p.procs[a].Process.Pid
		p.signal(pid, syscall.SIGSTOP)
		p.hold(2 * peersPromise)
		p.signal(pid, syscall.SIGCONT)
	}},
	{"isolate the leader, kill a follower", func(p *peers, l leader) {
		i := p.node(l)
		a, _ := p.others(i)
		p.net.change(func() { p.net.isolate(i) })
		p.signal(p.procs[a].Process.Pid, syscall.SIGKILL)
		p.start(<-p.ended)
		p.takeover(l)
	}},
	{"kill all", func(p *peers, l leader) {
		for _, proc := range p.procs {
			p.signal(proc.Process.Pid, syscall.SIGKILL)
		}
		for range p.procs {
			p.start(<-p.ended)
		}
		p.takeover(l)
	}},
	{"fill a disk, kill elect", func(p *peers, l leader) {
		filler := filepath.Join(p.data(disk), "filler")
		fill(p.t, filler)
		p.signal(l.elect, syscall.SIGKILL)
		p.hold(2 * peersPromise)
		if err := os.Remove(filler); err != nil {
			p.t.Fatal(err)
		}
	}},
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<16)
	for {
		if _, err := f.Write(block); err != nil {
			if len(block) == 1 {
				return
			}
			block = block[:max(1, len(block)/2)]
		}
	}
}

// silent fails the test if a family stamps while nobody can lead.
func (p *peers) silent() {
	p.t.Helper()
	before := p.ledger.lives()
	p.hold(20 * time.Millisecond)
	for i, l := range p.ledger.lives() {
		if i >= len(before) || l.last > before[i].last {
			p.t.Errorf("%s: the family with token %d is alive %v after nobody could have a majority", p.last, l.token, peersPromise+slack/5)
		}
	}
}

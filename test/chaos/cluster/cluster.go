//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/spawn"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
)

// patience is the time from the order to end until a process is killed, and from the kill until
// that is an error. On a busy computer either may take a while.
const patience = 15 * time.Second

var errClosed = errors.New("cluster: it is closed")

// Cluster is the nodes of one election. Make it with New, and Close it.
type Cluster struct {
	cfg    Config
	mark   string
	clock  lives.Clock
	ledger *lives.Ledger
	nodes  []*node

	client  *peer.Client // nil of a file election
	outside *outside

	starter spawn.Starter
	waits   sync.WaitGroup
	closing chan struct{} // closed by Close
	closed  func() error  // the one call of close

	mu          sync.Mutex
	auxiliaries []*Auxiliary
	twins       int

	groups groups // of starved nodes

	patience time.Duration // shorter in tests
}

// node is the cluster's state of one node.
type node struct {
	data string

	mu     sync.Mutex
	wanted bool  // it is restarted when it ends
	held   bool  // but not now
	next   bool  // with the next version
	join   bool  // it waits to be added, if its disk is empty
	life   *life // nil: it does not run
	failed error // why it could not be started
	hasty  int   // how many lives in a row have ended at once and unasked
	frozen map[Part]bool
}

// life is one run of a node's process.
type life struct {
	*started
	begun time.Time
	told  chan struct{} // its start was reported
	over  chan struct{} // it has ended, and all that follows from that was done
}

// New prepares certificates and directories, and kills the remains of a harness that died. It
// starts nothing.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	sweep()
	sweepGroups()
	c := &Cluster{cfg: cfg, clock: lives.NewClock(), closing: make(chan struct{}), patience: patience}
	c.closed = sync.OnceValue(c.close)
	if c.mark, err = ownMark(rand.Uint64()); err != nil {
		return nil, err
	}
	for i := range cfg.Size {
		n := &node{data: filepath.Join(cfg.Dir, "data", c.ID(i)), join: i >= cfg.Voters, frozen: map[Part]bool{}}
		if cfg.Disk != nil {
			if d := cfg.Disk(i); d != nil {
				n.data = d.Path()
			}
		}
		c.nodes = append(c.nodes, n)
	}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return c, nil
}

// prepare makes the files of a cluster, and opens what it needs.
func (c *Cluster) prepare() (err error) {
	all := []string{filepath.Join(c.cfg.Dir, "log"), filepath.Join(c.cfg.Dir, "ops"), filepath.Join(c.cfg.Dir, "watch")}
	for _, n := range c.nodes {
		all = append(all, n.data)
	}
	for _, dir := range all {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if c.ledger, err = lives.Open(filepath.Join(c.cfg.Dir, "ledger")); err != nil {
		return err
	}
	if c.cfg.Election == "" {
		if err := c.prepareOperator(); err != nil {
			return errors.Join(err, c.ledger.Close())
		}
	}
	return nil
}

// certify makes a certificate for each node, and one for an operator, which also changes
// memberships.
func (c *Cluster) certify() error {
	o := certs.Options{Cluster: cluster, Operators: []certs.OperatorSpec{{Role: certs.Administer}}}
	for i := range c.cfg.Size {
		o.Nodes = append(o.Nodes, certs.Node{ID: c.ID(i), Hosts: c.cfg.Network.Hosts(i)})
	}
	if err := certs.Make(c.certs(), o); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// observe reports an event to the observer.
func (c *Cluster) observe(e judge.Event) {
	if e.At == 0 {
		e.At = c.clock.Now()
	}
	if c.cfg.Observe != nil {
		c.cfg.Observe(e)
	}
}

// Start starts node i, unless it runs, and from then on restarts it when it ends.
func (c *Cluster) Start(i int) error {
	if c.over() {
		return errClosed
	}
	n := c.nodes[i]
	n.mu.Lock()
	n.wanted = true
	n.mu.Unlock()
	return c.spawn(i, true)
}

// spawn starts node i if it should run and does not; now: even if it is held.
func (c *Cluster) spawn(i int, now bool) error {
	n := c.nodes[i]
	n.mu.Lock()
	if n.life != nil || !n.wanted || n.held && !now || c.over() {
		n.mu.Unlock()
		return nil
	}
	programs := c.cfg.Programs
	version := ""
	if n.next {
		programs, version = *c.cfg.Next, "next"
	}
	e := judge.Event{Kind: judge.Start, Node: i, At: c.clock.Now(), Text: version}
	cmd := c.command(i, programs, c.url(i, n.join))
	s, err := c.launch(cmd, c.Log(i), fmt.Sprintf("%s=%d", nodeEnv, i))
	n.failed = err
	if err != nil {
		n.mu.Unlock()
		return fmt.Errorf("cluster: %s cannot be started: %w", c.ID(i), err)
	}
	l := &life{started: s, begun: time.Now(), told: make(chan struct{}), over: make(chan struct{})}
	n.life = l
	clear(n.frozen)
	n.failed = c.enroll(i, s.pid)
	err = n.failed
	c.waits.Go(func() { c.tend(i, l) })
	n.mu.Unlock()
	e.Pid = s.pid
	c.observe(e)
	close(l.told)
	if err != nil {
		return fmt.Errorf("cluster: %s cannot be starved: %w", c.ID(i), err)
	}
	return nil
}

// tend waits for the end of a node's process, and restarts it if it should run.
func (c *Cluster) tend(i int, l *life) {
	<-l.done
	<-l.told
	c.observe(judge.Event{Kind: judge.End, Node: i, Pid: l.pid, Text: l.how()})
	n := c.nodes[i]
	n.mu.Lock()
	n.life = nil
	wait := max(c.cfg.Again, n.hurry(l))
	n.mu.Unlock()
	close(l.over)
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-c.closing:
		}
	}
	_ = c.spawn(i, false) // the node keeps the error, and Calm reports it
}

// hurry is the pause before a node is restarted that ends at once, again and again, unasked: a
// refused node must not take the processors for its starts.
func (n *node) hurry(l *life) time.Duration {
	status, _ := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Exited() || status.ExitStatus() == 0 || time.Since(l.begun) > 2*time.Second {
		n.hasty = 0
		return 0
	}
	n.hasty++
	return min(time.Second, 50*time.Millisecond<<min(n.hasty, 5))
}

func (c *Cluster) over() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// living is the process of node i, or nil.
func (c *Cluster) living(i int) *life {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil {
		return nil
	}
	select {
	case <-n.life.done:
		return nil
	default:
		return n.life
	}
}

// Up reports whether node i's process exists, frozen or not.
func (c *Cluster) Up(i int) bool { return c.living(i) != nil }

// Pid is the id of node i's process; 0 if there is none.
func (c *Cluster) Pid(i int) int {
	if l := c.living(i); l != nil {
		return l.pid
	}
	return 0
}

// Down ends node i with SIGTERM; it stays down until Start. Down returns when nothing of it is
// left. What has not ended after 15 s is killed, which is an error.
func (c *Cluster) Down(i int) error {
	n := c.nodes[i]
	n.mu.Lock()
	n.wanted = false
	l := n.life
	n.mu.Unlock()
	err := c.end(i, l)
	if err != nil {
		err = fmt.Errorf("cluster: %w", err)
	}
	return err
}

// end ends a node's process, or none if nil, and what is left of others.
func (c *Cluster) end(i int, l *life) error {
	var errs []error
	wait := c.patience
	_ = c.Cont(i, Family) // there may be none
	if l != nil {
		errs = append(errs, l.signal(syscall.SIGTERM))
		select {
		case <-l.over:
		case <-time.After(wait):
			errs = append(errs, fmt.Errorf("%s did not end within %v of SIGTERM", c.ID(i), wait))
			wait = 0
		}
	}
	if left := c.vanish(func(p *process) bool { return p.node == i }, wait); len(left) > 0 {
		errs = append(errs, fmt.Errorf("left of %s, and killed: %s", c.ID(i), strings.Join(left, "; ")))
	}
	if l != nil {
		<-l.over
	}
	return errors.Join(errs...)
}

// vanish waits until no process is left for which meant is true. After that time it kills them, and
// returns their descriptions.
func (c *Cluster) vanish(meant func(*process) bool, after time.Duration) (left []string) {
	late := time.Now().Add(after)
	for {
		all := c.find(meant)
		if len(all) == 0 {
			return left
		}
		if time.Now().After(late) {
			for _, p := range all {
				left = append(left, p.describe())
				_ = p.signal(unix.SIGKILL) // what cannot be killed is found again
			}
			late = time.Now().Add(c.patience)
			if len(left) > 1000 {
				return left
			}
		}
		all[0].ended(20 * time.Millisecond)
		closeAll(all)
	}
}

// find returns the processes of this cluster for which meant is true. The caller closes them.
func (c *Cluster) find(meant func(*process) bool) []*process {
	all := processes(func(mark string) bool { return mark == c.mark })
	return slices.DeleteFunc(all, func(p *process) bool {
		if meant(p) {
			return false
		}
		p.close()
		return true
	})
}

// Hold makes node i stay down when it ends, until Release.
func (c *Cluster) Hold(i int) {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = true
}

// Release undoes Hold, and starts the node if it has ended meanwhile.
func (c *Cluster) Release(i int) error {
	n := c.nodes[i]
	n.mu.Lock()
	n.held = false
	n.mu.Unlock()
	return c.spawn(i, false)
}

// Join makes node i wait to be added, from its next start on, when its disk is empty; off: it takes
// part in the founding. Founders begin with off, the others with on. In a founded election, on does
// no harm.
func (c *Cluster) Join(i int, on bool) {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.join = on
}

// Upgrade selects the programs of node i's next start: Config.Next or Config.Programs.
func (c *Cluster) Upgrade(i int, next bool) error {
	if next && c.cfg.Next == nil {
		return errors.New("cluster: there is no other version: want Config.Next")
	}
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next = next
	return nil
}

// Log is the path of node i's output, of all its lives.
func (c *Cluster) Log(i int) string { return c.logPath(c.ID(i)) }

// Flight returns the paths of node i's flight recorder files, the oldest first.
func (c *Cluster) Flight(i int) []string {
	all, _ := filepath.Glob(filepath.Join(c.nodes[i].data, c.ID(i), "elections", c.cfg.Name, "flight-*.ndjson")) // the pattern is a good one
	return all                                                                                                   // which are numbered
}

// Close ends all nodes and all processes beside them, first with SIGTERM. When it returns nothing
// is left; the error names what did not end in time. A second call returns the same error.
func (c *Cluster) Close() error { return c.closed() }

func (c *Cluster) close() error {
	c.mu.Lock() // nothing is started beside the nodes any more
	close(c.closing)
	c.mu.Unlock()
	var mu sync.Mutex
	var errs []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	for i := range c.nodes {
		fail(c.Feed(i))
	}
	var ends sync.WaitGroup
	for i, n := range c.nodes {
		n.mu.Lock()
		l := n.life
		n.wanted = false
		n.mu.Unlock()
		ends.Go(func() { fail(c.end(i, l)) })
	}
	c.mu.Lock()
	auxiliaries := c.auxiliaries
	c.mu.Unlock()
	for _, b := range auxiliaries {
		ends.Go(func() { fail(b.End()) })
	}
	ends.Wait()
	if left := c.vanish(func(*process) bool { return true }, 0); len(left) > 0 {
		fail(fmt.Errorf("left, and killed: %s", strings.Join(left, "; ")))
	}
	c.waits.Wait()
	c.starter.Close()
	fail(c.dissolve())
	if c.client != nil {
		fail(c.client.Close())
		fail(c.outside.close())
	}
	fail(c.ledger.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/livepage"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Config configures a demo. Fields that are not marked as optional are required.
type Config struct {
	Program   string // this program
	Command   string // the command line of this program, for the closing text
	JobVerb   string // its verb that calls Job
	SweepVerb string // its verb that calls Sweep

	ClientVerb string // its verb that calls Client; for Zombie
	StoreVerb  string // its verb that calls Store or Lines; for Zombie

	Profile  string // of the nodes: lan, fast, wan or calm
	Out      io.Writer
	Keep     bool     // leave the directory
	Terminal *os.File // the terminal of Live; nil for Script

	Colour bool
	ASCII  bool          // the terminal shows ASCII only; for Live
	Pause  time.Duration // between two steps of Script, for the reader

	Listener net.Listener // of Web, on loopback; Web closes it
}

// The intervals of polling.
const (
	readLog     = 15 * time.Millisecond
	askLeader   = 100 * time.Millisecond
	askFollower = 250 * time.Millisecond
	askLimit    = 700 * time.Millisecond
	actLimit    = 5 * time.Second
)

// Demo is one demo.
type Demo struct {
	cfg       Config
	processes *processes
	sweeper   *sweeper
	begin     time.Duration // on the clock of stamp.Now

	ctx    context.Context // ends when the demo does; its cause is the reason
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	acts   chan request
	acting sync.Mutex // held during an act

	mu      sync.Mutex
	model   *model
	changed chan struct{} // closed, and replaced, when the model has changed
}

// order is a requested act.
type order struct {
	act  act
	node int
}

// request is an order, and where its outcome is sent, with room for it; nil if nobody waits.
type request struct {
	order
	answer chan<- error
}

// open makes the directory, and everything in it except the nodes' data.
func open(ctx context.Context, cfg Config) (t *Demo, err error) {
	t = &Demo{cfg: cfg, acts: make(chan request, 16), changed: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	promise, ok := promiseOf(cfg.Profile)
	if !ok {
		return nil, fmt.Errorf("unknown profile %q", cfg.Profile)
	}
	temp, err := filepath.Abs(os.TempDir()) // nodes have other working directories
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(temp, dirPrefix)
	if err != nil {
		return nil, err
	}
	t.processes = &processes{program: cfg.Program, job: cfg.JobVerb, profile: cfg.Profile, dir: dir, ended: t.nodeEnded}
	t.processes.cluster = &cluster.Cluster{Program: cfg.Program, Dir: dir, Stderr: t.nodeSaid}
	if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o600); err != nil {
		return nil, err
	}
	sweep := dir
	if cfg.Keep {
		sweep = ""
	}
	if t.sweeper, err = startSweeper(cfg.Program, cfg.SweepVerb, sweep, cfg.Terminal); err != nil {
		return nil, err
	}
	if err := t.processes.open(); err != nil {
		return nil, err
	}
	t.begin = stamp.Now()
	t.model = newModel(cfg.Profile, promise)
	t.model.dir = dir
	t.run(t.watchLog)
	t.run(t.perform)
	for i := range ids {
		t.run(func() error { return t.ask(i) })
	}
	return t, nil
}

// run runs do in a goroutine that close joins. An error, or a panic, ends the demo: an uncaught panic would end the
// process without restoring the terminal.
func (t *Demo) run(do func() error) {
	t.work.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				t.cancel(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := do(); err != nil {
			t.cancel(err)
		}
	})
}

func (t *Demo) now() time.Duration { return stamp.Now() - t.begin }

// tell lets do change the model, and wakes those that wait for a change.
func (t *Demo) tell(do func(m *model)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model.tick(t.now())
	do(t.model)
	t.model.record.look(t.model)
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until ok returns true. It calls ok again at each change.
func (t *Demo) await(limit time.Duration, ok func(m *model) bool) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		t.mu.Lock()
		t.model.tick(t.now())
		is, changed := ok(t.model), t.changed
		t.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-late.C:
			return fmt.Errorf("it did not come about within %v", limit.Round(time.Millisecond))
		}
	}
}

// do requests an act. It does not wait for it.
func (t *Demo) do(a act, node int) {
	select {
	case t.acts <- request{order: order{a, node}}:
	case <-t.ctx.Done():
	default: // a key that is held down
	}
}

// perform carries out the requested acts, one after the other.
func (t *Demo) perform() error {
	for {
		select {
		case <-t.ctx.Done():
			return nil
		case o := <-t.acts:
			t.acting.Lock()
			err := t.act(o.order)
			t.acting.Unlock()
			if o.answer != nil {
				o.answer <- err
			}
		}
	}
}

// act does an act, and returns why it was not done, as it was told.
func (t *Demo) act(o order) error {
	refused, now, old := "", life{}, life{}
	t.tell(func(m *model) {
		if refused = m.refused(o.act, o.node); refused != "" {
			m.deny(refused)
			return
		}
		now, _ = m.ledger.now()
		old, _ = m.ledger.earlier()
		m.did(o.act, o.node, t.now())
	})
	if refused != "" {
		return livepage.Refusal(refused)
	}
	ctx, cancel := context.WithTimeoutCause(t.ctx, actLimit, errors.New("no answer within "+actLimit.String()))
	defer cancel()
	var err error
	switch s, i := t.processes, o.node; o.act {
	case start:
		err = s.start(i)
	case kill:
		err = s.signal(i, syscall.SIGKILL)
	case killJob:
		err = cluster.Kill(now.pid)
	case pause:
		err = s.signal(i, freeze)
	case wake:
		err = s.signal(i, resume)
	case cut:
		s.local.Cut(ids[i])
	case heal:
		s.local.Heal(ids[i])
	case resign:
		err = s.resign(ctx, i, now.token)
	case transfer:
		err = s.transfer(ctx, index(now.id), i, now.token)
	case late:
		err = s.late(old)
		if refusal, ok := errors.AsType[*fence.StaleError](err); ok {
			err = nil
			t.tell(func(m *model) {
				m.tell(plain, "A late write of %s with its old token %v reached the log. It was refused: the log has seen token %v.", old.id, refusal.Shown, refusal.Highest)
			})
		}
	}
	if err != nil {
		t.tell(func(m *model) { m.failed(o.act, o.node, err) })
	}
	return err
}

// watchLog reads the log as it grows.
func (t *Demo) watchLog() error {
	tick := time.NewTicker(readLog)
	defer tick.Stop()
	tail := &logTail{path: t.processes.log()}
	defer tail.close()
	proofs := &proofs{log: t.processes.log()}
	defer proofs.close()
	for {
		lines, err := tail.read()
		if err != nil {
			return err
		}
		proofs.follow(lines)
		t.tell(func(m *model) { // even without lines: time passes
			for _, l := range lines {
				l.At -= t.begin
				m.wrote(l)
			}
			for i, is := range proofs.read() {
				if is != nil {
					m.nodes[i].paged = true
					m.proves(i, is.token, m.now+is.left)
				}
			}
		})
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			return nil
		}
	}
}

// logTail reads what is appended to a log.
type logTail struct {
	path string
	file *os.File
	rest []byte // the beginning of an incomplete line
}

func (t *logTail) read() ([]line, error) {
	if t.file == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil // nothing was written yet
		}
		if err != nil {
			return nil, err
		}
		t.file = f
	}
	text, err := io.ReadAll(t.file)
	if err != nil {
		return nil, err
	}
	t.rest = append(t.rest, text...)
	var lines []line
	for {
		one, rest, ok := bytes.Cut(t.rest, []byte{'\n'})
		if !ok {
			return lines, nil
		}
		l, err := parseLine(string(one) + "\n")
		if err != nil {
			return nil, err
		}
		lines, t.rest = append(lines, l), rest
	}
}

func (t *logTail) close() {
	if t.file != nil {
		_ = t.file.Close() // it was only read
	}
}

// ask polls one node for its state. A paused node holds the request until it wakes up or the limit has passed.
func (t *Demo) ask(i int) error {
	for {
		ctx, cancel := context.WithTimeout(t.ctx, askLimit)
		t.mu.Lock()
		runs, leads := t.model.nodes[i].condition == running, t.model.worker() == i || t.model.nodes[i].token != 0
		t.mu.Unlock()
		if runs {
			asked := t.now()
			r, err := t.processes.read(ctx, i)
			at := t.now()
			r.lease = max(r.lease-(at-asked), 0) // it may have answered at once
			if err == nil {
				t.tell(func(m *model) { m.answered(i, at, r) })
			}
		}
		cancel()
		again := askFollower
		if leads {
			again = askLeader
		}
		select {
		case <-time.After(again):
		case <-t.ctx.Done():
			return nil
		}
	}
}

// nodeSaid handles a line of a node.
func (t *Demo) nodeSaid(id, text string) {
	if i := index(id); i >= 0 {
		t.tell(func(m *model) { m.spoke(i, text) })
	}
}

func (t *Demo) nodeEnded(i, code int) {
	t.tell(func(m *model) { m.ended(i, code, t.now()) })
}

// close ends everything. It may be called again.
func (t *Demo) close() error {
	leader := -1
	if t.model != nil {
		t.tell(func(m *model) {
			m.over = true
			leader = m.worker()
		})
	}
	t.cancel(nil)
	t.work.Wait()
	if t.processes == nil {
		return nil
	}
	t.processes.end(leader)
	t.processes.close()
	var err error
	if !t.cfg.Keep {
		err = remove(t.processes.dir)
	}
	if t.sweeper != nil {
		err = errors.Join(err, t.sweeper.end())
		t.sweeper = nil
	}
	return err
}

// verdict reads the whole log, when all processes are dead.
func verdict(path string) (ledger, error) {
	var g ledger
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		text, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && text == "" {
			return g, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return g, err
		}
		l, err := parseLine(text)
		if err != nil {
			return g, err
		}
		g.add(l)
	}
}

func random(n int) int { return rand.IntN(n) }

func promiseOf(profile string) (time.Duration, bool) {
	for _, p := range quorum.Profiles() {
		if p.Name == profile {
			return p.Promise, true
		}
	}
	return 0, false
}

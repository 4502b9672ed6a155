package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/flight"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// Node is a voter or an observer. It takes part from [New] to [Node.Close], whether it campaigns or not. With quorum a
// voter has all abilities of package driver but [driver.AbilityInherit].
type Node struct {
	facts
	dir      *disk.Dir
	run      *runtime.Runner
	lines    *lines                          // nil: nothing is logged
	linked   chan struct{}                   // closed when the links are set
	joined   chan struct{}                   // closed when everything has ended
	recorder atomic.Pointer[flight.Recorder] // nil: there is none
	priority atomic.Int64                    // as in a Candidacy

	// The parts of the election's own state. Each one knows only parts above it.
	membership membership
	contacts   contacts
	refusals   refusals
	founding   founding
	leaders    leaders
	clocks     clocks
	locator    locator
	pausing    pausing
	handover   handover
	ailing     ailing
	relay      relay
	changes    changes
	watch      watch
	streams    streams
}

// facts are what does not change while a node runs.
type facts struct {
	cfg     setup
	plan    Plan // as configured; membership has that of the present voters
	dialect dialect
	self    protocol.Voter
	at      place.At        // the data directory
	tls     *certs.Identity // nil: without certificates
	log     *slog.Logger
	started time.Time
	began   protocol.Instant // started, by the clock of turns
}

// idle is the time without a sign of life after which a node counts as not heard.
func (f *facts) idle() time.Duration {
	if f.dialect.lacks(leases) == nil {
		return f.plan.Promise
	}
	// Nodes that do not lead send only signs of life. A handshake with certificates must fit in too, and an election
	// timeout may be very short.
	return max(f.plan.Promise, time.Second)
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Transferrer
} = (*Node)(nil)

// Open is the [driver.Opener] of peer URLs, see [ParseURL]. A target whose id is not listed gets a [Client].
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	voters, cfg, err := ParseURL(t.URL)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	cfg.Logger = t.Logger
	s := setup{Config: cfg, Voters: voters, Name: t.Name, ID: protocol.NodeID(t.ID)}
	if !s.takesPart() {
		s.Client = t.ID
		c, err := newClient(s)
		if err != nil {
			return nil, err // so that a driver.Elector never holds a nil *Client
		}
		return c, nil
	}
	n, err := open(ctx, s)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// New makes the participant id, one of voters or of cfg.Observers, in the election called name; see [driver.CheckName].
// It opens the data directory and listens, and does not wait for other participants. ctx bounds the opening only, which
// may wait until the keeper of an earlier incarnation closes the directory.
//
// The voters are 1 to 9, the same at every participant at the founding. Afterwards the list only says which addresses
// to call first.
//
// Nodes of one process with the same id, listening address and Config.Data share the address and the connections, for
// all their elections. They must have the same Config.Cluster and certificates, and use the Logger of the first.
//
// Errors that only another configuration or data directory mends are permanent, see [driver.Permanent]. After any error
// Config.Listener is closed.
func New(ctx context.Context, voters []Peer, name, id string, cfg Config) (*Node, error) {
	return open(ctx, setup{Config: cfg, Voters: voters, Name: name, ID: protocol.NodeID(id)})
}

func open(ctx context.Context, cfg setup) (_ *Node, err error) {
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	if cfg.Listener != nil {
		undo = append(undo, func() { _ = cfg.Listener.Close() })
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := mutation.Check(); err != nil { // in builds for tests only
		return nil, driver.Permanent(err)
	}
	n := &Node{facts: facts{cfg: cfg, log: cfg.Logger, started: time.Now()}}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.plan, err = cfg.named(); err != nil {
		return nil, driver.Permanent(err)
	}
	n.dialect = cfg.dialect()
	if !cfg.takesPart() {
		return nil, driver.Permanent(notListed(&cfg))
	}
	if n.tls, err = n.cfg.identity(); err != nil {
		return nil, driver.Permanent(err)
	}
	switch {
	case n.cfg.own != "":
		n.log.Info("this node and those of its user have certificates of their own", "path", n.cfg.own)
	case n.cfg.Insecure:
		n.log.Warn("insecure: everybody who can reach this node, such as every user of this machine, can elect, depose, pause and remove, and have two lead at once",
			"listen", n.cfg.listen())
	}
	if n.at, err = n.cfg.directory(); err != nil {
		return nil, driver.Permanent(err)
	}
	path := n.at.String()
	slow := time.AfterFunc(time.Second, func() {
		n.log.Warn("waiting for the data directory: another process has it, perhaps the keeper of an earlier life", "path", path)
	})
	defer slow.Stop()
	var known disk.Host
	if n.cfg.connect == nil {
		if known, err = n.knowHost(ctx); err != nil {
			return nil, err
		}
	}
	if err := disk.Former(n.cfg.formerDirectory(n.at), n.at); err != nil {
		return nil, driver.Permanent(err)
	}
	if n.dir, err = disk.Open(ctx, n.at, disk.Identity{Cluster: n.cfg.Cluster, Election: cfg.Name, ID: cfg.ID, Era: cfg.Era}); err != nil {
		return nil, permanentOfDisk(err)
	}
	if !slow.Stop() {
		n.log.Warn("the data directory is free now", "path", path)
	}
	undo = append(undo, func() { _ = n.dir.Close() }) // nothing that matters was written
	for _, w := range n.dir.Warnings() {
		n.log.Warn("data directory: "+w, "path", path)
	}
	connect := n.cfg.connect
	if connect == nil {
		h, err := n.findHost(ctx, known, true)
		if err != nil {
			return nil, err
		}
		undo = append(undo, h.leave)
		connect = func(cfg link.Config) (links, error) {
			e, err := h.link.Join(cfg)
			return hosted{e, h}, err
		}
	}
	n.prepare()
	undo = append(undo, n.closeRecorder)
	if err := n.resume(path); err != nil {
		return nil, err
	}
	if n.run.Machine() != nil || !cfg.Join { // else the number of voters is not known yet
		for _, w := range n.Plan().Warnings {
			n.log.Warn(w)
		}
	}
	// Last, because it cannot be undone, and before any token of this era.
	if err := n.dir.Raise(cfg.Era); err != nil {
		return nil, err
	}
	if err := n.start(connect); err != nil {
		return nil, err
	}
	return n, nil
}

func notListed(c *setup) error {
	all := slices.Concat(ids(c.Voters), ids(c.Observers))
	return fmt.Errorf("id %q takes no part here; want one of %s", string(c.ID), list(all))
}

// prepare makes the parts.
func (n *Node) prepare() {
	ms := &n.membership
	ms.facts = &n.facts
	n.self = protocol.Voter{ID: n.cfg.ID, Dir: n.dir.Identity().Dir}
	n.joined, n.linked = make(chan struct{}), make(chan struct{})
	n.priority.Store(int64(n.cfg.Priority))
	n.run = n.newRunner()
	n.began = n.run.Latest().Boot
	n.contacts = contacts{ms, noLinks{}}
	n.refusals = refusals{ms, &n.contacts, n.run, make(map[protocol.NodeID]refusal)}
	n.founding = founding{
		membership: ms, contacts: &n.contacts, refusals: &n.refusals, run: n.run, dir: n.dir, boot: n.boot,
		welcomes: make(map[protocol.NodeID]*protocol.Membership), promises: make(map[protocol.NodeID]time.Duration),
		rivals: make(map[protocol.NodeID]protocol.ConfigID),
	}
	n.leaders = leaders{
		facts: ms.facts, run: n.run, dir: n.dir, notes: &noteWriter{note: n.dir.Note, log: n.log}, said: make(map[protocol.NodeID]leadership),
	}
	n.locator = locator{membership: ms, run: n.run}
	n.pausing = pausing{membership: ms, leaders: &n.leaders, locator: &n.locator, run: n.run, dir: n.dir}
	n.pausing.open()
	n.handover = handover{membership: ms, locator: &n.locator, run: n.run}
	n.ailing = ailing{membership: ms, handover: &n.handover, run: n.run}
	n.relay = relay{&n.contacts, n.run, n.cfg.dialer}
	if n.relay.dial == nil {
		n.relay.dial = dialer(&n.cfg, func() (*certs.Identity, error) { return n.tls, nil })
	}
	n.changes = changes{membership: ms, relay: &n.relay, run: n.run}
	n.watch = watch{
		membership: ms, contacts: &n.contacts, refusals: &n.refusals, founding: &n.founding, leaders: &n.leaders,
		pausing: &n.pausing, locator: &n.locator, run: n.run,
	}
}

// resume boots the machine of a node that was founded before, and makes its new incarnation durable, so that its
// first message carries it.
func (n *Node) resume(path string) error {
	data := n.dir.Ballot()
	if data == nil {
		return nil
	}
	ms, data, err := n.dialect.read(data)
	if err != nil {
		return driver.Permanent(fmt.Errorf("%s: %w", path, err))
	}
	if i := ms.Index(n.self.ID); i >= 0 && ms.Voters[i].Dir != n.self.Dir {
		return driver.Permanent(fmt.Errorf("%s: this directory knows %s by another directory, %s, in membership %v, and is %s itself: this voter was replaced, or the directory was put together from two. %s",
			path, n.self.ID, ms.Voters[i].Dir, ms.ID(), n.self.Dir, n.dialect.remedy()))
	}
	if known := ids(n.cfg.Voters); !slices.EqualFunc(ms.Voters, known, func(v protocol.Voter, id protocol.NodeID) bool { return v.ID == id }) {
		n.log.Info("the voters are not those of the configuration any more, which does not matter", "version", ms.ID(), "voters", list(ms.Voters), "configured", list(known))
	}
	if err := n.boot(ms, data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// start starts the links and all goroutines.
func (n *Node) start(connect func(link.Config) (links, error)) error {
	if n.cfg.Logger != nil {
		n.lines, n.log = startLines(n.log)
		n.run.SetLog(n.log)
	}
	ms, held := n.membership.Load(), protocol.ConfigID{}
	if ms != nil {
		held = ms.ID()
	}
	var err error
	if n.contacts.links, err = connect(link.Config{
		HostConfig: link.HostConfig{Hello: wire.Hello{ID: n.cfg.ID}, Idle: n.idle(), Logger: n.log}, Peers: n.membership.routes(ms),
		Enter: wire.Enter{
			Election: n.cfg.Name, Dir: n.self.Dir, Incarnation: n.run.Incarnation(), Voters: ids(n.cfg.Voters), Era: n.cfg.Era,
			Promise: n.plan.Promise, Join: n.cfg.Join, Held: held, Protocol: n.cfg.spoken(),
		},
		Admit: n.founding.admit, Stream: n.stream,
		Serve: func(ctx context.Context, from link.Caller, q *wire.Request, reply func(*wire.Response) error) {
			select {
			case <-n.linked: // links accept before contacts has them
				answer(ctx, n.service(), n.log, from, q, reply)
			case <-ctx.Done():
			}
		},
		Welcomed: func(from protocol.NodeID, w *wire.Welcome) {
			n.run.Do(func() { n.founding.welcomed(from, w) })
		},
		Refused: func(by protocol.NodeID, r *wire.Refusal) {
			n.run.Do(func() { n.founding.refused(by, r) })
		},
		Receive: func(from protocol.NodeID, l *wire.Letter) { n.run.Receive(from, &l.Message, l.Since, l.Token) },
		Closed:  n.run.PeerClosed,
	}); err != nil {
		n.lines.close()
		return driver.Permanent(err)
	}
	n.leaders.notes.start()
	n.run.Start()
	n.locator.start()
	close(n.linked)
	n.run.Do(n.founding.found) // a single voter waits for no other
	go func() {
		defer close(n.joined)
		n.run.Run()
		n.end()
	}()
	return nil
}

// boot starts the machine.
func (n *Node) boot(ms *protocol.Membership, durable []byte) error {
	machine, from, err := n.dialect.machine(&n.cfg, n.self, ms)
	if err != nil {
		return driver.Permanent(err)
	}
	n.membership.Store(ms)
	n.membership.replan(ms)
	if err := n.run.Boot(machine, durable, n.openRecorder(from)); err != nil {
		n.closeRecorder()
		return err
	}
	n.locator.instruct()
	n.pausing.instruct()
	return nil
}

func (n *Node) closeRecorder() {
	if r := n.recorder.Swap(nil); r != nil {
		_ = r.Close() // what was recorded is already written
	}
}

// openRecorder opens the flight recorder; nil if there is none.
func (n *Node) openRecorder(from any) runtime.Recorder {
	config, err := json.Marshal(from)
	var r *flight.Recorder
	if err == nil {
		r, err = flight.Open(flight.Config{
			Dir: n.at, Node: n.cfg.ID, Protocol: n.dialect.protocol(), Config: config, Build: n.cfg.Program,
		})
	}
	if err != nil {
		n.log.Warn("no flight recorder", "error", err)
		return nil
	}
	n.recorder.Store(r)
	return r
}

// Limits implements [driver.Elector].
func (n *Node) Limits() driver.Limits { return n.dialect.limits(n.membership.present(), n.cfg.voter()) }

// Close implements [driver.Elector]. A mandate that was not released ends and lapses by itself, because its work may
// still run. Close waits at most a quarter of a second until what was sent is written, and 5 s for the disk: after that
// the data directory stays locked until a write that hangs has ended. It waits for the log, so it hangs if that hangs.
// No proof depends on its end.
func (n *Node) Close() error {
	n.run.Stop()
	<-n.joined
	n.lines.close()
	return nil
}

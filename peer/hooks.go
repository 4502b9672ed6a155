package peer

import (
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/wire"
)

// newRunner makes the runner of the machine. What a node does besides in each turn is in the hooks.
func (n *Node) newRunner() *runtime.Runner {
	save := n.keep
	if n.cfg.disk != nil {
		save = n.cfg.disk(save)
	}
	return runtime.New(runtime.Config{
		ID: n.cfg.ID, Era: n.cfg.Era, Disk: ballots{save, n.dir.Mirror}, Transport: outbox{n}, Log: n.log, Now: n.cfg.now,
		Late: n.plan.Heartbeat, Idle: n.plan.Promise, Incarnations: true,
		Hooks: runtime.Hooks{
			Heard: func(from protocol.NodeID, l *runtime.Letter) bool {
				if n.apart.Load() {
					return false
				}
				if l.Token != 0 {
					n.noteLeader(from, l)
				}
				return true
			},
			Published: n.published, Reason: n.reason, Elected: n.elected, Stopped: n.stopped, Stand: n.stand, Booted: n.booted, Survey: n.survey,
			Active:    func(m *runtime.Mandate) { n.note("active", m.Token(), "", time.Now()) },
			CatchUp:   func(o *protocol.Order) { n.locator.catchUp(n, o.From, o.Position) },
			Withdrawn: func() { n.locator.enough(errNoCandidate) },
			Jumped:    func() { n.locator.from = n.run.Latest().Boot },
		},
	})
}

// keep makes the data of a machine's save durable. One goroutine at a time calls it.
func (n *Node) keep(data []byte) error {
	n.kept = n.dialect.write(n.kept[:0], n.membership.Load(), data)
	return n.dir.Save(n.kept)
}

// ballots is a node's [runtime.Disk].
type ballots struct {
	save   func([]byte) error
	mirror func() error
}

func (b ballots) Save(data []byte) error { return b.save(data) }
func (b ballots) Settle() error          { return b.mirror() }

// outbox is a node's [runtime.Transport].
type outbox struct{ n *Node }

// Send implements [runtime.Transport].
func (o outbox) Send(s *protocol.Send) {
	n := o.n
	if n.link == nil || n.apart.Load() {
		return // booted before the links exist: no node is connected yet
	}
	l := wire.Letter{Message: s.Message}
	if s.Leads {
		l.Since, l.Token = n.own.since, n.own.token
		if l.Message.Metadata == "" {
			l.Message.Metadata = n.own.raw // a classic machine has no field for it
		}
	}
	n.link.Send(s.To, &l)
}

// published runs after each step of the machine.
func (n *Node) published(in *protocol.Input, before *protocol.View) {
	if before != nil {
		n.clocks.compare(n)
		n.remember(in, before)
		n.whereabouts(before)
	}
	n.follow()
}

func (n *Node) elected(m *runtime.Mandate, c *runtime.Candidacy) {
	count := m.Token().Count()
	n.leaseEnd, n.successor, n.lastCount = 0, "", count
	n.own = leadership{incarnation: n.run.Incarnation(), term: count, token: count, since: time.Now().UnixNano()}
	if c != nil {
		n.own.metadata = c.Metadata
		if len(n.own.metadata) > 0 {
			n.own.raw = c.Command.Metadata
		}
	}
	n.note("elected", m.Token(), "", time.Now())
	n.log.Info("elected", "token", m.Token())
}

func (n *Node) stopped(m *runtime.Mandate, reason protocol.Reason) {
	n.note("lost", m.Token(), string(reason), n.ended())
	n.log.Info("leadership ended", "token", m.Token(), "reason", string(reason))
}

// stand refuses a candidacy that cannot succeed.
func (n *Node) stand(c *runtime.Candidacy) error {
	if err := n.hopeless(); err != nil {
		return err
	}
	if c.Priority != 0 {
		n.priority.Store(int64(c.Priority))
	}
	return nil
}

// booted runs when the incarnation of a newly founded node is durable. A node that was founded before sends it in its
// first Hello.
func (n *Node) booted() {
	ms := n.membership.Load()
	n.link.SetIncarnation(n.run.Incarnation())
	n.rewire(ms)
	n.link.Announce(&wire.Welcome{Membership: ms, Program: n.cfg.Program})
	if ms.Version > 1 {
		n.log.Info("this node has joined", "version", ms.ID(), "voters", list(ms.Voters), "observers", orNone(ms.Observers), "incarnation", n.run.Incarnation())
	} else {
		n.log.Info("the election is founded", "voters", len(ms.Voters), "incarnation", n.run.Incarnation())
	}
}

// ended is when the leadership that ends in this step ended. A process that was stopped may notice long after its
// lease has run out, when another leads. The wall-clock time is as long ago as the Boot clock says.
func (n *Node) ended() time.Time {
	late := time.Duration(0)
	if n.leaseEnd != 0 {
		late = max(n.run.Latest().Boot.Sub(n.leaseEnd), 0)
	}
	return time.Now().Add(-late)
}

// note records an event of this node's own leadership.
func (n *Node) note(event string, token fence.Token, reason string, at time.Time) {
	n.notes.put(disk.History{At: at, Event: event, Leader: n.cfg.ID, Token: token, Reason: reason})
}

// end stops everything after the last turn, in the order of dependency.
func (n *Node) end() {
	if n.lone != nil {
		n.lone.Stop()
	}
	n.voids.Wait()
	n.locator.close()
	_ = n.link.Close()
	n.run.Close()
	n.notes.close()
	if r := n.recorder.Load(); r != nil {
		_ = r.Close() // it writes what is queued; the election does not depend on the record
	}
	if err := n.dir.Close(); err != nil {
		n.log.Warn("closing the data directory", "error", err)
	}
}

package peer

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/wire"
)

// newRunner makes the runner of the machine. What a node does besides in each turn is in the hooks.
func (n *Node) newRunner() *runtime.Runner {
	var kept []byte // the last data written
	save := func(data []byte) error {
		kept = n.dialect.write(kept[:0], n.membership.Load(), data)
		return n.dir.Save(kept)
	}
	mirror := func([]byte) error { return n.dir.Mirror() }
	if n.cfg.disk != nil {
		save, mirror = n.cfg.disk(save), n.cfg.disk(mirror)
	}
	return runtime.New(runtime.Config{
		ID: n.cfg.ID, Era: n.cfg.Era, Disk: ballots{save, mirror}, Transport: outbox{&n.founding, &n.leaders, &n.contacts}, Log: n.log, Now: n.cfg.now,
		Late: n.plan.Heartbeat, Idle: n.plan.Promise, Incarnations: true,
		Hooks: runtime.Hooks{
			Heard: func(from protocol.NodeID, l *runtime.Incoming) bool {
				if n.founding.apart.Load() {
					return false
				}
				if l.Token != 0 {
					n.leaders.heard(from, l)
				}
				return true
			},
			Published: n.published, Reason: n.pausing.reason, Stopped: n.leaders.stopped, Stand: n.stand, Booted: n.booted, Survey: n.survey,
			Elected: func(m *runtime.Mandate, c *runtime.Candidacy) {
				n.handover.successor = ""
				n.leaders.elected(m, c)
			},
			Active:    func(m *runtime.Mandate) { n.leaders.note(eventActive, m.Token(), "", time.Now()) },
			CatchUp:   func(o *protocol.Order) { n.locator.catchUp(o.From, o.Position) },
			Withdrawn: func() { n.locator.enough(errNoCandidate) },
			Jumped:    func() { n.locator.from = n.run.Latest().Boot },
		},
	})
}

// ballots is a node's [runtime.Disk].
type ballots struct {
	save   func([]byte) error
	mirror func([]byte) error // ignores its argument
}

func (b ballots) Save(data []byte) error { return b.save(data) }
func (b ballots) Settle() error          { return b.mirror(nil) }

// outbox is a node's [runtime.Transport].
type outbox struct {
	founding *founding
	leaders  *leaders
	contacts *contacts
}

// Send implements [runtime.Transport].
func (o outbox) Send(s *protocol.Send) {
	if o.founding.apart.Load() {
		return
	}
	l := wire.Letter{Message: s.Message}
	if own := &o.leaders.own; s.Leads {
		l.Since, l.Token = own.since, own.token
		if l.Message.Metadata == "" {
			l.Message.Metadata = own.raw // a classic machine has no field for it
		}
	}
	o.contacts.Send(s.To, &l)
}

// published runs after each step of the machine.
func (n *Node) published(in *protocol.Input, before *protocol.View) {
	if before != nil {
		n.clocks.compare(n.log, n.run)
		n.leaders.remember(in, before)
		n.locator.published(before)
	}
	n.follow()
}

// survey runs at the end of a turn. It returns when it must run again at the latest.
func (n *Node) survey() protocol.Instant {
	n.ailing.survey()
	return n.watch.survey()
}

// stand refuses a candidacy that cannot succeed.
func (n *Node) stand(c *runtime.Candidacy) error {
	if err := n.refusals.hopeless(); err != nil {
		return err
	}
	if c.Priority != 0 {
		n.priority.Store(int64(c.Priority))
	}
	return nil
}

// closeLimit is how long Close waits for a disk that hangs.
const closeLimit = 5 * time.Second

// end stops everything after the last turn. A write that hangs goes on, in a directory that stays locked meanwhile: it
// must not end over what a later incarnation has written. If the process ends first, the kernel does the same. Nobody
// has relied on that write.
func (n *Node) end() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.endAll()
	}()
	late := time.NewTimer(closeLimit)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		n.log.Warn("the disk of the data directory hangs: the node ends without it, and the directory is in use until the last write has ended", "path", n.dir.Path(), "limit", closeLimit)
	}
}

// endAll stops everything, in the order of dependency.
func (n *Node) endAll() {
	n.founding.close()
	n.locator.close()
	_ = n.contacts.Close()
	n.run.Close()
	n.leaders.notes.close()
	if r := n.recorder.Load(); r != nil {
		_ = r.Close() // it writes what is queued; the election does not depend on the record
	}
	if err := n.dir.Close(); err != nil {
		n.log.Warn("closing the data directory", "error", err)
	}
}

// booted runs when the incarnation of a newly founded node is durable. A node that was founded before sends it in its
// first Hello.
func (n *Node) booted() {
	ms := n.membership.Load()
	n.contacts.SetIncarnation(n.run.Incarnation())
	n.contacts.rewire(ms)
	n.contacts.Announce(&wire.Welcome{Membership: ms, Program: n.cfg.Program})
	if ms.Version > 1 {
		n.log.Info("this node has joined", "version", ms.ID(), "voters", list(ms.Voters), "observers", orNone(ms.Observers), "incarnation", n.run.Incarnation())
	} else {
		n.log.Info("the election is founded", "voters", len(ms.Voters), "incarnation", n.run.Incarnation())
	}
}

// follow applies the machine's new membership after a step.
func (n *Node) follow() {
	r, ok := n.run.Machine().(protocol.Reconfigurable)
	if !ok {
		return
	}
	ms, _ := r.Membership()
	before := n.membership.Load()
	if ms == before || ms == nil {
		return
	}
	n.membership.Store(ms) // before the links are told: Admit uses it
	if before != nil && before.Version == ms.Version && before.ConfigTerm == ms.ConfigTerm {
		return // the same membership at another address in memory
	}
	n.membership.replan(ms)
	n.contacts.rewire(ms)
	if before != nil && before.Version == ms.Version && slices.Equal(before.Voters, ms.Voters) {
		return // only the term of a new leader is new
	}
	n.log.Info("the membership", "version", ms.ID(), "voters", list(ms.Voters), "observers", orNone(ms.Observers))
	n.contacts.Announce(&wire.Welcome{Membership: ms, Program: n.cfg.Program})
	if own := n.refusals.from[n.cfg.ID]; own.Refusal != nil && own.Code == wire.CodeRemoved && n.membership.listed(ms) {
		delete(n.refusals.from, n.cfg.ID)
	}
	if !n.membership.listed(ms) {
		r := outside(ms, n.cfg.ID, n.cfg.Join)
		r.Final = !n.cfg.Join
		n.log.Warn("this node takes no part any more", "version", ms.ID(), "voters", list(ms.Voters))
		n.run.Do(func() { n.refusals.refuse(n.cfg.ID, r) }) // not within the step, whose effects are still to come
	}
}

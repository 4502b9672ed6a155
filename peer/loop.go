package peer

import (
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// loop owns the machine. Everything that happens to it passes through a turn, and
// nothing in a turn waits for a disk or for a network.
func (n *Node) loop() {
	defer n.end()
	t := &turns{n: n, baton: make(chan struct{}, 1)}
	n.inbox.help(t.help)
	t.take() // for end, too: whoever brings something then is too late
	for {
		n.arm()
		t.leave()
		stopped := false
		select {
		case <-n.stop:
			stopped = true
		case <-n.inbox.wake:
		case <-n.timer.C:
		}
		t.take()
		if stopped {
			return
		}
		if !t.turn(rounds) {
			n.survey()
			n.inbox.ring()
		}
	}
}

// rounds is how often the loop takes what there is before it looks whether it is to
// stop, and what observers are to be shown.
const rounds = 64

// turns makes one turn of the loop after the other. They are taken by the loop's
// goroutine, and by one that brings a letter when no other turn is under way: to
// wake a goroutine for each heartbeat costs several times what the turn does.
type turns struct {
	n     *Node
	baton chan struct{} // whoever has put something in has the turn, and all that the loop owns
	batch []item
	lost  uint64
}

func (t *turns) take()  { t.baton <- struct{}{} }
func (t *turns) leave() { <-t.baton }

// help makes a turn, unless one is under way or more arrives than it is to take
// on: then the loop is woken, which makes another one. So whoever brings a letter
// neither waits nor is kept.
func (t *turns) help() {
	select {
	case t.baton <- struct{}{}:
	default:
		t.n.inbox.ring()
		return
	}
	done := t.turn(2)
	if done {
		t.n.arm()
	}
	t.leave()
	if !done {
		t.n.inbox.ring()
	}
}

// turn reports false if it has taken what was there as often as it may.
func (t *turns) turn(most int) bool {
	n := t.n
	n.awake()
	for range most {
		// What has arrived is handed in before a timer that has come due (R16), and
		// what comes later is not waited for: it may never end.
		due := n.machine != nil && n.machine.NextFire() <= n.latest.Boot
		t.batch = n.inbox.take(t.batch)
		if len(t.batch) == 0 {
			return t.finish()
		}
		if due && mutation.Is(mutation.TimerBeforeLetter) {
			n.fire()
		}
		for i := range t.batch {
			n.handle(&t.batch[i])
		}
		if due {
			n.fire()
			n.due = n.machine.NextFire()
		}
	}
	return false
}

// finish ends a turn that has taken everything.
func (t *turns) finish() bool {
	n := t.n
	n.fire()
	n.survey()
	if now := n.inbox.lost(); now > t.lost {
		t.lost = now
		n.log.Warn("messages were dropped: they come faster than this process runs", "dropped", t.lost)
	}
	return true
}

// read reads the clocks, and remembers what they showed: a reading that is some
// microseconds old does for a timer, and each costs a few system calls.
func (n *Node) read() protocol.Reading {
	n.latest = n.now()
	return n.latest
}

// arm sets the timer for whatever comes first.
func (n *Node) arm() {
	at := n.watch.at
	n.due = protocol.Never
	if n.machine != nil {
		n.due = n.machine.NextFire()
		at = min(at, max(n.due, n.patient))
	}
	if at == protocol.Never {
		n.timer.Stop()
		return
	}
	n.timer.Reset(clock.Timer(max(at.Sub(n.latest.Boot), 0)))
}

// awake notices when the loop should have run earlier: the process was stopped,
// or did not get the processor, or the machine slept.
func (n *Node) awake() {
	now := n.read()
	if now.Jumped(n.anchor) {
		n.anchor, n.locator.from = now, now.Boot
		n.counted.jumped()
		n.log.Warn("the machine slept, or a clock was set; what was promised counts anew")
	}
	n.late(n.due, now.Boot)
}

// late takes notice if the machine wanted to be called much earlier than now.
func (n *Node) late(due, now protocol.Instant) {
	if due == protocol.Never || due <= n.paused || now.Sub(due) <= n.plan.Heartbeat {
		return
	}
	n.paused = now
	n.counted.paused(now.Sub(due))
	n.log.Warn("this process did not run for a while", "late", now.Sub(due).Truncate(time.Millisecond))
	if !n.view.Elected {
		// What has arrived meanwhile is still in the kernel: whoever reads it has
		// to run before the silence is taken for a leader's.
		n.patient = now.Add(min(n.plan.Heartbeat/4, 10*time.Millisecond))
	}
}

// handle takes one thing in.
func (n *Node) handle(it *item) {
	if it.from == "" {
		it.do()
		return
	}
	if n.machine == nil || n.apart.Load() {
		return
	}
	if it.letter.Token != 0 {
		n.noteLeader(it.from, &it.letter)
	}
	n.in = protocol.Input{Kind: protocol.Receive, From: it.from, Message: it.letter.Message}
	n.step()
}

func (n *Node) fire() {
	if n.machine == nil {
		return
	}
	now, due := n.latest.Boot, n.machine.NextFire()
	n.late(max(min(n.due, due), n.told), now) // also of a turn that took too long
	if now >= due && now >= n.patient {
		n.in = protocol.Input{Kind: protocol.Fire}
		n.step()
	}
}

// command gives the machine a command.
func (n *Node) command(c protocol.Command) {
	if n.machine == nil {
		return
	}
	n.in = protocol.Input{Kind: protocol.Do, Command: c}
	n.step()
	n.told = n.latest.Boot // a timer that this has brought back may be long past, and nobody is late
}

func (n *Node) peerClosed(from protocol.NodeID, incarnation uint64) {
	if n.machine == nil {
		return
	}
	n.in = protocol.Input{Kind: protocol.PeerClosed, From: from, Incarnation: incarnation}
	n.step()
}

// step hands n.in to the machine and carries out what comes of it, and of the
// works that had returned.
func (n *Node) step() {
	n.stepOnce()
	n.join()
}

// join tells the machine of works that have returned. It may win again by that,
// and stop again.
func (n *Node) join() {
	for len(n.joins) > 0 {
		token := n.joins[0]
		n.joins = n.joins[1:]
		if n.tenure != nil && n.tenure.m.count == token {
			n.tenure.m.joined.Store(true)
			n.tenure = nil
		}
		n.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: token}}
		n.stepOnce()
	}
}

func (n *Node) stepOnce() {
	before := n.latest
	n.in.Now, n.in.Rand = n.read(), n.chance.Uint64()
	misread(&n.in, before)
	n.fx.Reset()
	n.machine.Step(&n.in, &n.fx)
	if !misorder(n) {
		n.endTenures()
		n.publish()
		n.follow()
		n.carryOrders()
		n.carrySaves()
		n.carrySends()
	}
	n.confirms.answer(n.view.Confirmed)
	if r := n.recorder.Load(); r != nil {
		r.Step(&n.in, &n.fx, &n.view, func() []byte { return n.machine.AppendState(nil) })
	}
}

// endTenures ends the contexts of works whose terms have ended, before the view
// that says so is shown, and so that a Check always knows why.
func (n *Node) endTenures() {
	for _, o := range n.fx.Orders {
		if t := n.tenure; o.Kind == protocol.Stop && t != nil && t.m.count == o.Token {
			t.m.lose(plain(n.reason(o.Reason)))
		}
	}
}

// publish shows the view to everybody, before anything that comes of the step
// leaves: a Check that sees the old one proves what was true when it began.
func (n *Node) publish() {
	v := n.machine.View()
	if n.seen.Load() != nil && v == n.view {
		return
	}
	before := n.view
	n.view = v
	n.seen.Store(&v)
	n.clocks.compare(n)
	n.remember(&before)
	n.whereabouts(&before)
}

func (n *Node) carryOrders() {
	for _, o := range n.fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			n.elected(o.Token)
		case protocol.Lead:
			n.active(o.Token)
		case protocol.Stop:
			n.stopped(o.Token, n.reason(o.Reason))
		case protocol.CatchUp:
			n.locator.catchUp(n, o.From, o.Position)
		}
	}
}

func (n *Node) carrySaves() {
	for i := range n.fx.Saves {
		s := &n.fx.Saves[i]
		if n.in.Kind == protocol.Boot {
			if n.view.Incarnation == 0 {
				continue // boot refuses this machine, and the disk never sees it
			}
			n.incarnation.Store(n.view.Incarnation)
			n.bootSave = s.Number
		}
		n.saver.put(s.Number, s.Data)
	}
}

func (n *Node) carrySends() {
	for i := range n.fx.Sends {
		s := &n.fx.Sends[i]
		leaves := s.After <= n.durable
		switch {
		case mutation.Is(mutation.SendAtOnce):
			leaves = true
		case mutation.Is(mutation.QueueBehindSaves):
			leaves = leaves && len(n.waiting) == 0
		case mutation.Is(mutation.DurableAwaited):
			leaves = s.After == 0
		}
		if leaves {
			n.send(s)
		} else {
			n.wait(s)
		}
	}
}

// wait keeps a message until its save is durable. The message replaces an older one
// of its type to the same participant. So the number of waiting messages is bounded
// however long a sync takes, although each heartbeat of a new term asks for an answer.
//
// That is safe: to a machine the older message is lost, as any message may be.
// And no participant waits for ever, although the newer message may name a later save,
// and so leave later than the older one would have. A machine names the save on which
// the message depends: of its term, of a promise greater than all before, or of its
// incarnation. So a later save means that the term of the older message is over, or
// that a greater promise was asked for. In the first case the older message has no use
// any more. The second case is as rare as a leader that asks for a greater promise.
// Between two such events all messages of a type name the same save, and the newest of
// them leaves with it. In a ring, where messages of one type are about several nodes,
// they wait for the incarnation only, and a node that does not get its own message back
// sends it again. Only another vote replaces a vote, and only another release a release.
func (n *Node) wait(s *protocol.Send) {
	kept := n.waiting[:0]
	for i := range n.waiting {
		if w := &n.waiting[i]; w.To != s.To || w.Message.Type != s.Message.Type || mutation.Is(mutation.OlderKept) {
			kept = append(kept, *w)
		}
	}
	n.waiting = append(kept, *s) // last, so that what leaves is in the order of time
}

func (n *Node) send(s *protocol.Send) {
	if n.link == nil || n.apart.Load() {
		return // booted before the links: nobody is there yet
	}
	l := wire.Letter{Message: s.Message}
	if s.Leads {
		l.Since, l.Token = n.own.since, n.own.token
		if l.Message.Metadata == "" {
			l.Message.Metadata = n.own.raw // a classic machine has no place for it
		}
	}
	n.link.Send(s.To, &l)
}

// saved lets go what waited for a save, or drops it, and tells the machine.
func (n *Node) saved(number uint64, err error) {
	kept := n.waiting[:0]
	for i := range n.waiting {
		switch s := &n.waiting[i]; {
		case s.After > number && !mutation.Is(mutation.AnySaveReleases), s.After < number && mutation.Is(mutation.EarlierForgotten):
			kept = append(kept, *s)
		case err == nil || mutation.Is(mutation.SendAfterFailure):
			n.send(s)
		}
	}
	clear(n.waiting[len(kept):])
	n.waiting = kept
	if err != nil {
		n.trouble(err)
	} else {
		n.durable = number
		if n.counted.healed() {
			n.log.Warn("the ballot can be saved again") // as loud as the trouble was
		}
	}
	n.in = protocol.Input{Kind: protocol.Saved, Number: number, Failed: err != nil}
	n.step()
	if err == nil && n.bootSave != 0 && number >= n.bootSave {
		n.bootSave = 0
		n.booted()
	}
}

// trouble says once that the disk fails, not once a heartbeat.
func (n *Node) trouble(err error) {
	if n.counted.broke() {
		n.log.Error("the ballot cannot be saved: this node votes for nobody and leads nothing until it can", "error", err)
	}
}

// booted comes when the incarnation of a newly founded node is durable. One that
// was founded before says it in its first hello.
func (n *Node) booted() {
	if n.link == nil {
		return
	}
	ms := n.membership.Load()
	n.link.SetIncarnation(n.incarnation.Load())
	n.rewire(ms)
	n.link.Announce(&wire.Welcome{Membership: ms, Program: n.cfg.Program})
	if ms.Version > 1 {
		n.log.Info("this node has joined", "version", ms.ID(), "voters", list(ms.Voters), "observers", orNone(ms.Observers), "incarnation", n.incarnation.Load())
	} else {
		n.log.Info("the election is founded", "voters", len(ms.Voters), "incarnation", n.incarnation.Load())
	}
	if n.waiter != nil {
		n.command(n.waiter.command)
	}
}

// end stops everything, in the order in which one thing needs the other.
func (n *Node) end() {
	defer close(n.joined)
	n.timer.Stop()
	n.ending = true
	if n.tenure != nil {
		n.tenure.m.lose(errClosed)
	}
	for _, it := range n.inbox.close() {
		if it.from == "" {
			it.do() // somebody may wait for it
		}
	}
	if n.tenure != nil {
		n.tenure.m.lose(errClosed) // it may have been won by what was left
	}
	if n.lone != nil {
		n.lone.Stop()
	}
	n.quit()
	n.voids.Wait()
	n.locator.close()
	_ = n.link.Close()
	n.saver.close()
	n.scribe.close()
	if r := n.recorder.Load(); r != nil {
		_ = r.Close() // it writes what waits; the record is worth nothing to the election
	}
	if err := n.dir.Close(); err != nil {
		n.log.Warn("closing the data directory", "error", err)
	}
}

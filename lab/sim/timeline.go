package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// opState is the progress of an operation.
type opState struct {
	on       bool
	op       *Op // the operation with the leader's name, if it names Leader; never changed
	ticks    int
	away     uint32 // of a swizzle, by place in Group: which are cut off; of a reconfigure: all was asked for at once
	order    []int8 // and in which order they are healed
	twin     int32  // of a twin: which one
	snapshot *[2]slot
}

// populate makes the participants, their links and their disks.
func (w *World) populate() {
	s := w.schedule
	w.membership = &protocol.Membership{Version: 1}
	for i := range w.width {
		id := voterID(i)
		switch {
		case i >= s.Nodes+s.Observers:
			id = spareID(i - s.Nodes - s.Observers)
		case i >= s.Nodes:
			id = observerID(i - s.Nodes)
			w.membership.Observers = append(w.membership.Observers, id)
		}
		n := w.newNode(i, i, id)
		n.observer, n.spare = i >= s.Nodes, i >= s.Nodes+s.Observers
		n.membership = w.membership
		if i < len(s.Clocks) {
			n.clock = clock{rate: s.Clocks[i].Rate, boot: protocol.Instant(s.Clocks[i].Zero), mono: protocol.Instant(s.Clocks[i].Zero)}
		}
		if !n.observer {
			w.membership.Voters = append(w.membership.Voters, n.self)
		}
		w.nodes = append(w.nodes, n)
	}
	w.ops = make([]opState, len(s.Ops))
	for i := range s.Ops {
		if s.Ops[i].Kind != OpTwin {
			continue
		}
		base := w.index(s.Ops[i].Node)
		if base < 0 {
			continue
		}
		k := slices.IndexFunc(w.nodes[w.width:], func(n *node) bool { return n.base == base })
		if k < 0 {
			k = len(w.nodes) - w.width
			n := w.newNode(len(w.nodes), base, s.Ops[i].Node)
			n.observer, n.membership = w.nodes[base].observer, w.membership
			w.nodes = append(w.nodes, n)
		}
		w.ops[i].twin = int32(w.width + k)
	}
	switch {
	case w.protocol.Store == StoreNone:
		w.connect()
	case w.schedule.Store.Replicated:
		w.shapes = make([]shape, w.width*w.width)
		w.reshape()
	}
}

// connect makes the links between the participants. Those that a store elects
// have none.
func (w *World) connect() {
	s := w.schedule
	w.links = make([]link, len(w.nodes)*len(w.nodes))
	for i := range w.links {
		w.links[i].rand = *w.stream("net/" + strconv.Itoa(i/len(w.nodes)+1) + ">" + strconv.Itoa(i%len(w.nodes)+1))
	}
	w.shapes = make([]shape, w.width*w.width)
	for i := range s.Ops {
		op := &s.Ops[i]
		w.lies = w.lies || op.Kind == OpImpostor
		if op.Kind == OpReplay && (op.Node == Leader || op.Peer == Leader) {
			for k := range w.links {
				if w.links[k].old == nil {
					w.links[k].old = new([remembered]protocol.Message)
				}
			}
		}
		from, to := w.index(op.Node), w.index(op.Peer)
		if from < 0 || to < 0 {
			continue
		}
		switch l := w.link(from, to); op.Kind {
		case OpDrop:
			l.drops = append(l.drops, uint64(op.Count))
			slices.Sort(l.drops)
		case OpReplay:
			if l.old == nil {
				l.old = new([remembered]protocol.Message)
			}
		}
	}
	w.reshape()
}

// op is the i-th operation: as in the schedule, with the leader's name in the place of Leader once
// it has begun.
func (w *World) op(i int) *Op {
	if op := w.ops[i].op; op != nil {
		return op
	}
	return &w.schedule.Ops[i]
}

// meant determines the participant of an operation that begins now.
func (w *World) meant(i int) *Op {
	op := &w.schedule.Ops[i]
	if op.Node != Leader && op.Peer != Leader {
		return op
	}
	leader := w.leader()
	c := *op
	if c.Node == Leader {
		c.Node = leader
	}
	if c.Peer == Leader {
		c.Peer = leader
	}
	w.ops[i].op = &c
	return &c
}

// leader is the active participant with the greatest token, or else the elected one; empty if there
// is none.
func (w *World) leader() (id protocol.NodeID) {
	active, token := false, uint64(0)
	for _, n := range w.nodes[:w.width] {
		if v := &n.view; n.up && v.Elected && (v.Active && !active || v.Active == active && v.Token > token) {
			id, active, token = n.id, v.Active, v.Token
		}
	}
	return id
}

func (w *World) newNode(index, base int, id protocol.NodeID) *node {
	number := strconv.Itoa(index + 1)
	n := &node{index: index, base: base, id: id, due: never, timer: never}
	n.rand = *w.stream("machine/" + number)
	n.disk.rand = *w.stream("disk/" + number)
	n.self = protocol.Voter{ID: id, Dir: w.dir(base, 0)}
	return n
}

// dir is the identity of a participant's data directory after that many wipes.
func (w *World) dir(base, wipes int) (d protocol.DirID) {
	s := w.stream("directory/" + strconv.Itoa(base+1) + "/" + strconv.Itoa(wipes))
	binary.BigEndian.PutUint64(d[:8], s.Uint64())
	binary.BigEndian.PutUint64(d[8:], s.Uint64())
	return d
}

// plan schedules the schedule's events.
func (w *World) plan() {
	s := w.schedule
	for i := range w.width {
		w.in(0, event{kind: evBoot, node: int32(i)})
	}
	for i := range s.Ops {
		op := &s.Ops[i]
		if k := w.index(op.Node); op.Kind == OpRestore && k >= 0 {
			w.in(time.Duration(op.At)-op.By, event{kind: evSnapshot, node: int32(k), ref: int32(i)})
		}
		w.in(time.Duration(op.At), event{kind: evOp, ref: int32(i)})
	}
	if s.Log.Every > 0 {
		w.in(s.Log.Every, event{kind: evAppend})
	}
	if s.Settle > 0 {
		w.in(s.Faults, event{kind: evHeal})
	}
	w.in(s.Faults+s.Settle, event{kind: evEnd})
}

// inCore reports whether n is healed for the liveness phase, which has begun.
func (w *World) inCore(n *node) bool { return w.core.has(n.base) }

// places is a set of participants, by their place.
type places [MaxCandidates/64 + 1]uint64

func (p *places) has(place int) bool { return p[place/64]>>(place%64)&1 == 1 }
func (p *places) add(place int)      { p[place/64] |= 1 << (place % 64) }

// mended reports whether n has been healed.
func (w *World) mended(n *node) bool { return w.healed && w.inCore(n) }

// begin begins an operation.
func (w *World) begin(i int) {
	op, st := w.meant(i), &w.ops[i]
	w.tellOp(RecordFault, op)
	if op.Node == "" && w.schedule.Ops[i].Node == Leader {
		return // there is no leader
	}
	st.on = true
	if op.Every > 0 {
		w.in(0, event{kind: evTick, ref: int32(i)})
	}
	if op.For > 0 {
		w.in(op.For, event{kind: evOpEnd, ref: int32(i)})
	}
	w.oracle.fault(w, op)
	if n := w.named(op.Node); n != nil {
		switch op.Kind {
		case OpReset:
			for _, p := range w.nodes[:w.width] {
				if op.Peer == "" || op.Peer == p.id {
					w.reset(n, p)
				}
			}
		case OpReplay:
			if p := w.index(op.Peer); p >= 0 {
				w.replay(n.index, p, op.Count)
			}
		case OpRate, OpStep, OpReboot:
			w.beginClock(n, op)
		case OpLoseWrites, OpFlip, OpRestore, OpEIO, OpFull, OpSlowSync:
			w.beginDisk(n, op, st)
		case OpKill, OpPowerLoss, OpPause, OpPauseSend, OpPauseWork, OpSuspend, OpWipe, OpTwin, OpWitness:
			w.beginProcess(n, op, st)
		case OpResign, OpWithdraw, OpSicken, OpConfirm, OpTransfer, OpStandBack, OpLocate:
			w.beginOperator(n, op, st)
		}
	}
	switch {
	case op.Kind == OpSwizzle:
		w.swizzle(op, st)
	case op.Kind.shapes():
		w.reshape()
	case op.Kind.stores() && w.store != nil:
		w.store.fault(w, op, true)
	}
}

// tick handles an operation that goes on.
func (w *World) tick(i int) bool {
	op, st := w.op(i), &w.ops[i]
	n := w.named(op.Node)
	if !st.on || w.healed && (op.Kind.shapes() || op.Kind.reconfigures() || n != nil && w.mended(n)) {
		return false
	}
	tick := st.ticks
	st.ticks++
	switch op.Kind {
	case OpSwizzle:
		if tick < len(op.Group) {
			st.away |= 1 << tick
		} else if tick -= len(op.Group); tick < len(op.Group) {
			st.away &^= 1 << st.order[tick]
		}
		w.reshape()
	case OpFlap:
		w.reshape()
	case OpCrashLoop:
		if n != nil && n.up {
			w.killFor(n, byKill, max(op.Every/2, 1))
		}
	case OpRoll:
		if tick >= w.width {
			st.on = false
			return true
		}
		if r := w.nodes[tick]; r.up && !w.mended(r) {
			w.killFor(r, byKill, max(op.Every/2, 1))
		}
	case OpStrobe:
		if n != nil {
			w.strobe(n, op, tick%2 == 0)
		}
	case OpAdd, OpRemove, OpReplace, OpReconfigure:
		if w.reconfigure(n, op, st) {
			st.on = false
			return true
		}
	default:
		st.on = op.For > 0
		return false
	}
	w.in(op.Every, event{kind: evTick, ref: int32(i)})
	return true
}

// end ends an operation.
func (w *World) end(i int) bool {
	op, st := w.op(i), &w.ops[i]
	if !st.on || w.healed && op.Kind.shapes() {
		return false // it is healed, or stays for good
	}
	st.on = false
	w.tellOp(RecordFaultEnd, op)
	n := w.named(op.Node)
	switch {
	case op.Kind.shapes():
		w.reshape()
		if to := w.index(op.Peer); op.Kind == OpClog && n != nil && to >= 0 {
			w.unclogged(n.index, to)
		}
	case op.Kind.stores() && w.store != nil:
		w.store.fault(w, op, false)
	case n != nil:
		w.endNode(n, op, st)
	}
	return true
}

// endNode ends what an operation has done to a participant.
func (w *World) endNode(n *node, op *Op, st *opState) {
	switch op.Kind {
	case OpEIO:
		n.disk.failing--
	case OpFull:
		n.disk.full--
	case OpSlowSync:
		n.disk.slow -= op.By
	case OpStrobe:
		if st.ticks%2 == 1 {
			w.strobe(n, op, false)
		}
	case OpTwin:
		if t := w.nodes[st.twin]; t.up {
			w.die(t, byKill)
		}
	case OpWithdraw:
		if n.withdrawn--; n.withdrawn == 0 && w.campaigns(n) {
			w.command(n, protocol.Command{Verb: protocol.Campaign})
		}
	case OpSicken:
		if n.sick--; n.sick == 0 {
			w.command(n, protocol.Command{Verb: protocol.Recover})
		}
	case OpStandBack:
		if n.paused--; n.paused == 0 {
			w.command(n, protocol.Command{Verb: protocol.Resume})
		}
	case OpLocate:
		n.still--
	}
}

// heal ends the faults. The core is whole again: its links, processes and disks are, and its clocks
// keep the assumption. The faults of the others stay for good, and so do their cuts.
func (w *World) heal() {
	w.healed = true
	w.chooseCore()
	w.tell(nil, RecordHeal, "")
	for i := range w.ops {
		op, st := w.op(i), &w.ops[i]
		n := w.named(op.Node)
		if !st.on || op.Kind.shapes() || op.Kind.stores() || n == nil || !w.mended(n) {
			continue
		}
		st.on = false
		w.endNode(n, op, st)
	}
	w.reshape()
	for from := range w.nodes {
		for to := range w.nodes {
			if w.mended(w.nodes[from]) && w.mended(w.nodes[to]) {
				w.unclog(from, to)
			}
		}
	}
	w.tame()
	if w.store != nil {
		w.store.heal(w)
	}
	for _, n := range w.nodes {
		if !w.mended(n) {
			continue
		}
		n.pauseSend, n.pauseWork = 0, 0
		switch {
		case n.up:
			w.wake(n)
			if n.frozen {
				w.thaw(n)
			}
		case n.base == n.index:
			w.boot(n)
		}
	}
	w.oracle.healing(w)
}

// strange is the error for a participant that a schedule cannot name.
func strange(id protocol.NodeID, s *Schedule) error {
	return fmt.Errorf("participant %q; want n1 to n%d%s%s", id, s.Nodes, upTo("o", s.Observers), upTo("s", s.Spares))
}

func upTo(letter string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", or %[1]s1 to %[1]s%[2]d", letter, n)
}

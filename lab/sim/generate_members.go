package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// These functions draw what depends on a membership that can change.

// electors are all participants that may ever vote.
func electors(nodes, observers, spares int) []protocol.NodeID {
	var all []protocol.NodeID
	for i := range nodes {
		all = append(all, voterID(i))
	}
	for i := range observers {
		all = append(all, observerID(i))
	}
	for i := range spares {
		all = append(all, spareID(i))
	}
	return all
}

// spares draws the number of spares, and whether there is a log.
func (d *draw) spares(spares int, churn bool) {
	s := d.schedule
	if spares == 0 && (len(d.only) == 0 || slices.ContainsFunc(d.only, OpKind.reconfigures)) && (churn || d.IntN(3) == 0) {
		s.Spares = 1 + d.IntN(3)
		if churn && s.Observers == 0 {
			s.Observers = d.IntN(2)
		}
	}
	if d.IntN(2) == 0 {
		s.Log = Log{Every: d.between(d.patience/10, 2*d.patience), Lag: d.short()}
	}
}

// transfer draws a transfer, mostly of the leader, and often a crash soon after it: of the leader,
// or of the successor.
func (d *draw) transfer(op *Op) {
	if op.Node = Leader; d.IntN(8) == 0 {
		op.Node = d.node()
	}
	if d.IntN(3) > 0 {
		op.Peer = d.node()
	}
	if d.IntN(2) == 0 {
		return
	}
	crash := Op{At: op.At + Time(d.short())/4, Kind: [...]OpKind{OpKill, OpPowerLoss, OpPauseSend}[d.IntN(3)], Node: op.Node, For: d.down()}
	if op.Peer != "" && d.IntN(2) == 0 {
		crash.Node = op.Peer
	}
	d.also = append(d.also, crash)
}

// locate draws a participant that falls behind, or gets ahead.
func (d *draw) locate(op *Op) {
	if op.Node = d.node(); d.IntN(2) == 0 {
		op.For = d.span()
		return
	}
	op.Count = 1 + d.IntN(3)
}

// joiner draws a participant that may become a voter: rarely one that is a voter already.
func (d *draw) joiner() protocol.NodeID {
	s := d.schedule
	if more := s.Observers + s.Spares; more > 0 && d.IntN(4) > 0 {
		return electors(0, s.Observers, s.Spares)[d.IntN(more)]
	}
	return d.voter()
}

// electorate draws the set of voters to be.
func (d *draw) electorate() []protocol.NodeID {
	s := d.schedule
	all := electors(s.Nodes, s.Observers, s.Spares)
	if s.Observers+s.Spares > 0 && d.IntN(4) == 0 {
		all = all[s.Nodes:] // all of them new
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(1+d.IntN(5), len(all))]
	slices.SortFunc(all, protocol.NodeID.Compare)
	return all
}

// work draws how long an operator tries, and how often.
func (d *draw) work(op *Op) {
	op.Every = d.between(d.patience/100, d.patience/2)
	op.For = max(d.between(d.patience, 10*d.patience), 2*op.Every)
}

// favour draws a transfer to a participant that may have become a voter just now, and sometimes a
// cut that ends then.
func (d *draw) favour(op *Op, to protocol.NodeID) {
	if d.IntN(3) > 0 {
		return
	}
	after := d.span()
	d.also = append(d.also, Op{At: op.At + Time(after), Kind: OpTransfer, Node: Leader, Peer: to})
	if d.IntN(2) == 0 && op.At > Time(after) {
		d.also = append(d.also, Op{At: op.At - Time(after), Kind: OpIsolate, Node: to, For: 2*after - min(after, d.short()/4)})
	}
}

// replace draws the loss of a disk, and the return of its voter.
func (d *draw) replace(op *Op) {
	op.Node = d.wiped()
	d.work(op)
	if op.Node == "" || d.IntN(4) == 0 {
		return
	}
	again := *op
	*op = Op{At: op.At, Kind: OpWipe, Node: op.Node, For: d.short()}
	again.At += Time(d.span())
	d.also = append(d.also, again)
}

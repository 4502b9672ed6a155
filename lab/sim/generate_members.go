package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// What is drawn where who takes part can change.

// electors are all who may ever vote.
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

// company draws how many spares there are, and whether there is a log.
func (d *draw) company(spares int, churn bool) {
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

// transfer draws a transfer, mostly of whoever leads, and often a crash that
// follows close behind: of who was asked, or of who is to follow.
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

// locate draws one who falls behind, or gets ahead.
func (d *draw) locate(op *Op) {
	if op.Node = d.node(); d.IntN(2) == 0 {
		op.For = d.span()
		return
	}
	op.Count = 1 + d.IntN(3)
}

// joiner draws one who may become a voter: not often one who is.
func (d *draw) joiner() protocol.NodeID {
	s := d.schedule
	if more := s.Observers + s.Spares; more > 0 && d.IntN(4) > 0 {
		return electors(0, s.Observers, s.Spares)[d.IntN(more)]
	}
	return d.voter()
}

// cast draws who the voters are to be.
func (d *draw) cast() []protocol.NodeID {
	s := d.schedule
	all := electors(s.Nodes, s.Observers, s.Spares)
	if s.Observers+s.Spares > 0 && d.IntN(4) == 0 {
		all = all[s.Nodes:] // all of them others
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(1+d.IntN(5), len(all))]
	slices.SortFunc(all, protocol.NodeID.Compare)
	return all
}

// work is for how long an operator tries, and how often.
func (d *draw) work(op *Op) {
	op.Every = d.between(d.patience/100, d.patience/2)
	op.For = max(d.between(d.patience, 10*d.patience), 2*op.Every)
}

// favour has somebody who may have become a voter just now be handed over to, and
// now and then be cut off until then.
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

// replace draws a disk that is lost, and its voter's return.
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

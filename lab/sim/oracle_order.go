package sim

import (
	"cmp"
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// tenure is one token with which a participant was elected.
type tenure struct {
	token  uint64
	votes  int32 // the winner's disk, which a restart keeps
	node   int32
	led    bool
	anchor uint64 // the highest term that its leader has led in with it
}

// checkOrder checks one order of the machine.
func (o *oracle) checkOrder(w *World, n *node, s *processState, in *protocol.Input, ord *protocol.Order) {
	switch ord.Kind {
	case protocol.Elected:
		if s.stage != stageNone || ord.Token == 0 {
			w.fail(Orders, n, "elected with token %d while it is %s with token %d", ord.Token, s.stage, s.token)
		}
		s.stage, s.token = stageElected, ord.Token
		o.checkElected(w, n, s)
		if w.protocol.Leaseless {
			o.checkSole(w, n, s)
		}
		o.checkMayLead(w, n, s)
		o.noticeElected(w, n, s)
		if electedCounts(w) {
			o.termBegan(w, n, s)
		}
		w.stats.Elections++
		o.changed(w)
	case protocol.Lead:
		if s.stage != stageElected || ord.Token != s.token {
			w.fail(Orders, n, "leads with token %d while it is %s with token %d", ord.Token, s.stage, s.token)
		}
		if s.joining != 0 {
			w.fail(Orders, n, "leads with token %d before its work of token %d was joined", ord.Token, s.joining)
		}
		s.stage, s.token = stageLeading, ord.Token
		o.checkLead(w, n, s)
		o.noticeLead(w, n, s)
		if !electedCounts(w) {
			o.termBegan(w, n, s)
		}
		w.stats.Tenures++
	case protocol.Stop:
		if s.stage == stageNone || ord.Token != s.token {
			w.fail(Orders, n, "stops token %d while it is %s with token %d", ord.Token, s.stage, s.token)
		}
		o.noticeStop(w, n, s, in)
		s.renews = in.Kind == protocol.Do || ord.Reason == outranked
		if ord.Reason == wentBack {
			w.seen.add(SawWentBack)
		}
		if ord.Reason == outranked {
			o.live.yields(w)
		}
		o.termEnded(w, n, s, formerLeader{resigned: s.renews, outranked: ord.Reason == outranked})
		s.stage, s.token, s.joining = stageNone, 0, ord.Token
		o.changed(w)
	case protocol.CatchUp:
	default:
		w.fail(Orders, n, "order %s", ord.Kind)
	}
}

// checkElected checks a tenure that was won, and adds it.
func (o *oracle) checkElected(w *World, n *node, s *processState) {
	i, known := o.find(s.token)
	if !known {
		o.tenures = slices.Insert(o.tenures, i, tenure{token: s.token, votes: s.votes, node: int32(n.index)})
		if i > 0 && o.tenures[i-1].anchor >= s.token {
			o.failAnchor(w, n, i-1)
		}
	} else if r := &o.tenures[i]; r.votes != s.votes || int(r.node) != n.index {
		w.fail(OneLeader, n, "elected with token %d, and so was %s", s.token, w.nodes[r.node].id)
	} else {
		w.fail(Once, n, "elected with token %d a second time", s.token)
	}
	if w.protocol.Vote != nil && !s.committedTo(s.token, n.self) {
		w.fail(VoteSaved, n, "elected in term %d, and its own vote is not durable: its disk says %s in term %d", s.token, s.durable.For, s.durable.Term)
	}
	if first, ok := firstEntry(w.store); ok && first < s.token {
		w.fail(FIFO, n, "elected with entry %d while entry %d is before it", s.token, first)
	}
}

// checkAnchor checks a leader that goes on with its token in a higher term (R5). It may do so only if
// no participant can have won a term in between, or can win one later: then no other token lies
// between the two, ever. So each token's terms end before the next token, and it is enough to look
// at that one.
func (o *oracle) checkAnchor(w *World, n *node, s *processState, term uint64) {
	i, known := o.find(s.token)
	if !known || o.tenures[i].anchor >= term {
		return
	}
	o.tenures[i].anchor = term
	if i+1 < len(o.tenures) && o.tenures[i+1].token <= term {
		o.failAnchor(w, n, i)
	}
}

// failAnchor reports that the token after the i-th was won below that one's term.
func (o *oracle) failAnchor(w *World, n *node, i int) {
	r, won := &o.tenures[i], &o.tenures[i+1]
	w.fail(Anchored, n, "%s has led on with token %d in term %d, and %s was elected with token %d",
		w.nodes[r.node].id, r.token, r.anchor, w.nodes[won.node].id, won.token)
}

// checkLead checks a tenure that begins.
func (o *oracle) checkLead(w *World, n *node, s *processState) {
	i, known := o.find(s.token)
	if known {
		r := &o.tenures[i]
		if r.led {
			w.fail(Once, n, "active a second time with token %d", s.token)
		}
		r.led = true
	}
	if s.token < o.proven {
		w.fail(TokensRise, n, "active with token %d after %s was with token %d", s.token, w.nodes[o.provenBy].id, o.proven)
	} else {
		o.proven, o.provenBy = s.token, int32(n.index)
	}
}

// joined is called when the work of the term with token has been joined.
func (o *oracle) joined(w *World, n *node, token uint64) {
	if s := o.process(n); s.joining == token {
		s.joining = 0
		o.prove(w, n, s)
	}
}

// find finds the tenure of a token, or the place where to insert it.
func (o *oracle) find(token uint64) (int, bool) {
	return slices.BinarySearchFunc(o.tenures, token, func(r tenure, token uint64) int { return cmp.Compare(r.token, token) })
}

// firstEntry is the least order of all entries in the store.
func firstEntry(model storeModel) (uint64, bool) {
	m, ok := model.(*store)
	if !ok {
		return 0, false
	}
	var items []item
	switch q := m.server.(type) {
	case *etcd:
		items = q.items
	case *zookeeper:
		items = q.items
	}
	for i := range items {
		if items[i].gone == 0 {
			return items[i].entry.Order, true
		}
	}
	return 0, false
}

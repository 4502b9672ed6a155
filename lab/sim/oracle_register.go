package sim

import "github.com/electd/elect/internal/protocol"

// wentBack is why a leader over a register gives up when the store has gone back.
const wentBack protocol.Reason = "store-went-back"

// shown is what one life was shown of a register's record.
type shown struct {
	others uint64         // the greatest count, but for what is below
	own    protocol.Nonce // of its latest attempt at a tenure
	count  uint64         // its count, once it was shown
	latest uint64         // the latest renewal of it that an answer has shown
	store  string         // the incarnation that showed it
}

// see takes in an answer or an event, and reports whether it answers with an
// older renewal of the own tenure than was answered before.
func (s *shown) see(in *protocol.Input) (back bool) {
	a := &in.Answer
	r := &a.Record
	switch {
	case in.Kind != protocol.Replied || a.Version == 0:
	case r.Holder == "" || r.Nonce != s.own:
		s.others = max(s.others, r.Count)
	case a.Status == protocol.StatusDone:
		if a.Store != s.store {
			s.store, s.latest = a.Store, 0
		}
		s.count, back = r.Count, r.Attempt < s.latest
		s.latest = max(s.latest, r.Attempt)
	default:
		s.count = r.Count
	}
	return back
}

// below judges who leads by what its process was shown. No broken assumption
// excuses it: a process knows what it has seen.
func (o *oracle) below(w *World, n *node, s *seat, fx *protocol.Effects, back bool) {
	for i := range fx.Orders {
		if ord := &fx.Orders[i]; ord.Kind == protocol.Elected && ord.Token <= s.shown.others {
			w.fail(AboveSeen, n, "elected with token %d, and it was shown a count of %d", ord.Token, s.shown.others)
		}
	}
	if back && s.stage != stageNone {
		w.fail(AboveSeen, n, "leads on with token %d, and the store has answered with an older renewal of it than before", s.token)
	}
	for i := range fx.Asks {
		if r := &fx.Asks[i].Record; r.Holder != "" && r.Nonce != s.shown.own {
			s.shown = shown{others: max(s.shown.others, s.shown.count), own: r.Nonce}
		}
	}
}

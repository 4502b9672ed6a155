package sim

import "github.com/electd/elect/internal/protocol"

// wentBack is the reason of a leader over a register that gives up when the store has gone back.
const wentBack protocol.Reason = "store-went-back"

// shown is what one incarnation was shown of a register's record.
type shown struct {
	others uint64         // the greatest count, except of its own tenure
	own    protocol.Nonce // of its latest attempt at a tenure
	count  uint64         // its count, once it was shown
	latest uint64         // the latest renewal of it that an answer has shown
	store  string         // the incarnation that showed it
}

// see records an answer or an event, and reports whether it shows an older renewal of the
// participant's tenure than an earlier answer.
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

// checkRegister checks a leader by what its process was shown. No broken assumption excuses a violation: a
// process knows what it has seen.
func (o *oracle) checkRegister(w *World, n *node, s *processState, fx *protocol.Effects, back bool) {
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

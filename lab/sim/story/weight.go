package story

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// weight is how much an event matters to a story.
type weight uint8

const (
	idle    weight = iota // nothing came of it
	trifle                // only messages that change nothing
	turn                  // something was saved, lost, or changed for one node
	turning               // the leader changed, or a fault began or ended
)

// scales weigh events, by what was before them.
type scales struct {
	views map[protocol.NodeID]protocol.View
	lost  map[loss]bool // since the world changed last
}

// loss is a kind of message that a link loses.
type loss struct {
	from, to protocol.NodeID
	kind     protocol.MessageType
}

func newScales() *scales {
	return &scales{views: make(map[protocol.NodeID]protocol.View), lost: make(map[loss]bool)}
}

func (s *scales) weigh(e *trace.Event) weight {
	switch e.Kind {
	case trace.Fault, trace.Heal:
		clear(s.lost)
		return turning
	case trace.Down, trace.Freeze, trace.Thaw, trace.Violation:
		return turning
	case trace.Lost:
		l := loss{e.Node, e.Send.To, e.Send.Message.Type}
		if s.lost[l] {
			return trifle // the first of many is enough
		}
		s.lost[l] = true
		return turn
	case trace.Note:
		return turn
	case trace.State:
		s.views[e.Node] = *e.View
		return turn
	case trace.Work, trace.Turn:
		return trifle
	case trace.End:
		return idle
	}
	if e.Panic != "" {
		return turning
	}
	was, is := s.views[e.Node], *e.View
	s.views[e.Node] = is
	switch {
	case was.Elected != is.Elected, was.Active != is.Active, was.Token != is.Token, e.Input.Kind == protocol.Boot, is.Fault != was.Fault:
		return turning
	case was.Role != is.Role, was.Term != is.Term, was.Leader != is.Leader, e.Input.Kind == protocol.Do, e.Input.Kind == protocol.PeerClosed,
		e.Input.Kind == protocol.Saved && e.Input.Failed:
		return turn
	case e.Input.Kind == protocol.Replied && e.Input.Answer.Status != protocol.StatusDone:
		return turn
	}
	fx := e.Effects
	switch {
	case fx == nil:
		return trifle
	case len(fx.Orders) > 0:
		return turning
	case len(fx.Saves) > 0:
		return turn
	case len(fx.Sends)+len(fx.Asks) > 0:
		return trifle
	case e.Input.Kind == protocol.Receive && e.Input.Message.Granted:
		return trifle
	}
	return idle
}

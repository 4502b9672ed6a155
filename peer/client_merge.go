package peer

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/electd/elect/driver"
)

// merger makes one state of the views of the nodes. It remembers the greatest token that it was told. A node that
// reports a smaller one is behind.
type merger struct {
	seen *driver.Leader
	said map[string]*driver.Leader // the last report of each node, by its id
}

// tally counts reports.
type tally struct {
	told    int // a report exists, good or bad
	fresh   int // the node is neither cut off nor behind
	knowing int // voters among the fresh
	refused int // for good
}

func (m *merger) merge(nodes []Peer, voters int, reports []report) (driver.State, tally) {
	for _, r := range reports {
		if r.heard && r.Leader != nil && better(r.Leader, m.seen) {
			m.seen = r.Leader
		}
	}
	m.renew(nodes, reports)
	var n tally
	var s driver.State
	var trouble trouble
	var paused, silent []string // voters
	idle := 0                   // paused voters among the knowing
	for i, r := range reports {
		if i < voters && r.Paused && r.heard {
			paused = append(paused, string(nodes[i].ID))
		} else if i < voters && (!r.heard || r.Stale) {
			silent = append(silent, string(nodes[i].ID))
		}
		var why error
		switch {
		case !r.heard && r.err == nil:
			trouble = append(trouble, nodeError{nodes[i], errors.New("no answer yet")})
			continue
		case !r.heard:
			why = r.err
			if r.refused {
				n.refused++
			}
		case r.Stale && r.Cause == "":
			why = errors.New("it is cut off from the others")
		case r.Stale:
			why = errors.New(r.Cause)
		case r.Leader != nil && r.Leader.Token < m.seen.Token:
			why = fmt.Errorf("it is behind: it still sees %s with token %v", r.Leader.ID, r.Leader.Token)
		default:
			n.fresh++
			if i < voters {
				n.knowing++
			}
			if r.Paused {
				idle++
			}
			if r.Leader != nil {
				s.Leader = m.seen
			} else if r.Paused { // no reason while another may stand
			} else if s.Cause == nil && r.Cause != "" {
				s.Cause = errors.New(r.Cause)
			}
		}
		n.told++
		if why != nil {
			trouble = append(trouble, nodeError{nodes[i], why})
		}
	}
	switch {
	case n.fresh == 0:
		s = driver.State{Leader: m.seen, Stale: true, Cause: fmt.Errorf("%w: %w", driver.ErrUnreachable, trouble)}
	case s.Leader != nil:
		s.Cause = nil
	case n.knowing > 0 && idle == n.knowing:
		text := "all voters that answer are paused: " + strings.Join(paused, ", ")
		if len(silent) > 0 {
			text += fmt.Sprintf(" (nothing is known of %s)", strings.Join(silent, ", "))
		}
		s.Cause = fmt.Errorf("%s; to have them stand again: elect resume --all", text)
	}
	return s, n
}

// renew takes over metadata that was changed within the term: from the leader, or from a node whose report has
// changed. The other nodes report it a heartbeat later.
func (m *merger) renew(nodes []Peer, reports []report) {
	if m.said == nil {
		m.said = make(map[string]*driver.Leader)
	}
	var fresh *driver.Leader
	own := false
	for i, r := range reports {
		if !r.heard || r.Stale || r.Leader == nil {
			continue
		}
		id, l := nodes[i].ID, r.Leader
		before := m.said[id]
		m.said[id] = l
		switch {
		case l.Token != m.seen.Token || own:
		case id == l.ID:
			fresh, own = l, true
		case before != nil && before.Token == l.Token && !maps.Equal(before.Metadata, l.Metadata):
			fresh = l
		}
	}
	if fresh != nil && !maps.Equal(fresh.Metadata, m.seen.Metadata) {
		now := *m.seen
		now.Metadata = fresh.Metadata
		m.seen = &now
	}
}

// better reports whether a tells more than b, which may be nil.
func better(a, b *driver.Leader) bool {
	return b == nil || a.Token > b.Token || a.Token == b.Token && b.Since.IsZero() && !a.Since.IsZero()
}

// sameState reports whether there is nothing new to show. The reason why nodes are out of reach changes all the time
// and is not shown again.
func sameState(a, b driver.State) bool {
	switch {
	case a.Stale != b.Stale || (a.Leader == nil) != (b.Leader == nil):
		return false
	case a.Leader != nil && !sameLeader(a.Leader, b.Leader):
		return false
	case a.Stale:
		return true
	case a.Cause == nil || b.Cause == nil:
		return a.Cause == b.Cause
	}
	return a.Cause.Error() == b.Cause.Error()
}

func sameLeader(a, b *driver.Leader) bool {
	return a.ID == b.ID && a.Token == b.Token && a.Since.Equal(b.Since) && maps.Equal(a.Metadata, b.Metadata)
}

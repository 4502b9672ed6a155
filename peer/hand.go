package peer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// handover is what a leader's node does to hand over to a successor.
type handover struct {
	*membership
	locator   *locator
	run       *runtime.Runner
	successor protocol.NodeID // the chosen one; may be empty; owned by turns
}

// appoint hands over if this node leads: the work's context ends, and the lease
// goes on until the work has returned.
func (h *handover) appoint(ctx context.Context, token fence.Token, to string) error {
	if err := h.dialect.lacks(transfers); err != nil {
		return err
	}
	return h.run.GiveUp(ctx, token, func() error {
		err := h.eligible(protocol.NodeID(to))
		if err == nil {
			h.handTo(protocol.NodeID(to))
		}
		return err
	})
}

// handTo begins a hand-over.
func (h *handover) handTo(to protocol.NodeID) {
	h.successor = to
	h.run.Command(protocol.Command{Verb: protocol.Transfer, Target: to})
}

// othersOf returns what a leader's machine knows of the other voters.
func othersOf(m protocol.Machine) []protocol.Member {
	if r, ok := m.(protocol.Reconfigurable); ok {
		return r.Members(nil)
	}
	return nil
}

// eligible returns an error if a voter could not take over from this node, which leads. An empty to means any voter.
func (h *handover) eligible(to protocol.NodeID) error {
	if to == h.cfg.ID {
		return fmt.Errorf("%w: %s leads already", driver.ErrIneligible, to)
	}
	var known []protocol.NodeID
	var unfit []string
	for _, v := range othersOf(h.run.Machine()) {
		known = append(known, v.ID)
		if to != "" && v.ID != to {
			continue
		}
		why := h.unfit(&v)
		switch {
		case why == "":
			return nil
		case to != "":
			return fmt.Errorf("%w: %s %s", driver.ErrIneligible, to, why)
		}
		unfit = append(unfit, fmt.Sprintf("%s %s", v.ID, why))
	}
	switch {
	case len(known) == 0 && len(h.voters()) > 1: // the term is over for good, and the work has not returned yet
		return fmt.Errorf("%w: %s does not lead any more", driver.ErrNoLeader, h.cfg.ID)
	case to != "" && len(known) == 0:
		return fmt.Errorf("%w: %s is the only voter", driver.ErrIneligible, h.cfg.ID)
	case to != "":
		return fmt.Errorf("%w: %s is no voter; want one of %s", driver.ErrIneligible, to, list(known))
	case len(known) == 0:
		return fmt.Errorf("%w: there is no other voter", driver.ErrIneligible)
	}
	return fmt.Errorf("%w: nobody could: %s", driver.ErrIneligible, strings.Join(unfit, "; "))
}

// unfit says why a voter would not take over; "" if it would, by its last answers.
func (h *handover) unfit(v *protocol.Member) string {
	silent := h.run.Latest().Boot.Sub(v.Answered)
	switch {
	case v.Answered == protocol.Always:
		return "has not answered yet"
	case silent > h.plan.Promise/2:
		return fmt.Sprintf("has not answered for %v", silent.Truncate(unit(silent)))
	case v.Priority == protocol.NeverLead:
		return "never leads: its priority is never"
	case v.Idle:
		if h.locator.asks() {
			return "would not stand: it is paused, or does not campaign, or is not well, or does not know its position"
		}
		return "would not stand: it is paused, or does not campaign, or is not well"
	}
	return ""
}

// align waits until the successor's position is that of this node, whose work has returned, so that no voter refuses
// it for its position. It waits two promises at most, or twice LocateEvery. Meanwhile the lease is renewed and no
// other node leads.
func (h *handover) align(ctx context.Context, m *runtime.Mandate) {
	if !h.locator.asks() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 2*max(h.plan.Promise, h.cfg.LocateEvery))
	defer stop()
	h.locator.fresh(ctx)
	for {
		behind := false
		if !h.run.Call(func() { behind = h.run.Held() == m && h.ahead() }) || !behind {
			return
		}
		if !wait(ctx, max(h.plan.Heartbeat/4, time.Millisecond)) {
			h.log.Warn("every possible successor is behind: its election may take a while")
			return
		}
	}
}

// ahead reports whether every possible successor is behind this node, and there is at least one.
func (h *handover) ahead() bool {
	successors := 0
	for _, v := range othersOf(h.run.Machine()) {
		if h.unfit(&v) != "" || h.successor != "" && v.ID != h.successor {
			continue
		}
		successors++
		if !v.Behind {
			return false
		}
	}
	return successors > 0
}

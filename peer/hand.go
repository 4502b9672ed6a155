package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// appointment is the body of a transfer request.
type appointment struct {
	// To is the candidate to become leader; empty means the best one.
	To string `json:"to,omitempty"`
	// Forwarded is as in a resignation.
	Forwarded bool `json:"forwarded,omitempty"`
	// By is as in a resignation.
	By string `json:"by,omitempty"`
}

// transfer answers a client's request for a transfer.
func (a *answerer) transfer(ctx context.Context) error {
	var body appointment
	if err := a.read(&body); err != nil {
		return err
	}
	token := fence.Token(a.question.Token)
	if token != 0 && !token.Valid() {
		return &question{codeBody, fmt.Sprintf("%d is no token; want 0 for any leader, or the token of the leader", a.question.Token)}
	}
	if body.To != "" {
		if _, err := protocol.ParseNodeID(body.To); err != nil {
			return &question{codeBody, fmt.Sprintf("the successor: %v; want the id of a voter, or none for the best", err)}
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, resignLimit, fmt.Errorf("%w: the leader has not answered within %v", driver.ErrUnreachable, resignLimit))
	defer stop()
	act := a.host.Transfer
	if body.Forwarded {
		act = a.host.appoint
	}
	err := act(ctx, token, body.To)
	a.log.Info("asked to hand over", "by", a.who(body.By), "to", body.To, "token", token, "forwarded", body.Forwarded, "error", err)
	if err != nil {
		return err
	}
	return a.say(struct{}{}, false)
}

// Transfer implements [driver.Transferrer]: the leader hands over, any other node
// passes it on to the leader.
func (n *Node) Transfer(ctx context.Context, token fence.Token, to string) error {
	return n.atLeader(ctx, n.appoint(ctx, token, to), verbTransfer, token, appointment{To: to, Forwarded: true, By: askedBy(ctx)})
}

// appoint hands over if this node leads: the work's context ends, and the lease
// goes on until the work has returned.
func (n *Node) appoint(ctx context.Context, token fence.Token, to string) error {
	if err := n.dialect.lacks(transfers); err != nil {
		return err
	}
	return n.run.GiveUp(ctx, token, func() error {
		err := n.eligible(protocol.NodeID(to))
		if err == nil {
			n.handTo(protocol.NodeID(to))
		}
		return err
	})
}

// Eligible implements [driver.MandateTransferrer].
func (m *mandate) Eligible(to string) error {
	err := errors.New("")
	if !m.n.run.Call(func() {
		if m.n.run.Held() != m.Mandate {
			err = driver.ErrNoLeader
			return
		}
		err = m.n.eligible(protocol.NodeID(to))
	}) {
		return errClosed
	}
	if why := m.Over(); why != nil && errors.Is(err, driver.ErrNoLeader) {
		return why
	}
	return err
}

// Transfer implements [driver.MandateTransferrer].
func (m *mandate) Transfer(ctx context.Context, to string) error {
	m.n.run.Call(func() {
		if m.n.run.Held() == m.Mandate {
			m.n.handTo(protocol.NodeID(to))
		}
	})
	return m.Release(ctx)
}

// handTo begins a hand-over.
func (n *Node) handTo(to protocol.NodeID) {
	n.successor = to
	n.run.Command(protocol.Command{Verb: protocol.Transfer, Target: to})
}

// members returns what a leader's machine knows of the other voters.
func (n *Node) members() []protocol.Member {
	if r, ok := n.run.Machine().(protocol.Reconfigurable); ok {
		return r.Members(nil)
	}
	return nil
}

// eligible returns an error if a voter could not take over from this node, which leads. An empty to means any voter.
func (n *Node) eligible(to protocol.NodeID) error {
	if to == n.cfg.ID {
		return fmt.Errorf("%w: %s leads already", driver.ErrIneligible, to)
	}
	var known []protocol.NodeID
	var unfit []string
	for _, v := range n.members() {
		known = append(known, v.ID)
		if to != "" && v.ID != to {
			continue
		}
		why := n.unfit(&v)
		switch {
		case why == "":
			return nil
		case to != "":
			return fmt.Errorf("%w: %s %s", driver.ErrIneligible, to, why)
		}
		unfit = append(unfit, fmt.Sprintf("%s %s", v.ID, why))
	}
	switch {
	case len(known) == 0 && len(n.voters()) > 1: // the term is over for good, and the work has not returned yet
		return fmt.Errorf("%w: %s does not lead any more", driver.ErrNoLeader, n.cfg.ID)
	case to != "" && len(known) == 0:
		return fmt.Errorf("%w: %s is the only voter", driver.ErrIneligible, n.cfg.ID)
	case to != "":
		return fmt.Errorf("%w: %s is no voter; want one of %s", driver.ErrIneligible, to, list(known))
	case len(known) == 0:
		return fmt.Errorf("%w: there is no other voter", driver.ErrIneligible)
	}
	return fmt.Errorf("%w: nobody could: %s", driver.ErrIneligible, strings.Join(unfit, "; "))
}

// unfit says why a voter would not take over; "" if it would, by its last answers.
func (n *Node) unfit(v *protocol.Member) string {
	silent := n.run.Latest().Boot.Sub(v.Answered)
	switch {
	case v.Answered == protocol.Always:
		return "has not answered yet"
	case silent > n.plan.Promise/2:
		return fmt.Sprintf("has not answered for %v", silent.Truncate(unit(silent)))
	case v.Priority == protocol.NeverLead:
		return "never leads: its priority is never"
	case v.Idle:
		if n.locator.asks() {
			return "would not stand: it is paused, or does not campaign, or is not well, or does not know its position"
		}
		return "would not stand: it is paused, or does not campaign, or is not well"
	}
	return ""
}

package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// The leader's node changes the membership one voter at a time. Each step is a membership of its own, which a
// majority must save before the next step (R15). A voter is added in two steps: as an observer, so that it is
// connected and has the membership on its disk, and then as a voter. A voter with another directory takes three: the
// old one is removed first.
//
// Each step is computed from what is missing between the present membership and the wanted one. So a change that
// ended half-way is completed by repeating it.

// ErrRefused means that a change of membership, or its next step, is not safe or not possible, and was not begun.
var ErrRefused = errors.New("refused")

// memberOp is a kind of change.
type memberOp string

const (
	opAdd     memberOp = "add"
	opRemove  memberOp = "remove"
	opReplace memberOp = "replace"
)

// memberRequest is the body of a member request.
type memberRequest struct {
	Op   memberOp        `json:"op"`
	ID   protocol.NodeID `json:"id"`
	Addr string          `json:"addr,omitempty"` // not used by remove; for replace, empty is the present address
	// Observer adds it as an observer, and not as a voter.
	Observer bool `json:"observer,omitempty"`
	// Forwarded is as in an appointment.
	Forwarded bool `json:"forwarded,omitempty"`
	// By is as in an appointment.
	By string `json:"by,omitempty"`
}

// memberReply is one part of the answer: a step that was done, or the end.
type memberReply struct {
	Step string        `json:"step,omitempty"`
	Done *MemberChange `json:"done,omitempty"`
}

// MemberChange is the result of a change of membership.
type MemberChange struct {
	// Changed is false if nothing had to be changed.
	Changed bool `json:"changed"`
	// Steps describe what was done, for people.
	Steps []string `json:"steps"`
	// Membership is the present one, which is settled.
	Membership MembershipStatus `json:"membership"`
	// Warnings are for people, such as those of a Plan.
	Warnings []string `json:"warnings,omitempty"`
}

const (
	// changeLimit bounds a whole change, on the leader's node.
	changeLimit = 45 * time.Second
	// readyLimit bounds how long a new participant may take to connect and to save the membership.
	readyLimit = 15 * time.Second
)

func (q *memberRequest) String() string {
	text := string(q.Op) + " " + string(q.ID)
	if q.Addr != "" {
		text += "@" + q.Addr
	}
	if q.Observer {
		text += " as an observer"
	}
	return text
}

// check returns what is wrong with a request, before it is sent.
func (q *memberRequest) check() error {
	if _, err := protocol.ParseNodeID(string(q.ID)); err != nil {
		return err
	}
	switch q.Op {
	case opAdd:
		if err := checkAddr(q.Addr); err != nil {
			return fmt.Errorf("%s: %w; want where it listens, as in %s@10.0.0.4:7400", q.ID, err, q.ID)
		}
	case opReplace:
		if q.Observer {
			return errors.New("an observer has no vote to be replaced: add it anew, with another address if it has moved")
		}
		if q.Addr == "" {
			break
		}
		if err := checkAddr(q.Addr); err != nil {
			return fmt.Errorf("%s: %w; want where it listens, as in %s@10.0.0.4:7400, or nothing for where it was", q.ID, err, q.ID)
		}
	case opRemove:
		if q.Addr != "" || q.Observer {
			return fmt.Errorf("to remove %s wants its id alone", q.ID)
		}
	default:
		return fmt.Errorf("%.40q; want %s, %s or %s", string(q.Op), opAdd, opRemove, opReplace)
	}
	return nil
}

// member answers a client's request for a change of membership.
func (a *answerer) member(ctx context.Context) error {
	var q memberRequest
	if err := a.read(&q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return &question{codeBody, err.Error()}
	}
	ctx, stop := context.WithTimeoutCause(ctx, changeLimit, fmt.Errorf("%w: the change has taken more than %v; elect members shows what holds", driver.ErrUnknownOutcome, changeLimit))
	defer stop()
	done, err := a.host.reconfigure(ctx, q, func(step string) { _ = a.say(memberReply{Step: step}, true) })
	a.log.Info("asked to change the membership", "by", a.who(q.By), "change", q.String(), "forwarded", q.Forwarded, "error", err)
	if err != nil {
		return err
	}
	return a.say(memberReply{Done: done}, false)
}

// changes are the changes of the membership that this node makes when it leads, one at a time.
type changes struct {
	*membership
	relay    *relay
	run      *runtime.Runner
	changing atomic.Pointer[string] // what is being changed
}

// reconfigure changes the membership if this node leads. Another node asks the leader, once.
func (cs *changes) reconfigure(ctx context.Context, q memberRequest, step func(string)) (*MemberChange, error) {
	if err := cs.dialect.lacks(memberships); err != nil {
		return nil, err
	}
	c := &change{changes: cs, want: q, tell: step}
	done, err := c.do(ctx)
	switch {
	case !errors.Is(err, driver.ErrNoLeader):
		return done, err
	case len(c.steps) > 0:
		// The present leader does not know what was done, and could not report it.
		return nil, fmt.Errorf("%w: %v", driver.ErrUnknownOutcome, err)
	case q.Forwarded:
		return nil, err
	}
	s, err := cs.relay.led(ctx)
	switch {
	case err != nil:
		return nil, err
	case s.Leader == nil && s.Cause != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrNoLeader, s.Cause)
	case s.Leader == nil || s.Leader.ID == string(cs.cfg.ID):
		return nil, driver.ErrNoLeader
	}
	if cs.tls != nil && !cs.votes() { // the leader takes it from voters only, see permitted
		return nil, fmt.Errorf("%w: %s is an observer, and hands no change of the membership on; want a voter asked", driver.ErrUnreachable, cs.cfg.ID)
	}
	q.Forwarded, q.By = true, askedBy(ctx)
	conn, err := cs.relay.dialLeader(ctx, protocol.NodeID(s.Leader.ID))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return callChange(ctx, conn, q, step)
}

// callChange asks a node for a change. If the connection breaks before the end the outcome is unknown.
func callChange(ctx context.Context, conn conn, q memberRequest, step func(string)) (done *MemberChange, err error) {
	err = understood(because(ctx, conn.Call(ctx, verbMember, 0, q, func(body json.RawMessage) error {
		var r memberReply
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("%w: the answer cannot be read: %w", driver.ErrUnknownOutcome, err)
		}
		if r.Step != "" && step != nil {
			step(r.Step)
		}
		if r.Done != nil {
			done = r.Done
		}
		return nil
	})))
	_, answered := errors.AsType[*answerError](err)
	_, failed := errors.AsType[*link.CallError](err)
	_, refused := errors.AsType[*wire.Refusal](err)
	switch {
	case err == nil && done == nil:
		return nil, fmt.Errorf("%w: the node has answered without an end", driver.ErrUnknownOutcome)
	case err != nil && !answered && !failed && !refused && !errors.Is(err, driver.ErrUnknownOutcome):
		return nil, fmt.Errorf("%w: the node that was asked was lost on the way (%w); elect members shows what holds, and the change may be repeated", driver.ErrUnknownOutcome, err)
	}
	return done, err
}

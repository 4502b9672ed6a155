package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// The verbs that a node answers, and the answers.
const (
	verbStatus   = "status"   // a NodeStatus
	verbWatch    = "watch"    // a sighting at once, at each change, and at least every beat
	verbResign   = "resign"   // nothing, once the leader has accepted
	verbTransfer = "transfer" // nothing, once the leader has accepted
	verbPause    = "pause"    // nothing, once this very node does not stand any more
	verbResume   = "resume"   // nothing, once it may stand again
	verbMember   = "member"   // memberReply in parts: each step, and the result
	verbHistory  = "history"  // []Event, in pieces, the oldest first
	verbPing     = "ping"     // nothing
)

const (
	// beat is how often a watched node repeats itself. A frozen process keeps its connections, so only its silence
	// shows.
	beat = time.Second
	// resignLimit bounds how long a node tries to have the leader resign.
	resignLimit = 3 * time.Second
	// maxQuestion is the greatest body of a request, in bytes. This library's requests are far smaller.
	maxQuestion = 4 << 10
	// maxPiece bounds the JSON of one part of a history, in bytes: a response must fit into a frame.
	maxPiece = 64 << 10
)

// host is the part of a node that answering needs.
type host interface {
	Status() NodeStatus
	Watch(ctx context.Context) iter.Seq2[driver.State, error]
	// Resign makes the leader resign, resign only this node.
	Resign(ctx context.Context, token fence.Token) error
	resign(ctx context.Context, token fence.Token) error
	// Transfer makes the leader hand over, appoint only this node.
	Transfer(ctx context.Context, token fence.Token, to string) error
	appoint(ctx context.Context, token fence.Token, to string) error
	// setPaused pauses or resumes this node.
	setPaused(ctx context.Context, on bool, by string) error
	isPaused() bool
	history() ([]Event, error)
	// standing is the role of a node in this node's membership, or before the founding in its configuration.
	standing(id protocol.NodeID) (votes, listed bool)
	// reconfigure changes the membership, or has the leader do it.
	reconfigure(ctx context.Context, q memberRequest, step func(string)) (*MemberChange, error)
}

// sighting is the election as a node sees it, for watchers.
type sighting struct {
	Leader *driver.Leader `json:"leader"`
	Stale  bool           `json:"stale,omitempty"`
	Cause  string         `json:"cause,omitempty"`
	Paused bool           `json:"paused,omitempty"` // the node does not stand
}

// appointment is the body of a request to resign or to transfer.
type appointment struct {
	// To is the candidate to become leader; empty means the best one. A resignation has none.
	To string `json:"to,omitempty"`
	// Forwarded means that a node forwards a request that it has received; it is not forwarded again.
	Forwarded bool `json:"forwarded,omitempty"`
	// By is the client on whose behalf it is forwarded, for people.
	By string `json:"by,omitempty"`
}

// codes maps the errors that a caller acts on to codes and back.
var codes = []struct {
	code string
	is   error
}{
	{"no-leader", driver.ErrNoLeader},
	{"superseded", driver.ErrSuperseded},
	{"closed", driver.ErrClosed},
	{"ineligible", driver.ErrIneligible},
	{"refused", ErrRefused},
	{"unknown", driver.ErrUnknownOutcome},
	{"not-permitted", ErrNotPermitted},
	{"unsupported", driver.ErrUnsupported},
	{"unreachable", driver.ErrUnreachable},
}

const (
	codeVerb   = "verb"   // unknown verb
	codeBody   = "body"   // unreadable body
	codeFailed = "failed" // any other error
)

// answerError is a node's answer that it did not carry out the request.
type answerError struct {
	says string
	is   error
}

func (e *answerError) Error() string { return e.says }
func (e *answerError) Unwrap() error { return e.is }

// understood gives the error of a call the sentinel that it had on the other side.
func understood(err error) error {
	call, ok := errors.AsType[*link.CallError](err)
	if !ok {
		return err
	}
	for _, r := range codes {
		if r.code == call.Code {
			return &answerError{says: call.Says, is: r.is}
		}
	}
	return err
}

// answered reports whether err is a node's answer, rather than an error on the way to it.
func answered(err error) bool {
	if _, ok := errors.AsType[*answerError](err); ok {
		return !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrClosed)
	}
	return false
}

// service is what clients may ask a node, from those of its parts that carry it out. It implements host.
type service struct {
	*Node
	*membership
	*leaders
	*pausing
	*relay
	*handover
	*changes
}

func (n *Node) service() service {
	return service{n, &n.membership, &n.leaders, &n.pausing, &n.relay, &n.handover, &n.changes}
}

// answer answers a client. Package link calls it in a goroutine for each call, and bounds their number.
func answer(ctx context.Context, h host, log *slog.Logger, from link.Caller, q *wire.Request, reply func(*wire.Response) error) {
	a := answerer{host: h, from: from, question: q, reply: reply, log: log}
	var err error
	if len(q.Body) > maxQuestion {
		err = &question{codeBody, fmt.Sprintf("the request has %d bytes; want at most %d", len(q.Body), maxQuestion)}
	} else {
		err = a.answer(ctx)
	}
	if err == nil || errors.Is(err, errGone) {
		return
	}
	r := &wire.Response{Call: q.Call, Code: codeFailed, Error: err.Error()}
	if bad, ok := errors.AsType[*question](err); ok {
		r.Code = bad.code
	} else {
		for _, known := range codes {
			if errors.Is(err, known.is) {
				r.Code = known.code
				break
			}
		}
	}
	_ = reply(r) // a client that does not receive it is gone
}

// question is an error in a request.
type question struct{ code, says string }

func (q *question) Error() string { return q.says }

// errGone means that the client could not be reached.
var errGone = errors.New("the client has gone")

// answerer answers one request.
type answerer struct {
	host     host
	from     link.Caller
	question *wire.Request
	reply    func(*wire.Response) error
	log      *slog.Logger
}

func (a *answerer) answer(ctx context.Context) error {
	if err := a.permitted(); err != nil {
		a.log.Warn("a request was refused", "by", a.who(""), "verb", a.verb(), "cause", err)
		return err
	}
	ctx = context.WithValue(ctx, askerKey{}, a.who(""))
	switch verb := a.question.Verb; verb {
	case verbStatus:
		if err := a.read(&struct{}{}); err != nil {
			return err
		}
		return a.say(a.host.Status(), false)
	case verbWatch:
		if err := a.read(&struct{}{}); err != nil {
			return err
		}
		return a.watch(ctx)
	case verbResign, verbTransfer:
		return a.giveUp(ctx)
	case verbPause, verbResume:
		return a.pause(ctx, verb == verbPause)
	case verbMember:
		return a.member(ctx)
	case verbHistory:
		if err := a.read(&struct{}{}); err != nil {
			return err
		}
		return a.history()
	case verbPing:
		return a.say(struct{}{}, false)
	default:
		return &question{codeVerb, fmt.Sprintf("this node knows no %q; want status, watch, resign, transfer, pause, resume, member, history or ping", verb)}
	}
}

// read decodes the body into what, if there is one. It ignores unknown fields: they are those of a newer client.
func (a *answerer) read(what any) error {
	if len(a.question.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(a.question.Body, what); err != nil {
		return &question{codeBody, fmt.Sprintf("the body of %s: %v; want a JSON object", a.question.Verb, err)}
	}
	return nil
}

func (a *answerer) say(what any, more bool) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("the answer to %s: %w", a.question.Verb, err)
	}
	return a.send(body, more)
}

func (a *answerer) send(body []byte, more bool) error {
	if err := a.reply(&wire.Response{Call: a.question.Call, More: more, Body: body}); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// watch sends what the node sees until the client goes or the node is closed. A client that reads slowly gets the
// latest only.
func (a *answerer) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	states, wrong := make(chan driver.State), make(chan error, 1)
	var observing sync.WaitGroup
	defer observing.Wait()
	defer stop()
	observing.Go(func() {
		var last error
		for s, err := range a.host.Watch(ctx) {
			if err != nil {
				last = err
				break
			}
			select {
			case states <- s:
			case <-ctx.Done():
			}
		}
		wrong <- last
	})
	var seen sighting
	shown := false
	again := time.NewTicker(beat)
	defer again.Stop()
	for {
		select {
		case s := <-states:
			seen, shown = sighting{Leader: s.Leader, Stale: s.Stale}, true
			if s.Cause != nil {
				seen.Cause = s.Cause.Error()
			}
			again.Reset(beat)
		case <-again.C:
			if !shown {
				continue
			}
		case err := <-wrong:
			if err != nil {
				return err
			}
			return fmt.Errorf("this node is shutting down: %w", driver.ErrClosed)
		case <-ctx.Done():
			return errGone
		}
		seen.Paused = a.host.isPaused()
		if err := a.say(seen, true); err != nil {
			return err
		}
	}
}

// giveUp has a leader resign or hand over.
func (a *answerer) giveUp(ctx context.Context) error {
	var body appointment
	if err := a.read(&body); err != nil {
		return err
	}
	token := fence.Token(a.question.Token)
	if token != 0 && !token.Valid() {
		return &question{codeBody, fmt.Sprintf("%d is no token; want 0 for any leader, or the token of the leader", a.question.Token)}
	}
	transfer, what := a.question.Verb == verbTransfer, "asked to resign"
	if transfer {
		what = "asked to hand over"
	}
	if transfer && body.To != "" {
		if _, err := protocol.ParseNodeID(body.To); err != nil {
			return &question{codeBody, fmt.Sprintf("the successor: %v; want the id of a voter, or none for the best", err)}
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, resignLimit, fmt.Errorf("%w: the leader has not answered within %v", driver.ErrUnreachable, resignLimit))
	defer stop()
	var err error
	switch {
	case transfer && body.Forwarded:
		err = a.host.appoint(ctx, token, body.To)
	case transfer:
		err = a.host.Transfer(ctx, token, body.To)
	case body.Forwarded:
		err = a.host.resign(ctx, token)
	default:
		err = a.host.Resign(ctx, token)
	}
	a.log.Info(what, "by", a.who(body.By), "to", body.To, "token", token, "forwarded", body.Forwarded, "error", err)
	if err != nil {
		return err
	}
	return a.say(struct{}{}, false)
}

// history sends the node's history in parts that fit into frames.
func (a *answerer) history() error {
	events, err := a.host.history()
	if err != nil {
		return fmt.Errorf("the history of this node: %w", err)
	}
	piece := []byte{'['}
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("the history of this node: %w", err)
		}
		if len(piece) > 1 && len(piece)+len(text) > maxPiece {
			if err := a.send(append(piece, ']'), true); err != nil {
				return err
			}
			piece = []byte{'['}
		}
		if len(piece) > 1 {
			piece = append(piece, ',')
		}
		piece = append(piece, text...)
	}
	return a.send(append(piece, ']'), false)
}

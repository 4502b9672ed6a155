package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/protocol"
)

// The codes of answers that are errors, and what they are to a caller.
const (
	codeNoLeader    = "no-leader"
	codeSuperseded  = "superseded"
	codeIneligible  = "ineligible"
	codeUnreachable = "unreachable"
	codeUnknown     = "unknown"
	codeInvalid     = "invalid"
)

// request is the body of most calls.
type request struct {
	Key   string      `json:"key,omitempty"`
	Token fence.Token `json:"token,omitempty"`
	To    string      `json:"to,omitempty"`
	On    bool        `json:"on,omitempty"`
	After uint64      `json:"after,omitempty"` // of status: answer when there is a later version
	Keys  []string    `json:"keys,omitempty"`  // of pinned

	From uint32 `json:"from,omitempty"` // of keys: page.Next

	Process protocol.Nonce `json:"process,omitzero"` // of dead
}

// announcement is the body of the call that changes what is shown beside a leader.
type announcement struct {
	Key      string          `json:"key"`
	Tenure   uint64          `json:"tenure"`
	N        uint64          `json:"n"`
	Since    int64           `json:"since"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

func codeOf(err error) string {
	switch {
	case errors.Is(err, driver.ErrNoLeader):
		return codeNoLeader
	case errors.Is(err, driver.ErrSuperseded):
		return codeSuperseded
	case errors.Is(err, driver.ErrIneligible):
		return codeIneligible
	case errors.Is(err, driver.ErrUnreachable):
		return codeUnreachable
	case errors.Is(err, driver.ErrUnknownOutcome):
		return codeUnknown
	}
	return codeInvalid
}

// failure is an answer that is an error.
type failure struct {
	kind error
	text string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }

func errorOf(code, text string) error {
	kind := map[string]error{
		codeNoLeader: driver.ErrNoLeader, codeSuperseded: driver.ErrSuperseded, codeIneligible: driver.ErrIneligible,
		codeUnreachable: driver.ErrUnreachable, codeUnknown: driver.ErrUnknownOutcome,
	}[code]
	switch {
	case text == "" && kind != nil:
		return kind
	case text == "":
		text = code
	}
	return &failure{kind, text}
}

// calls are the requests of this member to its coordinator.
type calls struct {
	mu      sync.Mutex
	last    uint64
	all     map[uint64]pending
	link    *link.Conn
	changed chan struct{} // closed when link changes
	lost    error         // why there is no link, if that is known
	final   bool          // it is not worth waiting for one
	blind   error         // why the coordinator's election cannot be observed; then lost may be of an earlier coordinator
}

type pending struct {
	link   *link.Conn
	answer chan<- *wire.Side // has room for one; nil is that the connection has ended
}

func (c *calls) init() { c.all, c.changed = map[uint64]pending{}, make(chan struct{}) }

func (c *calls) attached(l *link.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.lost, c.final = l, nil, false
	c.wakeAll()
}

func (c *calls) wakeAll() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// without says why there is no connection. final is that calls fail with that, and wait for none.
func (c *calls) without(why error, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		return
	}
	c.lost, c.final = why, final
	c.wakeAll()
}

// unseen says why the coordinator's election cannot be observed; nil is that it can.
func (c *calls) unseen(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind = why; why != nil {
		c.blind, c.final = fmt.Errorf("the coordinator's election cannot be observed: %w", why), false
		c.wakeAll()
	}
}

// detached ends the calls of a connection; nil ends all.
func (c *calls) detached(l *link.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l || l == nil {
		c.link = nil
	}
	for n, p := range c.all {
		if p.link == l || l == nil {
			delete(c.all, n)
			p.answer <- nil
		}
	}
}

func (c *calls) reply(s *wire.Side) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.all[s.Call]; ok {
		delete(c.all, s.Call)
		p.answer <- s
	}
}

// call asks the coordinator. It waits for one until ctx ends.
func (m *member) call(ctx context.Context, method string, in, out any) error {
	return m.calls.call(ctx, m.g.gone, method, in, out)
}

// call asks the coordinator. It waits for a connection until ctx ends, gone is closed, or there is no hope.
func (c *calls) call(ctx context.Context, gone <-chan struct{}, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for {
		c.mu.Lock()
		l, changed, lost, final := c.link, c.changed, c.lost, c.final
		if c.blind != nil && !final {
			lost = c.blind
		}
		var answer chan *wire.Side
		var n uint64
		if l != nil {
			c.last++
			n, answer = c.last, make(chan *wire.Side, 1)
			c.all[n] = pending{l, answer}
		}
		c.mu.Unlock()
		if l == nil && final {
			return lost
		}
		if l == nil {
			select {
			case <-changed:
				continue
			case <-gone:
				return driver.ErrClosed
			case <-ctx.Done():
				if lost == nil {
					lost = context.Cause(ctx)
				}
				if errors.Is(lost, driver.ErrUnreachable) {
					return fmt.Errorf("no connection with the coordinator: %w", lost)
				}
				return fmt.Errorf("%w: no connection with the coordinator: %w", driver.ErrUnreachable, lost)
			}
		}
		l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Call, Call: n, Method: method, Body: body}})
		select {
		case s := <-answer:
			switch {
			case s == nil:
				return fmt.Errorf("%w: the connection with the coordinator has ended before it answered; ask again", driver.ErrUnreachable)
			case s.Code != "":
				return errorOf(s.Code, string(s.Body))
			case out != nil:
				return json.Unmarshal(s.Body, out)
			}
			return nil
		case <-ctx.Done():
			c.mu.Lock()
			delete(c.all, n)
			c.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

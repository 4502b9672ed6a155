package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// History asks every node at the same time for its events, also nodes that the configuration does not list, and merges
// them, ordered by token and then by time. Of equal events the earliest stays. Followers' events about a leader are
// left out if the leader's own are there. If nodes do not answer, it returns the events of the others and an error that
// names the silent ones and matches [driver.ErrUnreachable].
func (c *Client) History(ctx context.Context) ([]Event, error) {
	var nodes []Peer
	for _, r := range c.Members(ctx) {
		if r.Peer.Addr != "" {
			nodes = append(nodes, r.Peer)
		}
	}
	pieces := make([][]Event, len(nodes))
	errs := c.all(ctx, nodes, historyLimit, verbHistory, func(i int, body json.RawMessage) error {
		var events []Event
		if err := json.Unmarshal(body, &events); err != nil {
			return fmt.Errorf("its history cannot be read: %w", err)
		}
		pieces[i] = append(pieces[i], events...)
		return nil
	})
	var missing trouble
	for i, err := range errs {
		if err != nil {
			missing = append(missing, nodeError{nodes[i], err})
		}
	}
	history := mergeHistories(pieces)
	switch {
	case missing == nil:
		return history, nil
	case c.life.Err() != nil:
		return nil, driver.ErrClosed
	}
	return history, fmt.Errorf("%w: %w", driver.ErrUnreachable, missing)
}

// The events that a node remembers, see package disk. Those that elect.EventKind has, too, have the same words.
const (
	eventElected = "elected"
	eventActive  = "active"
	eventLost    = "lost"
	eventFollows = "follows"
	eventPaused  = "paused" // of the node itself, with the token of the leader of that time
	eventResumed = "resumed"
)

// ofItself reports whether an event is one that a node notes about itself only, and that may occur several times with
// the same token.
func ofItself(e *Event) bool { return e.Event == eventPaused || e.Event == eventResumed }

func mergeHistories(pieces [][]Event) []Event {
	type event struct {
		token  fence.Token
		leader string
		what   string
	}
	all := slices.Concat(pieces...)
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	known := make(map[event]int)
	var merged []Event
	var last fence.Token
	for _, e := range all {
		last = max(last, e.Token)
		if ofItself(&e) {
			e.Token = cmp.Or(e.Token, last) // the node had just started and knew no leader
			merged = append(merged, e)
			continue
		}
		key := event{e.Token, e.Leader, e.Event}
		if i, ok := known[key]; ok {
			merged[i].Reason = cmp.Or(merged[i].Reason, e.Reason)
			continue
		}
		known[key] = len(merged)
		merged = append(merged, e)
	}
	merged = slices.DeleteFunc(merged, func(e Event) bool {
		_, own := known[event{e.Token, e.Leader, eventElected}]
		return e.Event == eventFollows && own
	})
	slices.SortStableFunc(merged, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), a.At.Compare(b.At), cmp.Compare(order(a.Event), order(b.Event)))
	})
	return merged
}

// order ranks the events of one token at one time.
func order(event string) int {
	return slices.Index([]string{eventElected, eventFollows, eventActive, eventLost, eventPaused, eventResumed}, event)
}

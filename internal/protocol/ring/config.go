package ring

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/epoch"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// The default times.
const (
	DefaultHeartbeat = epoch.Heartbeat
	DefaultSilence   = epoch.Silence
	DefaultAnswer    = epoch.Answer
)

// Config is a participant's configuration. Self and Members are required; zero means the documented
// default elsewhere.
type Config struct {
	Self protocol.NodeID `json:"self"`
	// Members are all participants, Self among them, each once, ordered by
	// NodeID.Compare; 1 to 10,000. Machines share it and never write to it.
	Members []protocol.NodeID `json:"members"`
	// Ring is the order of the Members around the ring, the same at each of them, and shared as
	// Members is; the order of Members if it is empty.
	Ring []protocol.NodeID `json:"ring,omitempty"`
	// ChangRoberts selects single ids (Chang and Roberts, 1979) instead of lists. It is one setting
	// for the whole election.
	ChangRoberts bool `json:"chang_roberts,omitzero"`

	// Heartbeat is the time from one Alive to the next; 100 ms by default.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Silence is the time without an Ack after which the successor counts as dead, and without an
	// outcome after which an election begins anew. 1 s by default, at least twice Heartbeat. An
	// election's two rounds must end within it.
	Silence time.Duration `json:"silence,omitzero"`
	// Answer is how long Acks of the possible next successors are awaited; 250 ms by default. It
	// must be longer than a round trip.
	Answer time.Duration `json:"answer,omitzero"`
}

// WorstTakeover is the longest time, in a healthy network of at most nine participants, from the
// loss of a coordinator until the next one is known: an Ack that was sent just before, the silence,
// the search for a successor, and as long for messages and the disk. A lost token costs Silence
// more.
func (c Config) WorstTakeover() time.Duration {
	c = c.filled()
	return c.Heartbeat + c.Silence + 2*c.Answer
}

func (c Config) filled() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	c.Answer = cmp.Or(c.Answer, DefaultAnswer)
	if len(c.Ring) == 0 {
		c.Ring = c.Members
	}
	return c
}

// validate says what is invalid. Of the other members it checks only the order: each checks its own
// id, and its place in Ring. If each is there once, and there are as many, then Ring is a
// permutation.
func (c *Config) validate() error {
	if err := members.Check(c.Self, c.Members); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	if len(c.Ring) != len(c.Members) {
		return fmt.Errorf("ring: %d around the ring and %d members; want all members in another order, or nothing", len(c.Ring), len(c.Members))
	}
	i := slices.Index(c.Ring, c.Self)
	if i < 0 || slices.Contains(c.Ring[i+1:], c.Self) {
		return fmt.Errorf("ring: %s does not stand once around the ring; want each member once", c.Self)
	}
	switch {
	case c.Heartbeat < 0 || c.Heartbeat > epoch.Longest || c.Silence < 0 || c.Silence > epoch.Longest || c.Answer < 0 || c.Answer > epoch.Longest:
		return fmt.Errorf("ring: heartbeat %v, silence %v, answer %v; want each above 0 and at most %v", c.Heartbeat, c.Silence, c.Answer, epoch.Longest)
	case c.Silence < 2*c.Heartbeat:
		return fmt.Errorf("ring: a silence of %v with a heartbeat every %v; want at least %v, or one lost message begins an election", c.Silence, c.Heartbeat, 2*c.Heartbeat)
	}
	return nil
}

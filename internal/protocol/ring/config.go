package ring

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// MaxMembers is the greatest number of participants.
const MaxMembers = members.Max

// The defaults of times.
const (
	DefaultHeartbeat = 100 * time.Millisecond
	DefaultSilence   = time.Second
	DefaultAnswer    = 250 * time.Millisecond
)

const longest = time.Hour

// Config is how a participant takes part. Self and Members are required; zero
// means the documented default elsewhere.
type Config struct {
	Self protocol.NodeID `json:"self"`
	// Members are all participants, Self among them, each once, ordered by
	// NodeID.Compare; 1 to MaxMembers. Machines share it and never write to it.
	Members []protocol.NodeID `json:"members"`
	// Ring are the Members in the order in which they stand around the ring, the
	// same at each of them and shared as Members is; in their own order if it is
	// empty.
	Ring []protocol.NodeID `json:"ring,omitempty"`
	// ChangRoberts has single ids go round (Chang and Roberts, 1979) instead of
	// lists of them. It is one setting for the whole election.
	ChangRoberts bool `json:"chang_roberts,omitzero"`

	// Heartbeat is the time from one Alive to the next; 100 ms by default.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Silence is after how long without an Ack the successor is taken for dead, and
	// after how long without an outcome an election is begun anew. 1 s by default,
	// at least twice Heartbeat. An election's two rounds have to be done within it.
	Silence time.Duration `json:"silence,omitzero"`
	// Answer is how long Acks of those who may be the next successor are awaited;
	// 250 ms by default. It has to be longer than a round trip.
	Answer time.Duration `json:"answer,omitzero"`
}

// WorstTakeover is how long it takes at the longest, in a healthy network of at
// most nine, from the loss of a coordinator until the next one is known: an Ack
// that was sent just before, the silence, the search for a successor, and as long
// for messages and the disk. A token that is lost costs Silence more.
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

// validate says what cannot hold. Of the other members only the order is looked
// at: each has its own id checked, and its place in Ring, where it runs. If each
// is there once, and there are as many, then it is a permutation.
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
	case c.Heartbeat < 0 || c.Heartbeat > longest || c.Silence < 0 || c.Silence > longest || c.Answer < 0 || c.Answer > longest:
		return fmt.Errorf("ring: heartbeat %v, silence %v, answer %v; want each above 0 and at most %v", c.Heartbeat, c.Silence, c.Answer, longest)
	case c.Silence < 2*c.Heartbeat:
		return fmt.Errorf("ring: a silence of %v with a heartbeat every %v; want at least %v, or one lost message begins an election", c.Silence, c.Heartbeat, 2*c.Heartbeat)
	}
	return nil
}

package bully

import (
	"cmp"
	"fmt"
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

	// Heartbeat is the time from one Alive to the next; 100 ms by default.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Silence is after how long without word of the coordinator, and without a
	// Coordinator after an OK, an election begins. 1 s by default, at least twice
	// Heartbeat, and longer than Answer: who has answered waits that long itself
	// before it wins.
	Silence time.Duration `json:"silence,omitzero"`
	// Answer is how long an OK is awaited; 250 ms by default. It has to be longer
	// than a round trip: of one who is slower two lead.
	Answer time.Duration `json:"answer,omitzero"`
}

// WorstTakeover is how long it takes at the longest, in a healthy network, from
// the loss of a coordinator until the next one is known: an Alive that was sent
// just before, the silence, the wait for answers, and as long for messages and
// the disk.
func (c Config) WorstTakeover() time.Duration {
	c = c.filled()
	return c.Heartbeat + c.Silence + 2*c.Answer
}

func (c Config) filled() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	c.Answer = cmp.Or(c.Answer, DefaultAnswer)
	return c
}

// validate says what cannot hold. Of the other members only the order is looked
// at: each has its own id checked where it runs.
func (c *Config) validate() error {
	if err := members.Check(c.Self, c.Members); err != nil {
		return fmt.Errorf("bully: %w", err)
	}
	switch {
	case c.Heartbeat < 0 || c.Heartbeat > longest || c.Silence < 0 || c.Silence > longest || c.Answer < 0 || c.Answer > longest:
		return fmt.Errorf("bully: heartbeat %v, silence %v, answer %v; want each above 0 and at most %v", c.Heartbeat, c.Silence, c.Answer, longest)
	case c.Silence < 2*c.Heartbeat:
		return fmt.Errorf("bully: a silence of %v with a heartbeat every %v; want at least %v, or one lost message begins an election", c.Silence, c.Heartbeat, 2*c.Heartbeat)
	case c.Silence <= c.Answer:
		return fmt.Errorf("bully: a silence of %v with %v for answers; want a longer one: who answers OK waits %v before it wins", c.Silence, c.Answer, c.Answer)
	}
	return nil
}

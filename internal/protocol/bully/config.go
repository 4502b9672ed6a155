package bully

import (
	"cmp"
	"fmt"
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

	// Heartbeat is the time from one Alive to the next; 100 ms by default.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Silence is the time without a message of the coordinator, or without a Coordinator after an
	// OK, after which an election begins. 1 s by default, at least twice Heartbeat, and longer than
	// Answer: a participant that answers OK may wait that long before it wins.
	Silence time.Duration `json:"silence,omitzero"`
	// Answer is how long an OK is awaited; 250 ms by default. It must be longer than a round trip:
	// if a higher participant answers later, two lead.
	Answer time.Duration `json:"answer,omitzero"`
}

// WorstTakeover is the longest time, in a healthy network, from the loss of a coordinator until the
// next one is known: an Alive that was sent just before, the silence, the wait for answers, and as
// long for messages and the disk.
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

// validate says what is invalid. Of the other members it checks only the order: each checks its own
// id.
func (c *Config) validate() error {
	if err := members.Check(c.Self, c.Members); err != nil {
		return fmt.Errorf("bully: %w", err)
	}
	switch {
	case c.Heartbeat < 0 || c.Heartbeat > epoch.Longest || c.Silence < 0 || c.Silence > epoch.Longest || c.Answer < 0 || c.Answer > epoch.Longest:
		return fmt.Errorf("bully: heartbeat %v, silence %v, answer %v; want each above 0 and at most %v", c.Heartbeat, c.Silence, c.Answer, epoch.Longest)
	case c.Silence < 2*c.Heartbeat:
		return fmt.Errorf("bully: a silence of %v with a heartbeat every %v; want at least %v, or one lost message begins an election", c.Silence, c.Heartbeat, 2*c.Heartbeat)
	case c.Silence <= c.Answer:
		return fmt.Errorf("bully: a silence of %v with %v for answers; want a longer one: a participant that answers OK waits %v before it wins", c.Silence, c.Answer, c.Answer)
	}
	return nil
}

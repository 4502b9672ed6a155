package blazingmq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// Name is the protocol's name in URLs, traces and on pages.
const Name = "blazingmq"

// Mode is one of the three electors.
type Mode string

// The modes.
const (
	// Scouting asks first whether a majority would support an election; that is
	// the elector that runs in BlazingMQ. It is the default.
	Scouting Mode = "scouting"
	// Sticky ignores proposals while a leader is seen, as BlazingMQ's code does,
	// but proposes without scouting.
	Sticky Mode = "sticky"
	// Naive is the elector that the article starts from: it accepts every higher term.
	Naive Mode = "naive"
)

// MaxMembers is the greatest number of members.
const MaxMembers = members.Max

// longest is the greatest of all times that can be configured.
const longest = time.Hour

// Config is a participant's configuration. Self and Members are required; zero
// means the documented default elsewhere. The defaults are those of BlazingMQ's
// code, but for Missed, which is its article's.
type Config struct {
	Self protocol.NodeID `json:"self"`
	// Members are all participants, Self among them, ordered by NodeID.Compare, each once, 1 to
	// MaxMembers. The slice is shared and never written.
	Members []protocol.NodeID `json:"members"`

	// Mode is Scouting by default.
	Mode Mode `json:"mode,omitzero"`
	// Heartbeat is the time between two heartbeats of a leader; 2 s by default, 1 ms
	// to 1 h.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Missed is the number of consecutive missed heartbeats after which a leader counts as lost; 3
	// by default, as in the article (its code waits for 10). 2 to 1000.
	Missed int `json:"missed,omitzero"`
	// RandomWait bounds the random wait before each try; 1.5 heartbeats by default,
	// that is 0 to 3 s.
	RandomWait time.Duration `json:"random_wait,omitzero"`
	// InitialWait is how long a participant that has started waits for a leader before its random
	// wait; 4 heartbeats by default, that is 8 s; more than RandomWait.
	InitialWait time.Duration `json:"initial_wait,omitzero"`
	// Result is how long a participant that scouts or stands waits for answers; 2 heartbeats by
	// default, that is 4 s.
	Result time.Duration `json:"result,omitzero"`
	// Durable saves a term before any message carries it, as BlazingMQ's TLA+ specification assumes
	// and its code does not do. Then no participant votes twice in one term after a restart.
	Durable bool `json:"durable,omitzero"`
}

// normal returns c with its defaults filled in, or an error that says what is invalid.
func (c Config) normal() (Config, error) {
	c.Mode = cmp.Or(c.Mode, Scouting)
	c.Heartbeat = cmp.Or(c.Heartbeat, 2*time.Second)
	c.Missed = cmp.Or(c.Missed, 3)
	c.RandomWait = cmp.Or(c.RandomWait, 3*c.Heartbeat/2)
	c.InitialWait = cmp.Or(c.InitialWait, max(4*c.Heartbeat, c.RandomWait+c.Heartbeat))
	c.Result = cmp.Or(c.Result, 2*c.Heartbeat)
	if err := c.possible(); err != nil {
		return c, fmt.Errorf("blazingmq: %w", err)
	}
	return c, nil
}

func (c Config) possible() error {
	if err := members.Check(c.Self, c.Members); err != nil {
		return err
	}
	switch {
	case c.Mode != Scouting && c.Mode != Sticky && c.Mode != Naive:
		return fmt.Errorf("the mode %q; want %q, %q or %q", c.Mode, Scouting, Sticky, Naive)
	case c.Heartbeat < time.Millisecond || c.Heartbeat > longest:
		return fmt.Errorf("a heartbeat every %v; want %v to %v", c.Heartbeat, time.Millisecond, longest)
	case c.Missed < 2 || c.Missed > 1000:
		return fmt.Errorf("a leader is lost after %d missed heartbeats; want 2 to 1000", c.Missed)
	case c.RandomWait < time.Millisecond || c.RandomWait > 2*longest:
		return fmt.Errorf("a random wait of up to %v; want %v to %v", c.RandomWait, time.Millisecond, 2*longest)
	case c.InitialWait <= c.RandomWait:
		return fmt.Errorf("an initial wait of %v; want more than the random wait, %v", c.InitialWait, c.RandomWait)
	case c.InitialWait > 4*longest:
		return fmt.Errorf("an initial wait of %v; want at most %v", c.InitialWait, 4*longest)
	case c.Result < time.Millisecond || c.Result > 2*longest:
		return fmt.Errorf("%v to wait for answers; want %v to %v", c.Result, time.Millisecond, 2*longest)
	}
	return nil
}

func (c *Config) silence() time.Duration { return time.Duration(c.Missed) * c.Heartbeat }

// Silence is the time after which a silent leader counts as lost: Missed heartbeats. It is 0 for an
// invalid configuration.
func (c Config) Silence() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	return c.silence()
}

// LongestSilence is the longest time without a message from the leader after which a follower
// stands: Silence and RandomWait. It is 0 for an invalid configuration.
func (c Config) LongestSilence() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	return c.silence() + c.RandomWait
}

// WorstTakeover is the longest time from the moment when a leader falls silent until another is
// elected, if a majority hears each other and the first try succeeds: Missed · Heartbeat +
// RandomWait + Result. The try takes one round trip, two with scouting; Result bounds it. Each try
// that collides with another costs RandomWait + Result more. It is 0 for an invalid configuration.
func (c Config) WorstTakeover() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	return c.silence() + c.RandomWait + c.Result
}

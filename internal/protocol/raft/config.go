package raft

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// Name is the protocol's name in URLs, traces and on pages.
const Name = "raft"

// MaxMembers is the greatest number of members.
const MaxMembers = members.Max

// The defaults. The election timeout is what the paper recommends, 150 to 300 ms
// (9.3). The heartbeat is ours: the paper names none, and tested with half of the
// least timeout; with a third of it one lost heartbeat begins no election.
const (
	defaultElection  = 150 * time.Millisecond
	defaultHeartbeat = 50 * time.Millisecond
)

// The bounds of times: below the least, timers and not the network decide.
const (
	shortest = time.Millisecond
	longest  = time.Hour
)

// Config is a participant's configuration. Self and Members are required; zero
// means the documented default elsewhere. The members of one election have the
// same times and options.
type Config struct {
	// Self is one of Members.
	Self protocol.NodeID `json:"self"`
	// Members are all voters, which may all stand, 1 to MaxMembers, ordered by NodeID.Compare, each
	// once. The slice is shared and never written.
	Members []protocol.NodeID `json:"members"`

	// ElectionTimeout is the least time that a follower waits for a silent leader, and a candidate
	// for the outcome of an election. Each wait is drawn anew, uniformly from ElectionTimeout to
	// twice that. 150 ms by default; at least two heartbeats, at most an hour.
	ElectionTimeout time.Duration `json:"election_timeout,omitzero"`
	// Heartbeat is the time between two heartbeats of a leader; 50 ms by default,
	// at least 1 ms.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`

	// PreVote makes a participant ask before it raises its term.
	PreVote bool `json:"pre_vote,omitzero"`
	// CheckQuorum makes a leader step down if no majority answers, and makes voters refuse
	// candidates while they hear a leader.
	CheckQuorum bool `json:"check_quorum,omitzero"`
	// Position says what positions count for; nothing by default.
	Position PositionPolicy `json:"position,omitzero"`
}

// normal returns the configuration with its defaults, or an error that says what is invalid. It
// checks only the order of the others' ids; each participant checks its own.
func (c Config) normal() (Config, error) {
	c.ElectionTimeout = cmp.Or(c.ElectionTimeout, defaultElection)
	c.Heartbeat = cmp.Or(c.Heartbeat, defaultHeartbeat)
	if err := members.Check(c.Self, c.Members); err != nil {
		return c, fmt.Errorf("raft: %w", err)
	}
	switch {
	case c.Heartbeat < shortest:
		return c, fmt.Errorf("raft: a heartbeat of %v; want at least %v", c.Heartbeat, shortest)
	case c.ElectionTimeout > longest:
		return c, fmt.Errorf("raft: an election timeout of %v; want at most %v", c.ElectionTimeout, longest)
	case c.ElectionTimeout < 2*c.Heartbeat:
		return c, fmt.Errorf("raft: an election timeout of %v with a heartbeat of %v; want at least %v, or one lost heartbeat begins an election",
			c.ElectionTimeout, c.Heartbeat, 2*c.Heartbeat)
	case c.Position != IgnorePosition && c.Position != RequirePosition:
		return c, fmt.Errorf("raft: position policy %q; want %q or none", c.Position, RequirePosition)
	}
	return c, nil
}

// Validate says what is invalid in the configuration.
func (c Config) Validate() error {
	_, err := c.normal()
	return err
}

// rounds is how many election timeouts in a row may pass without an outcome, for
// WorstTakeover. The chance of a split vote is small in each of them if messages
// and disks take much less than the timeout.
const rounds = 4

// WorstTakeover is how long, at the longest, a healthy world takes from the loss
// of a leader to the next one: the longest timeout for each of a few rounds, and
// with CheckQuorum the time that a leader needs to see that it has lost its
// majority. No bound holds for ever: votes may split again and again.
func (c Config) WorstTakeover() time.Duration {
	e := cmp.Or(c.ElectionTimeout, defaultElection)
	d := rounds*2*e + cmp.Or(c.Heartbeat, defaultHeartbeat)
	if c.CheckQuorum {
		d += 2 * e
	}
	return d
}

// Silence is the longest time after which a silent leader is given up.
func (c Config) Silence() time.Duration { return 2 * cmp.Or(c.ElectionTimeout, defaultElection) }

package localpeers

import (
	"fmt"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/peer"
)

// operator is the id of operators, which observe. No node has it.
const operator = "operator"

// Config returns the configuration for an operator, which observes the election and bypasses the cables.
func (r *Peers) Config() ([]peer.Peer, peer.Config, error) {
	u, err := elect.ParseURL(r.URL(operator))
	if err != nil {
		return nil, peer.Config{}, err
	}
	return peer.ParseURL(u)
}

// Unready returns why an election is not at rest. If it is, the error is nil: all nodes answer, are connected with
// each other, and agree on one leader, which has proven its lease. Then it returns that leader.
func Unready(all []peer.NodeResult) (*driver.Leader, error) {
	var leader *driver.Leader
	var active bool
	for _, r := range all {
		s := r.Status
		switch {
		case r.Err != nil:
			return nil, fmt.Errorf("%s does not answer: %w", r.Peer.ID, r.Err)
		case !s.Founded:
			return nil, fmt.Errorf("%s is not founded", s.ID)
		case s.Leader == nil || s.Stale:
			return nil, fmt.Errorf("%s knows no leader", s.ID)
		case leader != nil && (s.Leader.ID != leader.ID || s.Leader.Token != leader.Token):
			return nil, fmt.Errorf("%s follows %s with token %v, and another one %s with token %v", s.ID, s.Leader.ID, s.Leader.Token, leader.ID, leader.Token)
		}
		for _, p := range s.Peers {
			if !p.Connected {
				return nil, fmt.Errorf("%s is not connected with %s: %s", s.ID, p.ID, p.Error)
			}
		}
		leader = s.Leader
		active = active || s.Active && s.ID == leader.ID
	}
	switch {
	case leader == nil:
		return nil, fmt.Errorf("no node was asked")
	case !active:
		return nil, fmt.Errorf("%s has not proven its lease", leader.ID)
	}
	return leader, nil
}

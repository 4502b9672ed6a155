package bully

import (
	"testing"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

type net = classictest.World[*Machine]

// newNet returns a world of n machines, whose configurations change may edit.
func newNet(t testing.TB, n int, change func(*Config)) *net {
	return classictest.New(t, n, func(i int, members []protocol.NodeID) (*Machine, error) {
		cfg := Config{Self: members[i], Members: members}
		if change != nil {
			change(&cfg)
		}
		return New(cfg)
	})
}

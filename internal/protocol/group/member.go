package group

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// MemberConfig is what a member's machine is made with.
type MemberConfig struct {
	Settings
	ID     protocol.NodeID
	Mutant mutant.Switch
}

// Member is one process's part in a group. It is owned by one goroutine.
type Member struct {
	cfg MemberConfig
}

// NewMember returns a machine that waits for its Start, or an error that says what is wrong with the configuration.
func NewMember(cfg MemberConfig) (*Member, error) { return &Member{cfg: cfg}, nil }

// Step takes one input and appends its effects to fx.
func (m *Member) Step(in *Input, fx *Effects) {}

// NextFire is when Step has to be called with a Fire, on the Boot clock, or Never.
func (m *Member) NextFire() protocol.Instant { return protocol.Never }

// View is what the work and observers see.
func (m *Member) View() View { return View{} }

package group

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// CoordinatorConfig is what a coordinator's machine is made with.
type CoordinatorConfig struct {
	Settings
	Mutant mutant.Switch
}

// Coordinator is one tenure of a group's coordinator: it is made anew for each. It is owned by one goroutine.
type Coordinator struct {
	cfg CoordinatorConfig
}

// NewCoordinator returns a machine that waits for its Begin.
func NewCoordinator(cfg CoordinatorConfig) (*Coordinator, error) { return &Coordinator{cfg: cfg}, nil }

// Step takes one input and appends its effects to fx.
func (c *Coordinator) Step(in *Input, fx *Effects) {}

// NextFire is when Step has to be called with a Fire, on the Boot clock, or Never.
func (c *Coordinator) NextFire() protocol.Instant { return protocol.Never }

// Standing is what a coordinator knows of a session.
type Standing struct {
	Session  Session          `json:"session"`
	Conn     Conn             `json:"conn,omitzero"` // the latest attachment; 0 if it is closed
	Promise  protocol.Instant `json:"promise"`       // it is promised until then
	Admitted bool             `json:"admitted,omitzero"`
	Voucher  bool             `json:"voucher,omitzero"`
	Traits   Traits           `json:"traits,omitzero"`
	Keys     int              `json:"keys"` // that it holds
}

// Sessions appends the sessions that are not over, in the order of Compare.
func (c *Coordinator) Sessions(dst []Standing) []Standing { return dst }

// KeyState is what a coordinator knows of a key.
type KeyState struct {
	Key      Key     `json:"key"`
	Session  Session `json:"session,omitzero"` // the holder; zero: free
	Token    Token   `json:"token,omitzero"`
	Revoked  bool    `json:"revoked,omitzero"`  // it was asked to give it up
	Overrun  bool    `json:"overrun,omitzero"`  // work of an older holder may still run
	Reserved Session `json:"reserved,omitzero"` // for whom a Move has it; zero: for none
}

// Key returns what is known of a key, and false if it is not known.
func (c *Coordinator) Key(k Key) (KeyState, bool) { return KeyState{}, false }

// Keys calls yield for each known key, in no order, until it returns false.
func (c *Coordinator) Keys(yield func(*KeyState) bool) {}

// Wanted calls yield for each session that wants a key, with its priority, in the order of Compare.
func (c *Coordinator) Wanted(k Key, yield func(Session, int) bool) {}

// Covered reports whether cover (G7) is over, so that free keys can be assigned.
func (c *Coordinator) Covered() bool { return false }

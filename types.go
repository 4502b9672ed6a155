package elect

import (
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// The types that programs use, under the names of this package.
type (
	// Token orders the leaders of one election. See [fence.Token].
	Token = fence.Token
	// Sequence orders messages across leaders. See [fence.Sequence].
	Sequence = fence.Sequence
	// Leader is the leader, as far as the back end can prove it.
	Leader = driver.Leader
	// State is one observation of an election.
	State = driver.State
	// Limits describes a back end as configured.
	Limits = driver.Limits
	// Ability names an optional ability of a back end.
	Ability = driver.Ability
)

// The abilities that programs use.
const (
	AbilityConfirm  = driver.AbilityConfirm  // Term.Confirm
	AbilityTransfer = driver.AbilityTransfer // Term.Transfer, Election.Transfer
	AbilityResign   = driver.AbilityResign   // Election.Resign
	AbilityPriority = driver.AbilityPriority // Config.Priority
	AbilityMetadata = driver.AbilityMetadata // Term.SetMetadata
)

// Priorities, of [Config].Priority.
const (
	DefaultPriority = driver.DefaultPriority // the default, for 0
	MaxPriority     = driver.MaxPriority     // the greatest
	NeverLead       = driver.NeverLead       // for a participant that never leads
)

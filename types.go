package elect

import (
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// The types that a program meets, by the names it uses them under.
type (
	// Token orders the leaders of one election. See [fence.Token].
	Token = fence.Token
	// Sequence orders a leader's messages across leaders. See [fence.Sequence].
	Sequence = fence.Sequence
	// Leader is who leads, as far as the back end can prove it.
	Leader = driver.Leader
	// State is one observation of an election.
	State = driver.State
	// Limits describes a back end as it is configured.
	Limits = driver.Limits
	// Ability names something that a back end can do beyond the contract.
	Ability = driver.Ability
)

// The abilities that programs use; those of a keeper are in package driver.
const (
	AbilityConfirm  = driver.AbilityConfirm  // Term.Confirm
	AbilityTransfer = driver.AbilityTransfer // Term.Transfer, Election.Transfer
	AbilityResign   = driver.AbilityResign   // Election.Resign
	AbilityPriority = driver.AbilityPriority // Config.Priority
	AbilityMetadata = driver.AbilityMetadata // Term.SetMetadata
)

// Priorities, of [Config].Priority.
const (
	DefaultPriority = driver.DefaultPriority // that of 0
	MaxPriority     = driver.MaxPriority     // the greatest
	NeverLead       = driver.NeverLead       // of one that takes part and never leads
)

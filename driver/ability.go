package driver

import (
	"context"
	"os"

	"github.com/electd/elect/fence"
)

// Ability names something that a back end can do beyond the contract. Each is
// an optional interface below; a program that cannot do without one asks for it
// by elect.Config.Require and is refused at start-up where it is missing.
type Ability string

// The abilities.
const (
	AbilityConfirm  Ability = "confirm"  // Mandate implements Confirmer
	AbilityTransfer Ability = "transfer" // Elector implements Transferrer, and Mandate MandateTransferrer
	AbilityResign   Ability = "resign"   // Elector implements Resigner
	AbilityPriority Ability = "priority" // Elector heeds Candidacy.Priority
	AbilityMetadata Ability = "metadata" // Mandate implements MetadataSetter
	AbilityInherit  Ability = "inherit"  // Mandate implements Inheritable
	AbilityWitness  Ability = "witness"  // Mandate implements Attestable
)

// Confirmer is implemented by mandates that can be proven anew by a round trip,
// without trusting any clock.
type Confirmer interface {
	// Confirm returns nil if this mandate held at some instant between the call
	// and the return. A mandate that has ended gives its reason at once.
	Confirm(ctx context.Context) error
}

// MandateTransferrer is implemented by mandates that can be handed to a named
// candidate. Their electors implement [Transferrer].
type MandateTransferrer interface {
	// Eligible says why the candidate with that id could not take over now, as
	// far as the holder knows: it is the holder itself, takes no part, does not
	// answer, or would not stand. The error matches [ErrIneligible]. It is asked
	// before the work is stopped, waits for nobody, and promises nothing: what
	// it knows may be old.
	Eligible(to string) error

	// Transfer replaces Release: it is called after the work was joined, and
	// gives leadership up in favour of the candidate with that id. If that one
	// cannot take over after all, others may.
	Transfer(ctx context.Context, to string) error
}

// MetadataSetter is implemented by mandates whose metadata can be changed while
// they last.
type MetadataSetter interface {
	// SetMetadata replaces what the Candidacy brought; see [CheckMetadata]. The
	// driver keeps the map; the caller must not change it afterwards. It
	// returns nil when the store, or the leader itself where there is none, has
	// it: every observer that is not cut off is shown it then, without a change
	// of the token. A mandate that has ended gives its reason, and what is shown
	// of a later one never changes by it. After [ErrUnknownOutcome] it may be
	// called again. Calls are made one at a time.
	SetMetadata(ctx context.Context, metadata map[string]string) error
}

// Resigner is implemented by electors that can ask whoever leads to give it up,
// from outside.
type Resigner interface {
	// Resign asks the leader with that token, or whoever leads if token is 0,
	// to resign, and returns once the leader has accepted to. It returns
	// ErrNoLeader when nobody leads, and ErrSuperseded when somebody with
	// another token does.
	Resign(ctx context.Context, token fence.Token) error
}

// Transferrer is implemented by electors that can ask whoever leads to hand over
// to a named candidate, from outside.
type Transferrer interface {
	// Transfer asks the leader with that token, or whoever leads if token is 0,
	// to hand over to the candidate with the id to, or to whom it finds best if
	// to is empty, and returns once the leader has accepted to: its work is
	// stopped and joined after that. It returns ErrNoLeader when nobody leads,
	// ErrSuperseded when somebody with another token does, and ErrIneligible,
	// with the reason, when the leader knows that the candidate could not take
	// over; it then leads on.
	Transfer(ctx context.Context, token fence.Token, to string) error
}

// Inheritable is implemented by mandates that the kernel holds through open
// files, so that another process can hold them too: package agent/supervise
// hands them to its keeper, and leadership then lasts exactly as long as the
// keeper's family.
type Inheritable interface {
	// Files returns the open files whose descriptions hold the mandate. They
	// stay the mandate's: the caller duplicates what it passes on.
	Files() []*os.File

	// Entrust says that another process will hold the files too and may let the
	// mandate go at any time; it is called before that process can. From then
	// on Check asks gone, which must report true before the other process lets
	// go, must not block, and may be called by any number of goroutines; ended
	// is closed some time after that, and ends the mandate's context with
	// ErrResigned. Release does not unlock while the other process has the
	// files: it holds the mandate until it lets go.
	Entrust(gone func() bool, ended <-chan struct{})
}

// Attestable is implemented by mandates whose back end believes a witness: a
// process that outlives the leader's, knows that it and all its work are dead,
// and may say so to the others, who then wait for no promise to it any more.
// Package agent/supervise hands the testament to its keeper.
type Attestable interface {
	// Testament returns what a keeper needs to be that witness. It is the same
	// for all mandates of one process, and asks for no I/O.
	Testament() Testament
}

// Testament is what a witness needs of a leader's process.
type Testament struct {
	// Data is for the back end's own function for witnesses, such as
	// peer.Witness. It holds no secrets, but may name files that do.
	Data []byte
	// Keep are open files that whoever keeps the work holds open until the work
	// is dead, such as the lock of a data directory: no later life of that
	// participant begins before. They stay the mandate's: the caller duplicates
	// what it passes on, and unlocks nothing.
	Keep []*os.File
}

package driver

import (
	"context"
	"os"
	"time"

	"github.com/electd/elect/fence"
)

// Ability names an optional ability of a back end: an optional interface below. elect.Config.Require refuses a back end
// that lacks one.
type Ability string

// The abilities.
const (
	AbilityConfirm  Ability = "confirm"  // Mandate implements Confirmer
	AbilityTransfer Ability = "transfer" // Elector implements Transferrer, and Mandate MandateTransferrer
	AbilityResign   Ability = "resign"   // Elector implements Resigner
	AbilityPriority Ability = "priority" // Elector uses Candidacy.Priority
	AbilityMetadata Ability = "metadata" // Mandate implements MetadataSetter
	AbilityInherit  Ability = "inherit"  // Mandate implements Inheritable
	AbilityWitness  Ability = "witness"  // Mandate implements Attestable
)

// Confirmer is implemented by mandates that can be proven by a round trip, without trusting any clock.
type Confirmer interface {
	// Confirm returns nil if this mandate held at some instant between call and return. A mandate that has ended
	// returns its reason at once.
	Confirm(ctx context.Context) error
}

// MandateTransferrer is implemented by mandates that can be handed to a named candidate. Their electors implement
// [Transferrer].
type MandateTransferrer interface {
	// Eligible returns why the candidate with that id could not take over now, as far as the holder knows: it is the
	// holder itself, takes no part, does not answer, or would not stand. The error matches [ErrIneligible]. It is
	// called before the work is stopped, does not wait, and may be out of date.
	Eligible(to string) error

	// Transfer replaces Release in favour of the candidate with that id. If that candidate cannot take over after all,
	// others may.
	Transfer(ctx context.Context, to string) error
}

// MetadataSetter is implemented by mandates whose metadata can be changed.
type MetadataSetter interface {
	// SetMetadata replaces the metadata of the Candidacy; see [CheckMetadata]. The driver keeps the map, which the caller
	// must not change afterwards. It returns nil when the store, or without a store the leader itself, has it; from then
	// on every observer that is not cut off sees it, with the same token. A mandate that has ended returns its reason, and
	// never changes the metadata of a later one. After [ErrUnknownOutcome] it may be called again. Calls are made one at
	// a time.
	SetMetadata(ctx context.Context, metadata map[string]string) error
}

// Lapser is implemented by mandates that share a lease with others, so that one timer serves all of them: a process may
// lead a hundred thousand elections.
type Lapser interface {
	// Lapse returns a channel that is closed once Remaining is left or less, by a timer that depends on nothing but the
	// clock. Renewals put that off. A mandate that ends for another reason ends its Context, and may leave the channel
	// open.
	Lapse(left time.Duration) <-chan struct{}
}

// Resigner is implemented by electors that can ask the present leader to resign, from any participant.
type Resigner interface {
	// Resign asks the leader with that token, or any leader if token is 0, to resign. It returns when that leader has
	// accepted, or when its term has ended. It returns ErrNoLeader without a leader, and ErrSuperseded if a leader with
	// another token leads.
	Resign(ctx context.Context, token fence.Token) error
}

// Transferrer is implemented by electors that can ask the present leader to hand over, from any participant.
type Transferrer interface {
	// Transfer is as Resigner's Resign, in favour of the candidate with the id to, or of the best one if to is empty.
	// If the leader knows that the candidate cannot take over, Transfer returns ErrIneligible with the reason, and the
	// leader leads on.
	Transfer(ctx context.Context, token fence.Token, to string) error
}

// Inheritable is implemented by mandates that the kernel holds through open files, so that another process can hold
// them too. Package agent/supervise passes them to its keeper, and leadership lasts as long as the keeper's family.
type Inheritable interface {
	// Files returns the open files whose descriptions hold the mandate, which owns them: the caller duplicates those
	// that it passes on.
	Files() []*os.File

	// Entrust is called before another process can hold the files too, and release the mandate at any time. From then
	// on Check calls gone, which must return true before the other process releases the mandate, must not block, and
	// may be called by any number of goroutines. ended is closed some time after that, and ends the mandate's context
	// with ErrResigned. Release does not unlock while the other process has the files.
	Entrust(gone func() bool, ended <-chan struct{})
}

// Attestable is implemented by mandates whose back end believes a witness: a process that knows that the leader and all
// its work are dead. It tells the other participants, which then wait for no promise to it, or releases the mandate at
// its store. Package agent/supervise passes the testament to its keeper.
type Attestable interface {
	// Testament returns what a keeper needs to be that witness, of this mandate or of the whole process. It is empty
	// if there can be no witness. It does no I/O.
	Testament() Testament
}

// Testament is what a witness needs from a leader's process.
type Testament struct {
	// Data is for the back end's own function for witnesses, such as peer.Witness. It may hold the credentials of a
	// store: only the keeper may get it, and not by its arguments or environment. It is a JSON object; one for a store
	// has the scheme of the election's URL in the member "scheme".
	Data []byte
	// Keep are open files that the process has locked, such as the lock of a data directory. The keeper holds them open
	// until the work is dead, so that no later incarnation of that participant begins before, and speaks when no other
	// keeper of that process holds them. The mandate owns them: the caller duplicates those
	// that it passes on, and unlocks nothing.
	Keep []*os.File
}

// Examiner is implemented by electors over a server on whose settings the election depends. It is for diagnosis.
type Examiner interface {
	// Examine asks the server what it is and how it is set.
	Examine(ctx context.Context) ([]Finding, error)
}

// Finding is one property of a server, and what it means for the election.
type Finding struct {
	What  string `json:"what"` // such as the name of a setting
	Value string `json:"value"`
	Means string `json:"means"` // one sentence
	// Wrong means that elections do not work, or lose their guarantee, before it is mended.
	Wrong bool `json:"wrong,omitempty"`
}

// Prober is implemented by electors that can measure the requests of an election to their store. It is for diagnosis.
type Prober interface {
	// Probe makes requests like those of an election, one after the other, for two seconds at most if each is quick. It
	// writes only what a candidate may write while nobody leads.
	Probe(ctx context.Context) (Probe, error)
}

// Probe is how long requests took.
type Probe struct {
	Reads, Writes []time.Duration
	Unwritten     string // why there are no Writes
}

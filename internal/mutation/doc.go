// Package mutation switches on, in a real program, one of a few mistakes that
// chaos runs must catch. In a build without the tag "mutants", which is every
// build but those tests', Is is the constant false, and the compiler removes what
// depends on it. The mistakes of machines are in protocol/internal/mutant; those
// of them that a real program can be given have a name here too.
//
// With the tag, the environment variable ELECT_MUTANT of the process chooses the
// mistake, and none where it is empty. A name that is none is an error of Check,
// and a program that does not call Check has no mistake for it. The functions may
// be called by any number of goroutines.
package mutation

// Env is the environment variable that has the name.
const Env = "ELECT_MUTANT"

// The names.
const (
	LeaseFromAck  = "lease-from-ack"  // the lease counts from the arrival of the ack
	NoResidual    = "no-residual"     // a winner leads without waiting for what was promised to others
	VoteNotSynced = "vote-not-synced" // a save is answered before it is synced, and never synced
	StoppedClock  = "stopped-clock"   // CLOCK_BOOTTIME is CLOCK_MONOTONIC, which stands still while the machine sleeps
	LateKill      = "late-kill"       // the keeper begins to kill a second too late
)

// Names lists them.
func Names() []string {
	return []string{LeaseFromAck, NoResidual, VoteNotSynced, StoppedClock, LateKill}
}

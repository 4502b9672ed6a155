package protocol

// Reason says in one word why something was refused, ended or begun. Each
// protocol has constants for its own. Those of a [Stop] are words that [Reason.Loss]
// knows, whatever the protocol.
type Reason string

// The reasons of a Stop that drivers give too.
const (
	Lapsed    Reason = "lapsed"       // the lease ran out
	ClockJump Reason = "clock-jumped" // the machine slept, or a clock was set
	Withdrawn Reason = "withdrawn"    // it is no candidate any more
	Unhealthy Reason = "unhealthy"    // its owner says so
	Paused    Reason = "paused"       // it is not to lead for now
	Recalled  Reason = "resigned"     // it was asked to resign
	Shutdown  Reason = "shutdown"     // its program ends; no machine says so
)

// Loss is what the end of a term means to its holder.
type Loss uint8

// The losses.
const (
	// Superseded: another leads, or may lead.
	Superseded Loss = iota
	// Expired: the lease was not renewed in time, or its clock cannot be trusted.
	Expired
	// Unreachable: the other participants, or the store, do not answer.
	Unreachable
	// Resigned: the term was given up.
	Resigned
	// Unfit: the participant is not well.
	Unfit
	// Closed: its program ends.
	Closed
)

// String returns the word for a loss that elect.LostError, metrics and logs have.
func (l Loss) String() string {
	switch l {
	case Expired:
		return "expired"
	case Unreachable:
		return "store-unreachable"
	case Resigned:
		return "resigned"
	case Unfit:
		return "unhealthy"
	case Closed:
		return "shutdown"
	}
	return "superseded"
}

// Text is the loss and the reason for people, as in "expired: this machine slept, or a clock was set".
func (r Reason) Text() string {
	loss, says := r.Loss()
	if says == "" {
		return loss.String()
	}
	return loss.String() + ": " + says
}

// Loss is what a term's end for this reason means, and the reason for people. says
// is empty if the loss says it all. A word that is not known means that another may
// lead.
func (r Reason) Loss() (loss Loss, says string) {
	switch r {
	case Lapsed:
		return Expired, "no majority of the voters renewed it in time"
	case "expired":
		return Expired, "the store did not confirm a renewal in time"
	case "session-gone":
		return Expired, "the session with the store has ended"
	case ClockJump, "clock-jump":
		return Expired, "this machine slept, or a clock was set"
	case "quorum-lost", "lost-quorum":
		return Unreachable, "no majority of the voters answers"
	case "superseded", "bullied":
		return Superseded, "another was elected"
	case "overtaken", "higher-term", "outdated":
		return Superseded, "another may have been elected in between"
	case "deleted", "entry-gone":
		return Superseded, "its entry in the store was deleted"
	case "store-went-back":
		return Superseded, "the store went back to an earlier state"
	case Recalled:
		return Resigned, "recalled"
	case "transferred":
		return Resigned, "asked to hand over"
	case "outranked":
		return Resigned, "another has a greater priority"
	case Paused:
		return Resigned, "paused"
	case Withdrawn:
		return Resigned, "released"
	case Unhealthy:
		return Unfit, ""
	case Shutdown:
		return Closed, ""
	case "clocks-apart":
		return Unfit, "no majority of the voters has a clock that runs like its own"
	case "disk-ill":
		return Unfit, "the disk of its data directory is ill"
	case "disk-failed":
		return Unfit, "the ballot cannot be saved"
	}
	return Superseded, string(r)
}

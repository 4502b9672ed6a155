package supervise

import (
	"fmt"
	"syscall"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Reason says why a family ended.
type Reason byte

// The reasons why a family ends.
const (
	Exited     = Reason(keeper.BecauseExited)     // the command ended by itself, or by a signal from outside of this package
	Stopped    = Reason(keeper.BecauseStopped)    // Stop was called
	Killed     = Reason(keeper.BecauseKilled)     // Kill was called
	Expired    = Reason(keeper.BecauseExpired)    // the deadline passed
	Terminated = Reason(keeper.BecauseTerminated) // the keeper received a signal, and stopped the family
	KeeperLost = Reason(keeper.BecauseKeeperLost) // the keeper died, and the family was killed
	Replaced   = Reason(keeper.BecauseReplaced)   // a lock of the mandate was deleted, moved or replaced
)

var reasonTexts = [...]string{Exited: "exited", Stopped: "told to stop", Killed: "killed", Expired: "deadline passed",
	Terminated: "keeper was told to stop", KeeperLost: "keeper died",
	Replaced: "its lock was taken away"}

// String returns a few words for a log.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) && r > 0 {
		return reasonTexts[r]
	}
	return fmt.Sprintf("reason %d", byte(r))
}

// Exit is how a family ended.
type Exit struct {
	// Code is the command's exit status, or -1 if a signal killed it or if it
	// is not known.
	Code int
	// Signal is what killed the command, or 0. If the status was lost with the keeper it is SIGKILL, which is what was
	// sent.
	Signal syscall.Signal
	// Reason is why the family ended. The first reason counts: a command that ends by itself after a call of Stop was
	// stopped.
	Reason Reason
	// Err is an error of the supervision, not of the command: the keeper died. Else nil.
	Err error
}

// ExitCode is the status that a shell would report: the exit status, or 128 plus the number of the signal.
func (e Exit) ExitCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// String describes e in a few words for a log.
func (e Exit) String() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != 0 {
		how = "signal: " + e.Signal.String()
	}
	if e.Reason == Exited {
		return how
	}
	return fmt.Sprintf("%s (%s)", how, e.Reason)
}

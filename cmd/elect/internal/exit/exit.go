// Package exit holds the exit codes of the command: one table, from which the
// help text is made, and the rule by which an error gets its code.
//
// It keeps no state, and its functions may be called by any number of
// goroutines. An error that nothing classifies is [Unavailable]: a script that
// tells usage errors from the rest must not take trouble for a typo.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/electd/elect"
	"github.com/electd/elect/peer"
)

// The codes. Where sysexits.h has one for the case, it is that one.
const (
	OK            = 0
	NoLeader      = 3
	Usage         = 64
	Unavailable   = 69
	NoProc        = 72
	CannotCreate  = 73
	Lost          = 75
	NotPermitted  = 77
	Safety        = 80
	Liveness      = 81
	Crash         = 82
	NotExhausted  = 83
	Overrun       = 84
	WaitOver      = 124
	NotExecutable = 126
	NotFound      = 127
	bySignal      = 128
)

// table is what the help text is made of, in the order of the codes.
var table = []struct {
	code, means string
}{
	{"0", "done; also: run was told to end (SIGTERM, SIGINT) while it stood by"},
	{num(NoLeader), "nobody leads (status, resign, transfer, members, member)"},
	{num(Usage), "the command line is wrong: an unknown verb or flag, a bad name or URL"},
	{num(Unavailable), "the back end cannot be reached, is wrong for good, or has refused"},
	{num(NoProc), "run: /proc is not mounted, or is another pid namespace's"},
	{num(CannotCreate), "a state directory, or a file or answer of a verb, is refused or cannot be written"},
	{num(Lost), "leadership was lost: run --once, during a change by member, fence claim with a stale token"},
	{num(NotPermitted), "not permitted: the certificate does not have the role that the verb needs"},
	{num(Safety), "sim, check: safety was violated, as by two that lead at once"},
	{num(Liveness), "sim: a run violated liveness: nobody led in time"},
	{num(Crash), "sim, check: a machine crashed"},
	{num(NotExhausted), "check: a bound stopped it before everything was explored"},
	{num(Overrun), "run: COMMAND, or what it started, outlived its lease; stderr says more"},
	{num(WaitOver), "run --wait ran out before this candidate was elected; stderr says why"},
	{num(NotExecutable), "COMMAND cannot be executed"},
	{num(NotFound), "COMMAND was not found"},
	{"128+n", "COMMAND was killed by signal n; 130: bench, demo, sim, check were interrupted"},
	{"other", "run: COMMAND's own; bench, demo, doctor, sim, trace: 1 when what they show failed"},
}

func num(code int) string { return fmt.Sprint(code) }

// Table returns the codes as lines of text.
func Table() string {
	var b strings.Builder
	for _, row := range table {
		fmt.Fprintf(&b, "  %-6s %s\n", row.code, row.means)
	}
	return b.String()
}

// Error carries the code that the process ends with. Err is what to tell the
// user, in one line; nil means that there is nothing to tell.
type Error struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what to tell the user.
func (e *Error) Unwrap() error { return e.Err }

// Silent ends the process with a code and no word. It returns nil for 0.
func Silent(code int) error {
	if code == OK {
		return nil
	}
	return &Error{Code: code}
}

// With gives err a code.
func With(code int, err error) error { return &Error{Code: code, Err: err} }

// Usagef is an error of the command line: what was wrong, and what would be
// right.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// OfOpening gives the code to what [elect.Openers.Open] returned. An election
// that cannot be opened was named wrongly, unless the system refused, or the
// opener has given it a code.
func OfOpening(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return With(e.Code, err)
	}
	if code := ofSystem(err); code != 0 {
		return With(code, err)
	}
	return With(Usage, err)
}

// OfBackend gives the code to what a back end returned after it was opened.
func OfBackend(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, elect.ErrNoLeader) {
		return With(NoLeader, err)
	}
	if errors.Is(err, peer.ErrNotPermitted) {
		return With(NotPermitted, err)
	}
	if code := ofSystem(err); code != 0 {
		return With(code, err)
	}
	return With(Unavailable, err)
}

// ofSystem returns 0 if no system call is at fault.
func ofSystem(err error) int {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EIO): // a disk's: no connection says that
		return CannotCreate
	case ok && errno != 0:
		return Unavailable
	}
	return 0
}

// Of returns the code of an error, and whether there is something to tell.
func Of(err error) (code int, tell bool) {
	if err == nil {
		return OK, false
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code, e.Err != nil
	}
	return Unavailable, true
}

// BySignal is the code of a process that a signal ended.
func BySignal(sig syscall.Signal) int { return bySignal + int(sig) }

// Package exit holds the exit codes of the commands: one table, from which the help
// texts are made, and the rule by which an error gets its code.
//
// It keeps no state, and its functions may be called by any number of goroutines. An unclassified error is
// [Unavailable]: a script that distinguishes usage errors must not take another error for a typo.
package exit

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// The codes. They are those of sysexits.h if it has one for the case.
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
	TooEarly      = 85
	WaitOver      = 124
	NotExecutable = 126
	NotFound      = 127
	bySignal      = 128
)

// The commands with these codes.
const (
	elect    = "elect"
	electlab = "electlab"
)

// table is the source of the help texts, in the order of the codes.
var table = []struct {
	command, code, means string
}{
	{elect, num(OK), "done; also: a signal (SIGTERM, SIGINT) ended run while it stood by"},
	{electlab, num(OK), "done, and nothing was violated"},
	{electlab, "1", "the result of sim replay, shrink, count or trace verify is not as expected"},
	{elect, num(NoLeader), "there is no leader (status, resign, transfer, members, member)"},
	{elect, num(Usage), "the command line is wrong: an unknown verb or flag, a bad name or URL"},
	{electlab, num(Usage), "the command line or a file is wrong"},
	{elect, num(Unavailable), "the back end cannot be reached, has failed for good, or has refused"},
	{electlab, num(Unavailable), "page: the machines cannot be compiled, or the address cannot be listened on"},
	{elect, num(NoProc), "run: /proc, or what --contain, --guard or --address needs, is missing; stderr says why"},
	{elect, num(CannotCreate), "a directory, a file or the output of a verb cannot be read or written, or is refused"},
	{electlab, num(CannotCreate), "a file or stdout cannot be written"},
	{elect, num(Lost), "leadership is lost: run --once, lease check, member in a change, a stale fence claim"},
	{elect, num(NotPermitted), "not permitted: the certificate does not have the role that the verb needs"},
	{electlab, num(Safety), "safety was violated, for example by two leaders at once"},
	{electlab, num(Liveness), "sim: liveness was violated: there was no leader in time"},
	{electlab, num(Crash), "a machine crashed"},
	{electlab, num(NotExhausted), "check: a limit was reached before everything was explored"},
	{elect, num(Overrun), "run: COMMAND, or a process that it started, outlived its lease; stderr says more"},
	{elect, num(TooEarly), "resign, transfer: the leader has not led for its tenure; --now asks it all the same"},
	{elect, num(WaitOver), "run --wait ran out before this candidate was elected; stderr says why"},
	{elect, num(NotExecutable), "COMMAND cannot be executed"},
	{elect, num(NotFound), "COMMAND was not found"},
	{elect, "128+n", "COMMAND was killed by signal n; 130: bench, demo or doctor was interrupted"},
	{electlab, "130", "interrupted"},
	{elect, "other", "run: COMMAND's own; 1: bench or demo failed, doctor found no profile that fits"},
}

func num(code int) string { return fmt.Sprint(code) }

// Table returns the codes of a command as lines of text.
func Table(command string) string {
	var b strings.Builder
	for _, row := range table {
		if row.command == command {
			fmt.Fprintf(&b, "  %-6s %s\n", row.code, row.means)
		}
	}
	return b.String()
}

// Error carries the exit code of the process. Err is the message for the user, in one line; nil means none.
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

// Unwrap returns the message for the user.
func (e *Error) Unwrap() error { return e.Err }

// Silent ends the process with a code and no message. It returns nil for 0.
func Silent(code int) error {
	if code == OK {
		return nil
	}
	return &Error{Code: code}
}

// With gives err a code.
func With(code int, err error) error { return &Error{Code: code, Err: err} }

// Usagef is an error of the command line: what is wrong, and what would be right.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Of returns the code of an error, and whether there is a message.
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

package runner

import (
	"fmt"
	"syscall"
	"time"

	"github.com/electd/elect/agent/supervise"
)

// Restart says whether to stand for election again after the command has ended.
type Restart byte

const (
	OnFailure Restart = iota // unless it exited with 0, or SIGPIPE ended it
	Always                   // in any case
)

// ParseRestart reads "on-failure" or "always".
func ParseRestart(s string) (Restart, error) {
	switch s {
	case "on-failure":
		return OnFailure, nil
	case "always":
		return Always, nil
	}
	return 0, fmt.Errorf("restart policy %q is unknown: use on-failure or always", s)
}

// String is what ParseRestart reads.
func (r Restart) String() string {
	if r == Always {
		return "always"
	}
	return "on-failure"
}

// Again reports whether to stand again after e. Work that was ended from outside is not done, whatever its exit
// status. Work that SIGPIPE ended has lost its reader, and a new start does not bring the reader back; systemd's
// Restart=on-failure counts it as done too.
func (r Restart) Again(e supervise.Exit) bool {
	done := e.Signal == 0 && e.Code == 0 || e.Signal == syscall.SIGPIPE
	return r == Always || e.Reason != supervise.Exited || !done
}

// backoff says how long to wait before standing again, so that a command that cannot start does not spin while other
// candidates could lead. After the third failure in a row it is a second, and then doubles up to 30. A failure is an
// exit with a status other than 0, or a death by a signal, within a second of the start. A death by SIGKILL does not
// count, nor does an end from outside: no program sends that signal to itself, and an act from outside is no reason to
// stand aside.
type backoff struct {
	row int // failures in a row
}

const (
	soon        = time.Second
	tries       = 3 // failures before the first wait
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// after records a run that ended as e after it ran for that long, and returns how long to wait.
func (b *backoff) after(e supervise.Exit, ran time.Duration) time.Duration {
	failed := e.Signal != 0 && e.Signal != syscall.SIGKILL || e.Signal == 0 && e.Code != 0
	if e.Reason != supervise.Exited || !failed || ran >= soon {
		b.row = 0
		return 0
	}
	b.row++
	if b.row < tries {
		return 0
	}
	return min(firstWait<<min(b.row-tries, 5), longestWait)
}

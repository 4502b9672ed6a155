package supervise

import (
	"fmt"
	"syscall"
	"time"
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
func (r Restart) Again(e Exit) bool {
	done := e.Signal == 0 && e.Code == 0 || e.Signal == syscall.SIGPIPE
	return r == Always || e.Reason != Exited || !done
}

// Backoff says how long to wait before standing again, so that a command that cannot start does not spin while other
// candidates could lead. Failures soon after the start count: exits with a status other than 0, and deaths by a
// signal, such as those of a program that crashes. A death by SIGKILL does not count, nor does an end from outside:
// no program sends that signal to itself, and an act from outside is no reason to stand aside. A Backoff is not safe
// for concurrent use.
type Backoff struct {
	First    time.Duration // the first wait; 0 means 1 s
	Max      time.Duration // the longest; 0 means 30 s
	Soon     time.Duration // a run shorter than this counts; 0 means 1 s
	Failures int           // how many in a row before the first wait; 0 means 3

	row int // counted failures in a row
}

// After records a run that ended as e after it ran for that long, and returns how long to wait.
func (b *Backoff) After(e Exit, ran time.Duration) time.Duration {
	first, longest := orElse(b.First, time.Second), orElse(b.Max, 30*time.Second)
	failed := e.Signal != 0 && e.Signal != syscall.SIGKILL || e.Signal == 0 && e.Code != 0
	if e.Reason != Exited || !failed || ran >= orElse(b.Soon, time.Second) {
		b.row = 0
		return 0
	}
	b.row++
	over := b.row - orElse(b.Failures, 3)
	if over < 0 {
		return 0
	}
	wait := min(first, longest)
	for ; over > 0 && wait < longest; over-- {
		wait = min(2*wait, longest)
	}
	return wait
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

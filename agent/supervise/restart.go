package supervise

import (
	"fmt"
	"time"
)

// Restart says whether to stand for election again after the command ended.
type Restart byte

const (
	OnFailure Restart = iota // unless it exited with 0
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

// Again reports whether to stand again after e. Work that was ended from
// outside is not done, whatever it exited with.
func (r Restart) Again(e Exit) bool {
	return r == Always || e.Reason != Exited || e.Signal != 0 || e.Code != 0
}

// Backoff says how long to wait before standing again, so that a command that
// cannot start does not spin, while others may lead. Only failures of the
// command's own count: exits with a status other than 0, soon after the start.
// A death by a signal never does, nor an end from outside: somebody else's
// doing is no reason to stand aside. A Backoff is not safe for concurrent use.
type Backoff struct {
	First    time.Duration // the first wait; 0 means 1 s
	Max      time.Duration // the longest; 0 means 30 s
	Soon     time.Duration // a run shorter than this counts; 0 means 1 s
	Failures int           // how many in a row before the first wait; 0 means 3

	row int // failures that count, one after the other
}

// After takes note of a run that ended as e after it ran for that long, and
// returns how long to wait.
func (b *Backoff) After(e Exit, ran time.Duration) time.Duration {
	first, longest := orElse(b.First, time.Second), orElse(b.Max, 30*time.Second)
	if e.Reason != Exited || e.Signal != 0 || e.Code == 0 || ran >= orElse(b.Soon, time.Second) {
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

package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/fence"
)

// guard is the log as a resource that checks tokens. It stores the greatest token that it has seen in a file beside
// the log, and refuses a write that shows a smaller one. It records refused writes too, so that the verdict includes
// every attempt. Any number of processes may use a guard.
type guard struct {
	log, seen *os.File
}

// seenSuffix is appended to the log's name for the file with the greatest token.
const seenSuffix = ".token"

func openGuard(log string) (*guard, error) {
	l, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s, err := os.OpenFile(log+seenSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &guard{log: l, seen: s}, nil
}

func (g *guard) close() error { return errors.Join(g.log.Close(), g.seen.Close()) }

// append writes the line, with the present time. It returns a *fence.StaleError if the line's token is smaller than
// the greatest seen one; then the log records the refusal.
func (g *guard) append(l line) error {
	if err := lock(g.seen); err != nil {
		return fmt.Errorf("%s: %w", g.seen.Name(), err)
	}
	defer unlock(g.seen)
	highest, err := g.highest()
	if err != nil {
		return err
	}
	l.At, l.Seen = stamp.Now(), 0
	if l.Token < highest {
		l.Seen = highest
	}
	if l.Token > highest { // the mark first: a token that was written was seen
		if _, err := g.seen.WriteAt([]byte(l.Token.Fixed()+"\n"), 0); err != nil {
			return err
		}
	}
	if _, err := g.log.WriteString(l.String()); err != nil {
		return err
	}
	if l.Seen != 0 {
		return &fence.StaleError{Shown: l.Token, Highest: highest}
	}
	return nil
}

// highest is 0 before the first write.
func (g *guard) highest() (fence.Token, error) {
	text, err := io.ReadAll(io.NewSectionReader(g.seen, 0, 64))
	if err != nil || len(text) == 0 {
		return 0, err
	}
	t, err := fence.ParseToken(strings.TrimLeft(strings.TrimSuffix(string(text), "\n"), "0"))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", g.seen.Name(), err)
	}
	return t, nil
}

//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"errors"
	"log/slog"
	"sync"
)

// spareRoom is how many locks and files to keep a spare keeper can take.
const spareRoom = 8

// Spare is a keeper process that waits for a command. It saves about half of what Start takes. It is used once, as
// Command.Spare, or closed. It ends by itself when this process dies. Its methods may be called concurrently.
type Spare struct {
	mu sync.Mutex
	f  *Family // nil when used or closed
}

// Prepare starts a spare keeper for commands with that Containment. What a command has from this process and not from
// its Command (inherited files, the directory, limits) is fixed at this call.
func Prepare(contain *Containment, log *slog.Logger) (*Spare, error) {
	if keeperReady.Load() == nil {
		return nil, errNotReady
	}
	c := Command{Logger: log}
	f, err := startKeeper(spareRoom, true, "", contain, c.logger())
	if err != nil {
		return nil, err
	}
	return &Spare{f: f}, nil
}

var errNotReady = errors.New("supervise: main does not begin with supervise.KeeperMain: add it, or each keeper would run the whole program")

// Close ends an unused keeper. It does nothing to a used one.
func (s *Spare) Close() error {
	if f := s.remove(); f != nil {
		f.dismiss()
	}
	return nil
}

func (s *Spare) remove() *Family {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	s.f = nil
	return f
}

// take returns the keeper for Start, or nil if it is dead, is not one for c, or cannot take that many files. A nil Spare
// has none.
func (s *Spare) take(files int, c *Containment) *Family {
	if s == nil {
		return nil
	}
	f := s.remove()
	if f != nil && (files > spareRoom || f.init != (c.Level() == Pid) || f.Gone()) {
		f.dismiss()
		return nil
	}
	return f
}

// dismiss ends an unused keeper, and returns when it is dead.
func (f *Family) dismiss() {
	f.commands.Close()
	<-f.closed
	f.reports.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone.Close()
	f.gone = nil
}

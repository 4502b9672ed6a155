package peer

import (
	"log/slog"
	"sync"

	"github.com/electd/elect/peer/internal/disk"
)

// maxNotes bounds the notes that wait for a slow disk.
const maxNotes = 64

// scribe writes the history, beside the turns: a note may take as long as a disk
// likes, and when too many wait the newest is left out.
type scribe struct {
	note func(disk.History) error
	log  *slog.Logger

	notes  chan disk.History
	joined sync.WaitGroup
}

// start begins to write.
func (s *scribe) start() {
	s.notes = make(chan disk.History, maxNotes)
	s.joined.Go(func() {
		failed := false
		for h := range s.notes {
			err := s.note(h)
			if err != nil && !failed {
				s.log.Warn("the history cannot be written", "error", err)
			}
			failed = err != nil
		}
	})
}

// put notes an event. It is called in turns only, and not after close.
func (s *scribe) put(h disk.History) {
	select {
	case s.notes <- h:
	default:
	}
}

// close writes what waits.
func (s *scribe) close() {
	close(s.notes)
	s.joined.Wait()
}

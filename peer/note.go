package peer

import (
	"log/slog"
	"sync"

	"github.com/electd/elect/peer/internal/disk"
)

// maxNotes bounds the notes that are queued for a slow disk.
const maxNotes = 64

// noteWriter writes the history outside of the turns. A note may take as long as the disk needs. When the queue is full
// the newest note is dropped.
type noteWriter struct {
	note func(disk.History) error
	log  *slog.Logger

	notes  chan disk.History
	joined sync.WaitGroup
}

// start begins to write.
func (w *noteWriter) start() {
	w.notes = make(chan disk.History, maxNotes)
	w.joined.Go(func() {
		failed := false
		for h := range w.notes {
			err := w.note(h)
			if err != nil && !failed {
				w.log.Warn("the history cannot be written", "error", err)
			}
			failed = err != nil
		}
	})
}

// put notes an event. Only turns call it, and never after close.
func (w *noteWriter) put(h disk.History) {
	select {
	case w.notes <- h:
	default:
	}
}

// close writes what is queued.
func (w *noteWriter) close() {
	close(w.notes)
	w.joined.Wait()
}

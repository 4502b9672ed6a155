package queue

import (
	"context"
	"errors"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// tenure identifies one in its store: no other entry ever has that order.
type tenure struct {
	Order   uint64 `json:"order"`
	Session uint64 `json:"session"`
	Key     string `json:"key"`
	Marked  bool   `json:"marked,omitempty"` // the next leader waits unless the mark says that the tenure is over
}

func (e *Elector) tenure(count uint64) any {
	own, known := e.known[count]
	if !known || e.own != count {
		return nil
	}
	return tenure{Order: own.Order, Session: own.Session, Key: own.Key, Marked: e.cfg.Machine.Hold > 0}
}

// Free leaves the queue for a leader that is dead with all its work, as its own release would have: in one transaction
// it deletes the entry and writes that the tenure is over. Then it ends the session. If the entry is gone, nothing is
// written, so no later tenure is touched, and Free may be repeated.
//
// It is safe because nobody is left who acts under that tenure: not its work, and not the process that could renew.
// What that process has sent and what is still on its way changes nothing: a renewal does not bring an entry back, and
// its other writes need the entry.
func Free(ctx context.Context, q Queue, of *drive.Deceased) error {
	var t tenure
	if err := of.Tenure(&t); err != nil {
		return err
	}
	change := Change{Leave: true}
	if t.Marked {
		change.Mark = encodeMark(protocol.QueueMark{Order: t.Order}, time.Time{})
	}
	return drive.Free(ctx, func(ctx context.Context) error {
		err := q.Change(ctx, Entry{Order: t.Order, Session: t.Session, Key: t.Key}, change)
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		if err := q.Close(ctx, t.Session); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		return nil
	})
}

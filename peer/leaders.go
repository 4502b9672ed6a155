package peer

import (
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
)

// leadership is what a leader's heartbeats say of it.
type leadership struct {
	incarnation, term uint64
	token             uint64 // its count; after a stranded victory below the term
	since             int64  // unix, in nanoseconds; 0 is unknown
	raw               string // the metadata, encoded
	metadata          map[string]string
}

func (l leadership) same(o leadership) bool {
	return l.token == o.token && l.since == o.since && l.raw == o.raw
}

// leaders are what leaders, this node included, say of themselves, and the history of it. Turns own them, except for
// history, which any goroutine may call.
type leaders struct {
	*facts
	run   *runtime.Runner
	dir   *disk.Dir
	notes *noteWriter

	said      map[protocol.NodeID]leadership
	own       leadership
	lastCount uint64           // of the token of the present or last leader
	leaseEnd  protocol.Instant // the end of the tenure's lease when it was last proven; 0: never
	silence   bool             // the last leader fell silent without a farewell
}

// heard records the contents of a heartbeat. The machine decides whether its sender leads.
func (ls *leaders) heard(from protocol.NodeID, l *runtime.Incoming) {
	msg := &l.Message
	known := ls.said[from]
	if known.incarnation == msg.Incarnation && known.term == msg.Term && known.raw == msg.Metadata && known.token == l.Token && known.since == l.Since {
		return
	}
	fresh := leadership{incarnation: msg.Incarnation, term: msg.Term, token: l.Token, since: l.Since, raw: msg.Metadata}
	if known.raw == fresh.raw {
		fresh.metadata = known.metadata
	} else if err := json.Unmarshal([]byte(msg.Metadata), &fresh.metadata); err != nil {
		ls.log.Debug("metadata of a leader that is none", "leader", from, "error", err)
	}
	if fresh.token == 0 {
		fresh.token = msg.Term
	}
	ls.said[from] = fresh
}

func (ls *leaders) elected(m *runtime.Mandate, c *runtime.Candidacy) {
	count := m.Token().Count()
	ls.leaseEnd, ls.lastCount = 0, count
	ls.own = leadership{incarnation: ls.run.Incarnation(), term: count, token: count, since: time.Now().UnixNano()}
	if c != nil {
		ls.own.metadata = c.Metadata
		if len(ls.own.metadata) > 0 {
			ls.own.raw = c.Command.Metadata
		}
	}
	ls.note(eventElected, m.Token(), "", time.Now())
	ls.log.Info(eventElected, "token", m.Token())
}

func (ls *leaders) stopped(m *runtime.Mandate, reason protocol.Reason) {
	ls.note(eventLost, m.Token(), reason.Text(), ls.ended())
	ls.log.Info(eventLost, "token", m.Token(), "reason", reason.Text())
}

// ended is when the leadership that ends in this step ended. A process that was stopped may notice long after its
// lease has run out, when another leads. The wall-clock time is as long ago as the Boot clock says.
func (ls *leaders) ended() time.Time {
	late := time.Duration(0)
	if ls.leaseEnd != 0 {
		late = max(ls.run.Latest().Boot.Sub(ls.leaseEnd), 0)
	}
	return time.Now().Add(-late)
}

// remember notes the events of a new view.
func (ls *leaders) remember(in *protocol.Input, before *protocol.View) {
	if before.Active {
		ls.leaseEnd = before.LeaseEnd
	}
	l := ls.run.View().Leader
	if l.ID == "" && before.Leader.ID != "" {
		said := in.Kind == protocol.Do || in.Kind == protocol.Receive && in.From == before.Leader.ID
		ls.silence = !said
	}
	if l == before.Leader || l.ID == "" || l.ID == ls.cfg.ID {
		return
	}
	ls.lastCount = ls.of(l).token
	token := ls.run.Token(ls.lastCount)
	ls.notes.put(disk.History{At: time.Now(), Event: eventFollows, Leader: l.ID, Token: token})
	ls.log.Info(eventFollows, "leader", l.ID, "token", token)
}

// of returns what a leader has said of itself.
func (ls *leaders) of(l protocol.Leadership) leadership {
	known := ls.said[l.ID]
	if l.ID == ls.cfg.ID {
		known = ls.own
		known.term = l.Term
	}
	if known.token != l.Term && (known.incarnation != l.Incarnation || known.term != l.Term) {
		return leadership{incarnation: l.Incarnation, term: l.Term, token: l.Term}
	}
	return known
}

// token is the token of the present or last leader that this node has seen; 0 if it has seen none.
func (ls *leaders) token() fence.Token { return ls.run.Token(ls.lastCount) }

// note records an event of this node's own leadership.
func (ls *leaders) note(event string, token fence.Token, reason string, at time.Time) {
	ls.notes.put(disk.History{At: at, Event: event, Leader: ls.cfg.ID, Token: token, Reason: reason})
}

// history returns the changes of leadership that the node remembers.
func (ls *leaders) history() ([]Event, error) {
	kept, err := ls.dir.History()
	events := make([]Event, len(kept))
	for i, h := range kept {
		events[i] = Event{h.At, h.Event, string(h.Leader), h.Token, h.Reason}
	}
	return events, err
}

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

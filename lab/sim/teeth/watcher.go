package teeth

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
)

// watcher observes what machines do beyond the invariants: their requests to a queue, and their
// term after they have refused a vote.
type watcher struct {
	lists   int             // how many lists were asked for
	terms   map[life]uint64 // after the latest step
	wrong   string          // the first finding
	session map[life]uint64 // the latest that it asked about
	ended   map[life]uint64 // the session of a tenure that has ended by itself
}

// life is one process.
type life struct {
	node protocol.NodeID
	life uint32
}

func (a *watcher) find(format string, args ...any) {
	if a.wrong == "" {
		a.wrong = fmt.Sprintf(format, args...)
	}
}

// Event implements [sim.Tracer].
func (a *watcher) Event(_ *sim.World, r *sim.Record) {
	if r.Kind != sim.RecordStep {
		return
	}
	who := life{r.Node, r.Life}
	a.refused(who, r)
	a.heard(r)
	for i := range r.Effects.Orders {
		if r.Effects.Orders[i].Kind == protocol.Stop && r.Input.Kind != protocol.Do {
			a.ended[who] = a.session[who]
		}
	}
	for i := range r.Effects.Asks {
		a.asked(who, &r.Effects.Asks[i])
	}
}

// refused looks at the answer to a vote.
func (a *watcher) refused(who life, r *sim.Record) {
	was, known := a.terms[who]
	a.terms[who] = r.View.Term
	if !known || r.View.Term <= was || r.Input.Kind != protocol.Receive || r.Input.Message.Type != quorum.Vote {
		return
	}
	for i := range r.Effects.Sends {
		if m := &r.Effects.Sends[i].Message; m.Type == quorum.VoteReply && !m.Granted {
			a.find("%s refuses %s its vote in term %d, and enters that term", r.Node, r.Input.From, r.View.Term)
		}
	}
}

// heard looks at a list of a queue.
func (a *watcher) heard(r *sim.Record) {
	if r.Input.Kind != protocol.Replied {
		return
	}
	entries := r.Input.Answer.Entries
	for i := range entries {
		for j := range entries[:i] {
			if e, f := &entries[i], &entries[j]; e.Nonce == f.Nonce && e.Session == f.Session {
				a.find("%s has two entries of one candidacy, %d and %d, in session %d", e.Holder, f.Order, e.Order, e.Session)
			}
		}
	}
}

// asked looks at what is asked of a queue.
func (a *watcher) asked(who life, k *protocol.Ask) {
	switch k.Op {
	case protocol.List:
		a.lists++
	case protocol.KeepAlive, protocol.Touch:
		if k.Session != 0 && k.Session == a.ended[who] {
			a.find("%s renews session %d, though its tenure had ended by itself", who.node, k.Session)
		}
	}
	switch k.Op {
	case protocol.Touch, protocol.Mark:
		if k.Entry.Session != 0 && k.Session != 0 && k.Entry.Session != k.Session {
			a.find("%s asks for %s of entry %d of session %d in session %d", who.node, k.Op, k.Entry.Order, k.Entry.Session, k.Session)
		}
	}
	if k.Session != 0 {
		a.session[who] = k.Session
	}
}

package picture

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// note is something to be said beside a column.
type note struct {
	column int
	at     int64
	says   string
	class  string
}

// mark is a fault or another event of the world.
type mark struct {
	at   int64
	says string
	bad  bool // a violation
}

// told notes the orders of the work.
func (r *reader) told(c int, t int64, o *protocol.Order) {
	switch o.Kind {
	case protocol.Elected:
		r.note(c, t, fmt.Sprintf("elected, token %d", o.Token), "win")
	case protocol.Lead:
		r.note(c, t, fmt.Sprintf("leads, token %d", o.Token), "win")
	case protocol.Stop:
		says := "stops"
		if o.Reason != "" {
			says += ": " + string(o.Reason)
		}
		r.note(c, t, says, "bad")
	}
}

// role notes that one stands.
func (r *reader) role(c int, t int64, v *protocol.View) {
	was := r.columns[c].view.Role
	if v.Role == was {
		return
	}
	switch v.Role {
	case protocol.PreCandidate:
		r.note(c, t, "asks", "")
	case protocol.Candidate:
		if r.store < 0 {
			says := "stands"
			if v.Term > 0 {
				says += fmt.Sprintf(", term %d", v.Term)
			}
			r.note(c, t, says, "")
		}
	case protocol.Halted:
		r.note(c, t, "halted: "+v.Fault, "bad")
	}
}

func (r *reader) note(c int, t int64, says, class string) {
	if t < r.from {
		return
	}
	r.columns[c].acts += 10
	// Two orders of one step are one note.
	if n := len(r.notes); n > 0 && r.notes[n-1].column == c && r.notes[n-1].at == t && r.notes[n-1].class == class && class == "win" {
		r.notes[n-1].says = says
		return
	}
	r.notes = append(r.notes, note{c, t, says, class})
}

func (r *reader) mark(t int64, says string, bad bool) {
	if t >= r.from {
		r.marks = append(r.marks, mark{t, says, bad})
	}
}

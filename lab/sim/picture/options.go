package picture

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// Options say what to draw. The zero value is the documented default.
type Options struct {
	// Title is written above; the default is the protocol and the seed.
	Title string
	// From and To bound the time that is drawn, from the first event's; To 0 is
	// the end.
	From, To time.Duration
	// Faint reports whether a message is routine, such as a heartbeat. Those are
	// drawn faintly, but for the ones by which a leader announces itself, and are
	// the first to be left out where there are too many. nil is none.
	Faint func(*protocol.Message) bool
	// Plain leaves routine messages out.
	Plain bool
	// Arrows is how many arrows are drawn at most; 0 is 600. Others are left out, and the picture
	// says so.
	Arrows int
	// Columns is how many nodes are drawn at most, 2 or more; 0 is 24.
	Columns int
}

// Left is what a picture leaves out.
type Left struct {
	Messages int // others that were too many
	Routine  int // that were not wanted, or too many
	Nodes    int
	// After is the time from which nothing is drawn because there is too much before, 0 if all is
	// drawn; counted as Options.From is.
	After time.Duration
}

var errNothing = errors.New("nothing happens in that time; choose another from and to")

// Write draws the trace. An error is the decoder's or the writer's, or says that
// there is nothing to draw.
func Write(w io.Writer, d *trace.Decoder, o Options) (Left, error) {
	o.Arrows, o.Columns = cmp.Or(o.Arrows, 600), cmp.Or(o.Columns, 24)
	if o.Faint == nil {
		o.Faint = func(*protocol.Message) bool { return false }
	}
	r := newReader(d.Header(), &o)
	for e, err := range d.Events() {
		if err != nil {
			return Left{}, err
		}
		if !r.event(e) {
			break
		}
	}
	r.close()
	if len(r.times()) == 0 {
		return Left{}, errNothing
	}
	p := layOut(r, &o)
	return p.left, p.write(w)
}

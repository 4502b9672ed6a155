package scenario

import (
	"context"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// Span and Tenure are those of package sim.
type (
	Span   = sim.Span
	Tenure = sim.Tenure
)

func between(from, until sim.Time) Span { return Span{From: from, Until: until} }

// run is one run of a schedule, and its tenures.
type run struct {
	schedule *sim.Schedule
	result   *sim.Result
	tenures  []Tenure // by their begin
	leases   bool     // it is a proven lease that counts
	end      sim.Time
	terms    []mark // each rise of the greatest term of all
	tally    tally
}

// mark is a figure from a time on.
type mark struct {
	at    sim.Time
	value uint64
}

// tally is what a tracer has counted.
type tally struct {
	woken   []wake
	members memberships
	refused int // messages, because of their sender
	asked   int // how often the voter was asked again in the term in which it had voted
}

// wake is the receipt of an event of a watch.
type wake struct {
	who protocol.NodeID
	at  sim.Time
}

// play runs one schedule to its end.
func (st *stage) play(ctx context.Context, s *sim.Schedule) (*run, error) {
	w, err := sim.New(st.protocol, s)
	if err != nil {
		return nil, err
	}
	r := &run{schedule: s, leases: !st.protocol.Leaseless && !s.Work.NonExclusive}
	if st.trace != nil {
		w.Trace(tracer(func(w *sim.World, rec *sim.Record) { st.trace(r, rec) }))
	}
	const look = 1 << 12
	var term uint64
	var tenures sim.Tenures
	ids := st.ids
	for n, more := 1, true; more; n++ {
		more = w.Step()
		tenures.Look(w)
		if len(ids) <= sim.MaxNodes {
			for _, id := range ids {
				if v, ok := w.View(id); ok && v.Term > term {
					term = v.Term
					r.terms = append(r.terms, mark{w.Now(), term})
				}
			}
		}
		if n%look == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	r.result = w.Result()
	r.end = w.Now()
	tenures.End(r.end)
	r.tenures = tenures.All
	return r, nil
}

type tracer func(w *sim.World, rec *sim.Record)

func (t tracer) Event(w *sim.World, rec *sim.Record) { t(w, rec) }

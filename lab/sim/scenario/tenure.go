package scenario

import (
	"context"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// Span is from From until before Until.
type Span struct {
	From  sim.Time `json:"from"`
	Until sim.Time `json:"until"`
}

func (s Span) has(t sim.Time) bool { return s.From <= t && t < s.Until }

func (s Span) length() time.Duration { return time.Duration(s.Until - s.From) }

// within is the part of s that is in o.
func (s Span) within(o Span) Span { return Span{max(s.From, o.From), min(s.Until, o.Until)} }

// Tenure is one tenure of one participant, in true time.
type Tenure struct {
	Who   protocol.NodeID `json:"who"`
	Token uint64          `json:"token"`
	// Span is while it was elected and its process alive, frozen or not.
	Span
	// Proven is while its lease was proven, one span if there is no gap; none where the protocol
	// proves no leases. It may outlast Until: a lease covers work that was told to stop until it
	// has returned.
	Proven []Span `json:"proven,omitempty"`

	place int
}

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
	var standings []sim.Standing
	var term uint64
	open := map[int]int{} // tenures that are not over, by place
	ids := st.ids
	for n, more := 1, true; more; n++ {
		more = w.Step()
		standings = w.AppendStandings(standings[:0])
		for i := range standings {
			r.watch(&standings[i], w.Now(), open)
		}
		for place, i := range open {
			if !holds(standings, place, r.tenures[i].Token) {
				r.tenures[i].Until = w.Now()
				delete(open, place)
			}
		}
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
	for _, i := range open {
		r.tenures[i].Until = r.end
	}
	for i := range r.tenures { // the run ends here
		p := r.tenures[i].Proven
		for k := range p {
			p[k].Until = min(p[k].Until, r.end)
		}
	}
	return r, nil
}

type tracer func(w *sim.World, rec *sim.Record)

func (t tracer) Event(w *sim.World, rec *sim.Record) { t(w, rec) }

// holds reports whether the process at that place is elected with that token.
func holds(all []sim.Standing, place int, token uint64) bool {
	for i := range all {
		if s := &all[i]; s.Place == place {
			return s.Elected && s.Token == token
		}
	}
	return false
}

// watch records the view of one process.
func (r *run) watch(s *sim.Standing, now sim.Time, open map[int]int) {
	if i, ok := open[s.Place]; s.Elected && (!ok || r.tenures[i].Token != s.Token) {
		if ok {
			r.tenures[i].Until = now
		}
		open[s.Place] = len(r.tenures)
		r.tenures = append(r.tenures, Tenure{Who: s.Node, Token: s.Token, Span: Span{From: now}, place: s.Place})
	}
	if s.Proved == 0 {
		return
	}
	for i := len(r.tenures) - 1; i >= 0; i-- {
		tenure := &r.tenures[i]
		if tenure.place != s.Place || tenure.Token != s.Proved {
			continue
		}
		if k := len(tenure.Proven) - 1; k >= 0 && tenure.Proven[k].From == s.Since {
			tenure.Proven[k].Until = s.Until
		} else {
			tenure.Proven = append(tenure.Proven, Span{s.Since, s.Until})
		}
		return
	}
}

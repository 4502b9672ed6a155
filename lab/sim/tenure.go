package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Span is from From until before Until.
type Span struct {
	From  Time `json:"from"`
	Until Time `json:"until"`
}

// Has reports whether t is in the span.
func (s Span) Has(t Time) bool { return s.From <= t && t < s.Until }

// Length is negative if the span ends before it begins.
func (s Span) Length() time.Duration { return time.Duration(s.Until - s.From) }

// Within is the part of s that is in o.
func (s Span) Within(o Span) Span { return Span{max(s.From, o.From), min(s.Until, o.Until)} }

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

	Place int `json:"-"` // of its process; a twin has one of its own
}

// Tenures records the tenures of a run.
type Tenures struct {
	All       []Tenure // by their begin; Until of those that are not over is 0
	open      map[int]int
	standings []Standing
}

// Look is called after each step of the world.
func (t *Tenures) Look(w *World) {
	t.standings = w.AppendStandings(t.standings[:0])
	t.Take(w.Now(), t.standings)
}

// Take is Look with the standings of all processes after an event at now; one that was never
// elected may be left out.
func (t *Tenures) Take(now Time, all []Standing) {
	if t.open == nil {
		t.open = make(map[int]int)
	}
	t.standings = all
	for i := range t.standings {
		t.look(&t.standings[i], now)
	}
	for place, i := range t.open {
		if !t.holds(place, t.All[i].Token) {
			t.All[i].Until = now
			delete(t.open, place)
		}
	}
}

// End ends what is not over when the run ends.
func (t *Tenures) End(end Time) {
	for _, i := range t.open {
		t.All[i].Until = end
	}
	clear(t.open)
	for i := range t.All {
		p := t.All[i].Proven
		for k := range p {
			p[k].Until = min(p[k].Until, end)
		}
	}
}

// holds reports whether the process at that place is elected with that token.
func (t *Tenures) holds(place int, token uint64) bool {
	for i := range t.standings {
		if s := &t.standings[i]; s.Place == place {
			return s.Elected && s.Token == token
		}
	}
	return false
}

func (t *Tenures) look(s *Standing, now Time) {
	if i, ok := t.open[s.Place]; s.Elected && (!ok || t.All[i].Token != s.Token) {
		if ok {
			t.All[i].Until = now
		}
		t.open[s.Place] = len(t.All)
		t.All = append(t.All, Tenure{Who: s.Node, Token: s.Token, Span: Span{From: now}, Place: s.Place})
	}
	if s.Proved == 0 {
		return
	}
	for i := len(t.All) - 1; i >= 0; i-- {
		tenure := &t.All[i]
		if tenure.Place != s.Place || tenure.Token != s.Proved {
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

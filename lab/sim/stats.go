package sim

import (
	"math"
	"slices"
	"time"
)

// never is after the end of every run.
const never Time = math.MaxInt64

// Stats are the figures of a run, or with Add of several. A leader counts while its lease is
// proven; where work is not exclusive, or the protocol has no leases, while it is elected.
type Stats struct {
	Time     time.Duration `json:"time"`     // the virtual time that they cover
	Messages uint64        `json:"messages"` // that were sent
	Asks     uint64        `json:"asks"`     // requests to the store
	// Electing are the messages and requests that are part of elections: messages that are no
	// Heartbeat; requests of participants that do not lead, except for reads and watches as a
	// follower and for keeping a session alive.
	Electing  uint64 `json:"electing"`
	Elections uint64 `json:"elections"` // that were won
	Tenures   uint64 `json:"tenures"`   // in which a lease was proven
	Changes   uint64 `json:"changes"`   // of the leader, from one participant to another

	// Led is the time in which a participant led that was alive and not frozen.
	Led time.Duration `json:"led"`
	// TwoElected is the time in which two participants were elected. That is no fault where leases
	// are proven.
	TwoElected time.Duration `json:"two_elected"`
	// TwoLed is the time in which two participants led that were alive and not frozen: with proven
	// leases, or where there are none, elected.
	TwoLed time.Duration `json:"two_led"`
	// Takeovers are the times, unordered, from the moment when the last leader died, was frozen,
	// stopped or lapsed, until the next one led.
	Takeovers []time.Duration `json:"takeovers,omitempty"`

	Writes        uint64 `json:"writes"` // that left for the guarded resource
	StaleOffered  uint64 `json:"stale_offered"`
	StaleAccepted uint64 `json:"stale_accepted"`
	StaleRefused  uint64 `json:"stale_refused"`
	FreshRefused  uint64 `json:"fresh_refused"` // because tokens did not rise
	Overruns      uint64 `json:"overruns"`      // work that had not returned when its lease ended

	// Failures counts, by invariant, the failures that are allowed.
	Failures map[Invariant]uint64 `json:"failures,omitempty"`
	// Judged is the number of runs that completed the liveness phase.
	Judged uint64 `json:"judged"`
}

// Availability is the part of the time with a leader, 0 to 1.
func (s *Stats) Availability() float64 {
	if s.Time <= 0 {
		return 0
	}
	return float64(s.Led) / float64(s.Time)
}

// Takeover is the p-th quantile of the takeovers, 0 to 1, by the nearest rank;
// false if there was none.
func (s *Stats) Takeover(p float64) (time.Duration, bool) {
	n := len(s.Takeovers)
	if n == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(s.Takeovers))
	return sorted[min(max(int(math.Ceil(p*float64(n)))-1, 0), n-1)], true
}

// Add adds the figures of other runs.
func (s *Stats) Add(o *Stats) {
	s.Time += o.Time
	s.Messages += o.Messages
	s.Asks += o.Asks
	s.Electing += o.Electing
	s.Elections += o.Elections
	s.Tenures += o.Tenures
	s.Changes += o.Changes
	s.Led += o.Led
	s.TwoElected += o.TwoElected
	s.TwoLed += o.TwoLed
	s.Takeovers = append(s.Takeovers, o.Takeovers...)
	s.Writes += o.Writes
	s.StaleOffered += o.StaleOffered
	s.StaleAccepted += o.StaleAccepted
	s.StaleRefused += o.StaleRefused
	s.FreshRefused += o.FreshRefused
	s.Overruns += o.Overruns
	s.Judged += o.Judged
	for inv, n := range o.Failures {
		s.failed(inv, n)
	}
}

func (s *Stats) failed(inv Invariant, n uint64) {
	if s.Failures == nil {
		s.Failures = map[Invariant]uint64{}
	}
	s.Failures[inv] += n
}

func (s *Stats) clone() Stats {
	c := *s
	c.Takeovers = slices.Clone(s.Takeovers)
	c.Failures = nil
	for inv, n := range s.Failures {
		c.failed(inv, n)
	}
	return c
}

// serving is how the world is led, for the figures and for liveness.
type serving struct {
	at       Time   // everything before is accounted for
	led      bool   // there is a leader at that time, and will be
	until    Time   // until then, if nothing changes
	two      Time   // until then two lead, if nothing changes
	from     Time   // while there is no leader: since when
	elected  int    // how many are elected
	serials  uint64 // terms that began, of leaders that count
	lastNode int32  // the node.index of the leader of the last of them
	latest   uint64 // the term that led last
}

// termBegan is called when the term of a leader that counts begins.
func (o *oracle) termBegan(w *World, n *node, s *processState) {
	v := &o.serving
	if v.serials > 0 && int(v.lastNode) != n.index {
		w.stats.Changes++
		w.seen.add(SawLeaderChanged)
	}
	v.serials++
	v.lastNode = int32(n.index)
	s.notes.serial = v.serials
	o.noticeTerm(w, n)
	o.live.termBegan(w, n)
}

// servesUntil is until when s leads, if nothing changes.
func (s *processState) servesUntil(w *World) Time {
	switch {
	case s.stage == stageNone || !s.up || s.frozen:
		return 0
	case electedCounts(w):
		return never
	case s.stage != stageLeading:
		return 0
	}
	return s.until
}

// renewed is changed for the common case of a leader that renewed its lease.
func (o *oracle) renewed(w *World, s *processState) {
	if v := &o.serving; v.led && v.until > w.now && v.two <= w.now && s.notes.serial == v.latest && s.servesUntil(w) >= v.until {
		v.until = s.until
		return
	}
	o.changed(w)
}

// changed accounts for the time since the last change, and determines how the world is led now.
func (o *oracle) changed(w *World) {
	v := &o.serving
	passed := w.now - v.at
	if v.elected > 1 {
		w.stats.TwoElected += time.Duration(passed)
	}
	if v.two > v.at {
		w.stats.TwoLed += time.Duration(min(w.now, v.two) - v.at)
	}
	lapsed := never
	if v.led {
		w.stats.Led += time.Duration(min(w.now, v.until) - v.at)
		if v.until <= w.now {
			lapsed = v.until
			v.led, v.from = false, v.until
		}
	}
	w.stats.Time += time.Duration(passed)
	v.at = w.now

	var best *processState
	v.until, v.two, v.elected = 0, 0, 0
	for i := range o.processes {
		s := &o.processes[i]
		if s.stage != stageNone {
			v.elected++
		}
		if u := s.servesUntil(w); u > w.now && (best == nil || s.notes.serial > best.notes.serial) {
			best = s
		}
		until := s.servesUntil(w)
		v.until, v.two = max(v.until, until), max(v.two, min(v.until, until))
	}
	if v.elected > 1 {
		w.seen.add(SawTwoElected)
	}
	switch {
	case best == nil && v.led:
		v.led, v.from = false, w.now
	case best != nil:
		if !v.led && v.latest != 0 && v.latest != best.notes.serial {
			w.stats.Takeovers = append(w.stats.Takeovers, time.Duration(w.now-v.from))
		}
		v.led, v.latest = true, best.notes.serial
	}
	o.live.update(w, o, lapsed)
}

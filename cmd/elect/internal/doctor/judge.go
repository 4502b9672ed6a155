package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/brief"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// The requirements of a node.
const (
	// needFiles is for two connections to each of 8 other voters and 20 observers while one replaces the other, clients,
	// and the node's own files.
	needFiles = 128
	// needSpace is for the segments of the flight recorder, two of 4 MiB and one that is being replaced, and some for
	// ballots and history.
	needSpace = 16 << 20
	// needClock bounds the resolution: a lease's guard of 5 ms also covers the granularity of clocks.
	needClock = Millis(time.Millisecond)
	// drainShare of the lease is the default elect.Config.Drain: the work is told that much before the end.
	drainShare = 5
)

// Fit says whether times fit the measurements.
type Fit string

// The fits.
const (
	Fits  Fit = "yes"
	Tight Fit = "tight" // it fits with less than twice what is needed
	Never Fit = "no"
)

// Verdict is the result of [Judge]. Its JSON is stable: fields are added, and never renamed or removed.
type Verdict struct {
	Voters int `json:"voters"` // the number for which the times were computed
	// Problems are those of the machine, and keep any profile from fitting. Notes are further remarks for people.
	Problems []string    `json:"problems"`
	Notes    []string    `json:"notes"`
	Profiles []Judgement `json:"profiles"`
	// Recommended is the name of one of them; empty if none fits.
	Recommended string `json:"recommended"`
}

// Judgement is about one set of times.
type Judgement struct {
	Name      string `json:"name"`
	Heartbeat Millis `json:"heartbeat_ms"`
	Promise   Millis `json:"promise_ms"`
	Lease     Millis `json:"lease_ms"`
	Slot      Millis `json:"slot_ms"`
	// Takeover bounds the time from a leader's last sign of life until another is active; see
	// quorum.Config.WorstTakeover.
	Takeover Millis    `json:"worst_takeover_ms"`
	Fit      Fit       `json:"fits"`
	Findings []Finding `json:"findings"`
}

// Finding compares a requirement with a measurement.
type Finding struct {
	About string `json:"about"` // round, pauses or heartbeat
	Is    Millis `json:"is_ms"`
	Most  Millis `json:"most_ms"`
	Fit   Fit    `json:"fits"`
	Says  string `json:"says"` // the arithmetic
}

// Judge decides which of the profiles fit. voters is their number; 0 means that it is not known, and 3 are assumed.
// configured is nil, or the times of an existing configuration, which come first.
func Judge(m *Measurements, voters int, configured *quorum.Profile) *Verdict {
	v := &Verdict{Voters: cmp.Or(voters, 3), Problems: []string{}, Notes: []string{}}
	v.machine(m)
	far, known := farthest(m.Peers)
	v.notes(m, known, voters)
	profiles := quorum.Profiles()
	if configured != nil {
		profiles = slices.Insert(profiles, 0, *configured)
	}
	for _, p := range profiles {
		v.Profiles = append(v.Profiles, judge(m, p, far, v.Voters))
	}
	if len(v.Problems) > 0 {
		for i := range v.Profiles {
			v.Profiles[i].Fit = Never
		}
		return v
	}
	v.recommend(known || v.Voters == 1)
	return v
}

// machine finds problems that no choice of times can solve.
func (v *Verdict) machine(m *Measurements) {
	problem := func(format string, args ...any) { v.Problems = append(v.Problems, fmt.Sprintf(format, args...)) }
	if m.Disk.Error != "" {
		problem("the data directory cannot be used: %s", m.Disk.Error)
	}
	if f := m.Disk.Free; f != nil && *f < needSpace {
		problem("%s free in %s; want at least %s", size(*f), m.Disk.Dir, size(needSpace))
	}
	if m.Files > 0 && m.Files < needFiles {
		problem("this process may open %d files; want at least %d (ulimit -n)", m.Files, needFiles)
	}
	if m.Clock.Resolution > needClock {
		problem("the clock counts in steps of %s; want at most %s", show(m.Clock.Resolution), show(needClock))
	}
	for _, c := range m.Certificates {
		if c.Left < 0 && c.Needed {
			problem("%s, the certificate of %s, expired on %s: no node starts with it; want %s", c.File, c.For, c.Expires.Format(time.DateOnly), c.renewal())
		}
	}
	if m.Pauses.Samples == 0 {
		problem("pauses were not measured")
	}
}

func (v *Verdict) notes(m *Measurements, known bool, voters int) {
	note := func(format string, args ...any) { v.Notes = append(v.Notes, fmt.Sprintf(format, args...)) }
	if voters == 0 {
		note("no election was given, so round trips are taken as 0, and worst cases are for %d voters; want --election peer://… to measure them", v.Voters)
	}
	for _, p := range m.Peers {
		switch {
		case p.Error != "":
			note("%s at %s was not measured: %s", p.ID, p.Addr, p.Error)
		case !p.Listens:
			note("no process listens for %s at %s", p.ID, p.Addr)
		}
	}
	if voters > 0 && !known {
		note("the round trip to a peer is not known, so a profile may not fit it")
	}
	if m.Disk.Error == "" && !m.Disk.Lasts {
		note("%s is on %s, which is lost at a reboot: a voter without its directory is refused", m.Disk.Dir, m.Disk.Kind)
	}
	for _, c := range m.Certificates {
		switch {
		case c.Left < 0 && !c.Needed:
			note("%s, the certificate of %s, expired on %s; want %s", c.File, c.For, c.Expires.Format(time.DateOnly), c.renewal())
		case c.Soon && c.Left >= 0:
			note("%s, the certificate of %s, expires on %s, in %d days; want %s", c.File, c.For, c.Expires.Format(time.DateOnly), c.Left, c.renewal())
		}
	}
	if m.Clock.Suspends {
		note("%s stops while this machine sleeps: a leader does not notice then that its lease has ended", m.Clock.Name)
	}
	if apart := time.Duration(m.Clock.Apart).Abs(); apart > protocol.JumpTolerance {
		note("the clocks differed by %s after the measurement: the machine slept, or a clock was set; a leader then loses its lease", show(Millis(apart)))
	}
}

// renewal is the command that renews a certificate.
func (c *Certificate) renewal() string {
	if c.For == Authority {
		return "elect certs rollover"
	}
	return "elect certs renew"
}

// Authority is the holder of an authority's certificate.
const Authority = "the authority"

// farthest is the longest of the round trips. known reports whether all are known.
func farthest(peers []Peer) (far Peer, known bool) {
	known = len(peers) > 0
	for _, p := range peers {
		if p.RTT.Samples == 0 {
			known = false
		} else if p.RTT.P99 >= far.RTT.P99 {
			far = p
		}
	}
	return far, known
}

// recommend picks the quickest profile that fits well. Without round trips it picks none that is for one rack only.
// If none fits well, it picks the slowest that fits.
func (v *Verdict) recommend(wayKnown bool) {
	byTime := slices.SortedStableFunc(slices.Values(v.Profiles), func(a, b Judgement) int { return cmp.Compare(a.Takeover, b.Takeover) })
	standard := quorum.Profiles()[0]
	for _, j := range byTime {
		if j.Fit == Fits && (wayKnown || j.Promise >= Millis(standard.Promise)) {
			v.Recommended = j.Name
			return
		}
	}
	for _, j := range slices.Backward(byTime) {
		if j.Fit != Never {
			v.Recommended = j.Name
			return
		}
	}
}

// judge compares one set of times with the measurements.
func judge(m *Measurements, p quorum.Profile, far Peer, voters int) Judgement {
	lease := Millis(protocol.DefaultDrift().Claim(p.Promise))
	j := Judgement{
		Name: p.Name, Heartbeat: Millis(p.Heartbeat), Promise: Millis(p.Promise), Lease: lease, Slot: Millis(p.Slot),
		Takeover: Millis(quorum.Config{Self: electorate(voters).Voters[0], Membership: electorate(voters)}.In(p).WorstTakeover()), Fit: Fits,
	}
	rtt, sync, pause := far.RTT.P99, m.Disk.Sync.P99, m.Pauses.Max
	way := ""
	if far.ID != "" {
		way = " (to " + far.ID + ")"
	}

	// Two rounds, pre-vote and vote, and a save on each side.
	need := 2*rtt + 2*sync
	j.find("round", need, j.Slot, "an election takes 2 · RTT %s%s + 2 · sync %s = %s; its slot is %s", show(rtt), way, show(sync), show(need), show(j.Slot))

	// The leader is about to send when the pause begins, and must be heard again before the work is told. It sends a
	// probe first, because it asks for no promises after a long silence.
	drain := lease / drainShare
	bearable := lease - drain - 2*j.Heartbeat - 2*rtt
	j.find("pauses", pause, max(bearable, 0), "a leader survives a pause of lease %s − drain %s − 2 · heartbeat %s − 2 · RTT %s = %s; the longest pause was %s",
		leaseOf(lease), show(drain), show(j.Heartbeat), show(rtt), show(bearable), show(pause))

	// Otherwise several heartbeats are in flight to each peer.
	j.find("heartbeat", rtt, j.Heartbeat, "a heartbeat is sent every %s, and its answer must arrive before the next; RTT is %s%s", show(j.Heartbeat), show(rtt), way)
	return j
}

// leaseOf is a lease as an election states it: rounded down, because it must not be overstated.
func leaseOf(m Millis) time.Duration { return brief.Down(time.Duration(m)) }

// find adds a comparison.
func (j *Judgement) find(about string, is, most Millis, format string, args ...any) {
	fit := Fits
	switch {
	case is > most || most == 0:
		fit = Never
	case 2*is > most:
		fit = Tight
	}
	if fit == Never || fit == Tight && j.Fit == Fits {
		j.Fit = fit
	}
	j.Findings = append(j.Findings, Finding{About: about, Is: is, Most: most, Fit: fit, Says: fmt.Sprintf(format, args...)})
}

// electorate is a membership of n voters, for the computation.
func electorate(n int) *protocol.Membership {
	m := &protocol.Membership{}
	for i := range n {
		m.Voters = append(m.Voters, protocol.Voter{ID: protocol.NodeID(fmt.Sprint("n", i+1))})
	}
	return m
}

package group

import (
	"slices"
	"time"
)

// Stats are the figures of a run, or with Add of several.
type Stats struct {
	Runs         int             `json:"runs"` // that came to their end
	Tenures      uint64          `json:"tenures"`
	Terms        uint64          `json:"terms"` // works that began
	Adopted      uint64          `json:"adopted"`
	ByAccount    uint64          `json:"by_account"`
	ByTime       uint64          `json:"by_time"`
	Deserted     uint64          `json:"deserted"`
	Stops        uint64          `json:"stops"`
	Steps        uint64          `json:"steps"` // of coordinators
	Overruns     uint64          `json:"overruns"`
	Messages     uint64          `json:"messages"`
	Writes       uint64          `json:"writes"`
	StaleRefused uint64          `json:"stale_refused"`
	Unowned      time.Duration   `json:"unowned"` // between the works of a key
	Gaps         uint64          `json:"gaps"`
	Settled      []time.Duration `json:"-"` // from the end of the faults until all keys are led and all members admitted
}

func (s *Stats) gap(d time.Duration) {
	s.Gaps++
	s.Unowned += d
}

// Add adds the figures of other runs.
func (s *Stats) Add(o *Stats) {
	s.Runs += o.Runs
	s.Tenures += o.Tenures
	s.Terms += o.Terms
	s.Adopted += o.Adopted
	s.ByAccount += o.ByAccount
	s.ByTime += o.ByTime
	s.Deserted += o.Deserted
	s.Stops += o.Stops
	s.Steps += o.Steps
	s.Overruns += o.Overruns
	s.Messages += o.Messages
	s.Writes += o.Writes
	s.StaleRefused += o.StaleRefused
	s.Unowned += o.Unowned
	s.Gaps += o.Gaps
	s.Settled = append(s.Settled, o.Settled...)
}

// SettledAt is the q-th quantile of Settled, 0 to 1, by the nearest rank.
func (s *Stats) SettledAt(q float64) time.Duration {
	if len(s.Settled) == 0 {
		return 0
	}
	slices.Sort(s.Settled)
	return s.Settled[min(int(q*float64(len(s.Settled))), len(s.Settled)-1)]
}

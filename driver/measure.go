package driver

import "time"

// Measurer is implemented by electors that measure their part in the election, for metrics.
type Measurer interface {
	// Measure returns at once: it waits for no disk and no other participant. It may be called at any time.
	Measure() Measurements
}

// Measurements are those of one participant. Counts are from its start.
type Measurements struct {
	// Requests are those to a store, in any order; nil among peers, which have all of the rest.
	Requests []RequestMeasurements

	Voters, Quorum int // the voters, and how many of them elect
	Peers          []PeerMeasurements

	// QuorumContact is how long ago a quorum of the voters, this participant included, was last heard; negative if never.
	QuorumContact time.Duration

	ClockSteps uint64 // suspends, and clocks that were set
	// Pauses counts how often this process ran much later than planned; LongestPause is the longest delay.
	Pauses       uint64
	LongestPause time.Duration
	// Saves counts writes of the ballot to the disk; SlowestSave is the slowest.
	Saves       uint64
	SlowestSave time.Duration
}

// RequestMeasurements are those of the requests to a store for one operation that had one result.
type RequestMeasurements struct {
	Op, Result string // such as "write" and "done"
	Count      uint64
	Sum        time.Duration
	Within     map[time.Duration]uint64 // how many took that long or less; the bounds are always the same
}

// PeerMeasurements are those of the connection with another participant.
type PeerMeasurements struct {
	ID        string
	Up        bool          // there is a connection
	RoundTrip time.Duration // smoothed; 0 if not known
	// Messages; dropped ones found no connection or a full queue.
	Sent, Received, Dropped uint64
}

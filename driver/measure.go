package driver

import "time"

// Measurer is implemented by electors that measure their part in the election, for metrics.
type Measurer interface {
	// Measure returns at once: it waits for no disk and no other participant. It may be called at any time.
	Measure() Measurements
}

// Aser is implemented by electors that are more than this package knows of, as a part of a group's member is.
type Aser interface {
	// As sets target, a pointer, and returns true if it points to a type that the back end's documentation names.
	As(target any) bool
}

// Measurements are those of one participant. Counts are from its start.
type Measurements struct {
	// Renewals counts how often the end of a proven lease moved on.
	Renewals uint64

	// Requests are those to a store, in any order; nil among peers, which have all of the rest.
	Requests []RequestMeasurements

	// Membership names the membership that this participant knows: those who know the same one have the same name. It is
	// empty if it knows none.
	Membership string

	Voters, Quorum int // the voters, and how many of them elect
	Peers          []PeerMeasurements

	// QuorumContact is how long ago a quorum of the voters, this participant included, was last heard; negative if never.
	QuorumContact time.Duration

	ClockSteps uint64 // suspends, and clocks that were set
	// Pauses counts how often this process ran much later than planned; LongestPause is the longest delay.
	Pauses       uint64
	LongestPause time.Duration
	// Saves are writes of the ballot to the disk.
	Saves Durations
}

// Durations count how long something took.
type Durations struct {
	Count  uint64
	Sum    time.Duration
	Within map[time.Duration]uint64 // how many took that long or less; the bounds are always the same
}

// RequestMeasurements are those of the requests to a store for one operation that had one result.
type RequestMeasurements struct {
	Op, Result string // such as "write" and "done"
	Durations
}

// PeerMeasurements are those of the connection with another participant.
type PeerMeasurements struct {
	ID        string
	Up        bool          // there is a connection
	RoundTrip time.Duration // smoothed; 0 if not known
	// Messages; dropped ones found no connection or a full queue.
	Sent, Received, Dropped uint64

	// Voter is what a leader measures of a voter that has answered it; otherwise nil.
	Voter *VoterMeasurements
}

// VoterMeasurements are what a leader knows of a voter by its answers.
type VoterMeasurements struct {
	Lag   time.Duration // how long ago the message was sent that the voter answered last, while it was not Apart
	Apart bool          // the rate of its clock is beyond what is assumed of clocks, so that a lease does not count on it
}

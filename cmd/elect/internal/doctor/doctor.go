// Package doctor measures what an election among peers depends on (the pauses of a process, the sync of a disk, the
// round trips to the peers, the clock, limits of the system) and judges which times fit.
//
// [Measure] does all the I/O, and [Judge] is a pure function of the measurements. Neither keeps state; each may be
// called by any number of goroutines, but two concurrent measurements disturb each other. A failed measurement is a
// text in the result and not an error, so that one broken disk or peer does not hide the rest. Measure leaves nothing
// behind, unless the process is killed in the middle of it.
package doctor

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Measurements is the result of [Measure]. Its JSON is stable: fields are added, and never renamed or removed.
type Measurements struct {
	System string      `json:"system"` // kernel, its version, and architecture
	CPUs   int         `json:"cpus"`
	Load   *[3]float64 `json:"load,omitempty"` // over 1, 5 and 15 minutes, at the end, if the system tells
	Took   Millis      `json:"took_ms"`

	// Pauses is how late the timers of this process fired.
	Pauses Distribution `json:"pauses"`
	Disk   Disk         `json:"disk"`
	Peers  []Peer       `json:"peers"` // empty without an election
	Clock  Clock        `json:"clock"`
	// Certificates are those that the election's URL names.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Files is how many files this process may have open; 0 if not known.
	Files uint64 `json:"files,omitempty"`
	// Contain is the level that elect run --contain auto has as this user, from here.
	Contain Contain `json:"contain"`
}

// Disk is how long it takes until a ballot is durable.
type Disk struct {
	Dir   string       `json:"dir"`           // where it was measured
	For   string       `json:"for,omitempty"` // the data directory, if that does not exist yet
	Kind  string       `json:"filesystem,omitempty"`
	Lasts bool         `json:"lasts"`           // synced data survives a loss of power
	Sync  Distribution `json:"sync"`            // for a write of 512 bytes and fdatasync
	Free  *uint64      `json:"free_bytes"`      // that this user may use; null if not known
	Error string       `json:"error,omitempty"` // why it was not measured
}

// Peer is the path to another node, measured by TCP connections.
type Peer struct {
	ID   string       `json:"id"`
	Addr string       `json:"address"`
	RTT  Distribution `json:"rtt"`
	// Listens means that the connections were accepted. If the other machine refused them the round trip is known all
	// the same.
	Listens bool   `json:"listens"`
	Error   string `json:"error,omitempty"` // why nothing is known
}

// Contain is how the family of a command is held together.
type Contain struct {
	Level   string `json:"level"`             // of supervise
	Missing string `json:"missing,omitempty"` // for the level cgroup
	Guard   string `json:"guard,omitempty"`   // what the network guard lacks; "" is nothing
	Pid     string `json:"pid,omitempty"`     // likewise the level pid
}

// Certificate is that of a node, an operator or an authority.
type Certificate struct {
	File    string    `json:"file"`
	For     string    `json:"for"` // its holder, for people
	Needed  bool      `json:"-"`   // a node needs it
	Expires time.Time `json:"expires"`
	// Left is the number of whole days until it expires; negative after that.
	Left int `json:"days_left"`
	// Soon means that it should have been renewed.
	Soon bool `json:"soon"`
}

// Clock is the clock for leases.
type Clock struct {
	Name       string `json:"name"`
	Suspends   bool   `json:"suspends"` // it stands still while the machine sleeps
	Resolution Millis `json:"resolution_ms"`
	// Apart is how far it and CLOCK_MONOTONIC came apart: the machine slept, or a clock was set.
	Apart Millis `json:"apart_ms"`
}

// Millis is a time that is a number of milliseconds in JSON.
type Millis time.Duration

// MarshalJSON implements json.Marshaler.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(time.Duration(m).Seconds()*1e9) / 1e6)
}

// Distribution is many samples of one time.
type Distribution struct {
	Samples int    `json:"samples"`
	P50     Millis `json:"p50_ms"`
	P99     Millis `json:"p99_ms"`
	Max     Millis `json:"max_ms"`
}

// Distribute sorts the samples, and picks the nearest ranks.
func Distribute(samples []time.Duration) Distribution {
	n := len(samples)
	if n == 0 {
		return Distribution{}
	}
	slices.Sort(samples)
	rank := func(q float64) Millis { return Millis(samples[max(int(math.Ceil(q*float64(n)))-1, 0)]) }
	return Distribution{Samples: n, P50: rank(.5), P99: rank(.99), Max: rank(1)}
}

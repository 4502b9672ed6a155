//go:build linux

package judge

import (
	"time"

	"github.com/electd/elect/test/chaos/network"
)

// HistoryFile is the name of the history in the directory of a run.
const HistoryFile = "history.ndjson"

// Kind says what an [Event] is. The set is open: the judge leaves out what it does
// not know, but for the timeline.
type Kind string

// The kinds, with the fields that count beside At.
const (
	// Run is the first: Nodes, Voters, Majority, Wall, Text, Material.
	Run Kind = "run"
	// Voters: from now on these are the election's, by Voters.
	Voters Kind = "voters"
	// Start: the process Pid of Node has been started. Text may say of which version.
	Start Kind = "start"
	// End: the process Pid of Node has ended. Text says how.
	End Kind = "end"
	// Fault: the fault Fault, number ID, begins. Node is whom it befalls, or Nobody.
	Fault Kind = "fault"
	// Heal: the fault ID is over. A fault that has no duration, as a kill, has its
	// Heal at once.
	Heal Kind = "heal"
	// Links: from now on the links are as in Links; one that is not there is
	// perfect.
	Links Kind = "links"
	// Health: from now on Node i is well if Healthy[i]: not stopped, starved or
	// slowed, its disk sound, its clock true, and allowed to lead. Whether its
	// process is there the judge knows from Start and End.
	Health Kind = "health"
	// Stop and Cont: the Part of Node is frozen, and goes on. Stop is written before
	// it is done, and Cont after.
	Stop Kind = "stop"
	Cont Kind = "cont"
	// Thaw: the Part of Node is about to go on, and nothing was done yet that lets it.
	// A Cont follows, however late.
	Thaw Kind = "thaw"
	// Wiped: what Node had on disk is gone or older than it was, and from now on it
	// may know less.
	Wiped Kind = "wiped"
	// Used: what the process Pid of Node has, in Usage.
	Used Kind = "used"
	// Told: Node said that it is in Term.
	Told Kind = "told"
	// Clock: from now on Node's CLOCK_BOOTTIME is Ahead of the machine's, and runs at
	// Rate, until its next Clock. The leases of a node of which there is none are not
	// compared with those of others.
	Clock Kind = "clock"
	// Stall: the harness itself did not come to run in the last For. What nodes
	// did in it is no fault of theirs.
	Stall Kind = "stall"
	// Final: all faults are healed, and Node leads with Token. Watchers are still
	// there, and are given time to see it.
	Final Kind = "final"
	// Over: the run is over. Whatever is after it is the taking down.
	Over Kind = "over"
	// Watched: a watcher has been started whose file is watch/Text.ndjson, or has a name
	// that begins with Text and a hyphen. From now on it must see who leads; without this
	// event it must from the first state that it saw.
	Watched Kind = "watched"
	// Unwatched: the watcher whose file is watch/Text.ndjson has ended, or began to.
	// What it saw last is not asked then.
	Unwatched Kind = "unwatched"
	// Broken: the harness itself saw a promise broken, that of Check, as Text says. The
	// judge takes its word.
	Broken Kind = "broken"
	// Note: Text, for people.
	Note Kind = "note"
)

// What a run can promise in Material. It is asked for when somebody has led for a
// second.
const (
	Writes  = "writes"  // the register accepted what a leader wrote
	Flights = "flights" // each node that led has a flight record
	Leases  = "leases"  // of each that led the clock is known; of 90 % of tenures longer than a second there are recorded steps, and a lease that was compared
	Watches = "watches" // watchers saw who led, if there is a Final
)

// Nobody is the Node of an event that befalls none, or all.
const Nobody = -1

// Parts of a node that can be frozen.
const (
	PartNode   = "node"   // elect run, or the program that embeds the library
	PartKeeper = "keeper" // what keeps and kills the family
	PartChild  = "child"  // the command, and its descendants
	PartFamily = "family" // all of them
)

// Event is one line of the history. Which fields count its Kind says.
type Event struct {
	At   int64 `json:"at"` // lives.Now; 0 when added: now
	Kind Kind  `json:"kind"`
	Node int   `json:"node"` // from 0, or Nobody

	Fault string `json:"fault,omitempty"` // its name, such as isolate-leader
	ID    int    `json:"id,omitempty"`    // of the fault, from 1
	Text  string `json:"text,omitempty"`
	Check string `json:"check,omitempty"`

	Nodes    int   `json:"nodes,omitempty"`    // how many there can be
	Voters   []int `json:"voters,omitempty"`   // which of them vote
	Majority int   `json:"majority,omitempty"` // how many it takes; 0: more than half of the voters. A file election: 1
	// Wall is the time of day at At, by which what watchers wrote is put in place.
	Wall time.Time `json:"wall,omitzero"`
	// Material is what must be there to be looked at, of those below. A run without it
	// would pass for a good one.
	Material []string `json:"material,omitempty"`

	Pid     int           `json:"pid,omitempty"`
	Part    string        `json:"part,omitempty"`
	Links   network.Links `json:"links,omitempty"`
	Healthy []bool        `json:"healthy,omitempty"`
	Token   int64         `json:"token,omitempty"`
	Term    int64         `json:"term,omitempty"`
	For     time.Duration `json:"for,omitempty"`   // ns
	Ahead   time.Duration `json:"ahead,omitempty"` // ns
	Rate    float64       `json:"rate,omitempty"`  // 0: 1, the true one
	Usage   *Usage        `json:"usage,omitempty"`
}

// Usage is what a process has at a moment. A number that is not known is 0.
type Usage struct {
	FDs        int   `json:"fds,omitempty"`
	Threads    int   `json:"threads,omitempty"`
	Goroutines int   `json:"goroutines,omitempty"`
	RSS        int64 `json:"rss,omitempty"` // bytes
}

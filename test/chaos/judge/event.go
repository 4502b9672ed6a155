//go:build linux

package judge

import (
	"time"

	"github.com/electd/elect/test/chaos/network"
)

// HistoryFile is the name of the history in the directory of a run.
const HistoryFile = "history.ndjson"

// Kind is the kind of an [Event]. The set is open: the judge shows unknown kinds in the timeline,
// and ignores them otherwise.
type Kind string

// The kinds, with the fields that they use in addition to At.
const (
	// Run is the first: Nodes, Voters, Majority, Wall, Text, Material.
	Run Kind = "run"
	// Voters: from now on the election's voters are those in Voters.
	Voters Kind = "voters"
	// Start: the process Pid of Node has been started. Text may say of which version.
	Start Kind = "start"
	// End: the process Pid of Node has ended. Text says how.
	End Kind = "end"
	// Fault: the fault Fault, number ID, begins. Node is the affected node, or NoNode.
	Fault Kind = "fault"
	// Heal: the fault ID is over. A fault without a duration, such as a kill, has its Heal at once.
	Heal Kind = "heal"
	// Links: from now on the links are as in Links; one that is missing there is perfect.
	Links Kind = "links"
	// Health: from now on Node i is well if Healthy[i]: not stopped, starved or slowed, its disk
	// sound, its clock true, and allowed to lead. Start and End tell the judge whether its process
	// runs.
	Health Kind = "health"
	// Stop and Cont: the Part of Node is frozen, and resumes. Stop is written before, Cont after.
	Stop Kind = "stop"
	Cont Kind = "cont"
	// Thaw: the Part of Node is about to resume; nothing has been done yet. A Cont follows, however
	// late.
	Thaw Kind = "thaw"
	// Wiped: the content of Node's disk is lost or older than it was, and from now on it may know
	// less.
	Wiped Kind = "wiped"
	// Used: the resources of the process Pid of Node, in Usage.
	Used Kind = "used"
	// Told: Node said that it is in Term.
	Told Kind = "told"
	// Clock: from now on Node's CLOCK_BOOTTIME is Ahead of the computer's, and runs at Rate, until
	// its next Clock. The leases of a node without a Clock are not compared with those of others.
	Clock Kind = "clock"
	// Stall: the harness itself did not run in the last For. What nodes did meanwhile is not their
	// fault.
	Stall Kind = "stall"
	// Final: all faults are healed, and Node leads with Token. Watchers still run, and get time to
	// see it.
	Final Kind = "final"
	// Over: the run is over. What follows is the cleanup.
	Over Kind = "over"
	// Watched: a watcher has been started whose file is watch/Text.ndjson, or has a name that
	// begins with Text and a hyphen. From now on it must see the leaders; without this event it
	// must from its first state on.
	Watched Kind = "watched"
	// Unwatched: the watcher whose file is watch/Text.ndjson has ended, or is about to. Its last
	// state is not checked then.
	Unwatched Kind = "unwatched"
	// Broken: the harness itself saw a broken promise, that of Check, described in Text. The judge
	// reports it.
	Broken Kind = "broken"
	// Note: Text, for readers.
	Note Kind = "note"
)

// What a run can promise in Material. It is required if there was a leader for a second.
const (
	Writes  = "writes"  // the register accepted what a leader wrote
	Flights = "flights" // each node that led has a flight record
	Leases  = "leases"  // leaders' clocks are known; 90 % of tenures over 1 s have recorded steps, and a compared lease
	Watches = "watches" // watchers saw the leaders, if there is a Final
)

// NoNode is the Node of an event of no node, or of all.
const NoNode = -1

// Parts of a node that can be frozen.
const (
	PartNode   = "node"   // elect run, or the program that uses the library
	PartKeeper = "keeper" // the process that keeps and kills the family
	PartChild  = "child"  // the command, and its descendants
	PartFamily = "family" // all of them
)

// Event is one line of the history. Its Kind says which fields are used.
type Event struct {
	At   int64 `json:"at"` // lives.Now; 0 when added: now
	Kind Kind  `json:"kind"`
	Node int   `json:"node"` // from 0, or NoNode

	Fault string `json:"fault,omitempty"` // its name, such as isolate-leader
	ID    int    `json:"id,omitempty"`    // of the fault, from 1
	Text  string `json:"text,omitempty"`
	Check string `json:"check,omitempty"`

	Nodes    int   `json:"nodes,omitempty"`    // the greatest number of nodes
	Voters   []int `json:"voters,omitempty"`   // which of them vote
	Majority int   `json:"majority,omitempty"` // of the nodes; 0: more than half of the voters. A file election: 1
	// Wall is the time of day at At, which places what watchers wrote.
	Wall time.Time `json:"wall,omitzero"`
	// Material lists the evidence that must exist. A run without it would pass for a good one.
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

// Usage is the resources of a process at a moment. An unknown number is 0.
type Usage struct {
	FDs        int   `json:"fds,omitempty"`
	Threads    int   `json:"threads,omitempty"`
	Goroutines int   `json:"goroutines,omitempty"`
	RSS        int64 `json:"rss,omitempty"` // bytes
}

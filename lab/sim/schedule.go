package sim

import (
	"encoding/json"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Time is true time: nanoseconds since the world began. No participant sees it.
type Time int64

// Schedule describes a whole run as data: the properties of the world, and its faults. The same
// schedule gives the same run, to the bit, with the same build. Durations are in nanoseconds in
// JSON, probabilities from 0 to 1.
type Schedule struct {
	Format    int             `json:"format"` // 1
	Protocol  string          `json:"protocol"`
	Config    json.RawMessage `json:"config,omitempty"` // of the machines: what differs from the protocol's defaults
	Seed      uint64          `json:"seed"`             // of the random streams: delays, losses, the machines' chance
	Profile   string          `json:"profile,omitempty"`
	Nodes     int             `json:"nodes"`               // voters or candidates: n1, n2, …
	Observers int             `json:"observers,omitempty"` // o1, o2, …
	// Spares are s1, s2, …: no membership lists them at the beginning. Each waits for a message
	// with a membership that lists it, and takes part from then on.
	Spares int `json:"spares,omitempty"`
	// Faults is the length of the fault phase, Settle that of the liveness phase, in which the
	// healed world has to become stable; 0 leaves that phase out.
	Faults time.Duration `json:"faults"`
	Settle time.Duration `json:"settle,omitempty"`
	// Core lists the participants that can reach each other in the liveness phase; all if empty. It
	// holds a majority. Links outside of it stay cut.
	Core []protocol.NodeID `json:"core,omitempty"`
	// Beyond says that some faults break an assumption of the model, so that less is promised. A
	// run does not depend on it.
	Beyond bool `json:"beyond,omitempty"`
	// Expected is the outcome of the run when the schedule was recorded, if it was. A run does not
	// depend on it.
	Expected *Expected `json:"expected,omitempty"`

	Links  LinkNoise   `json:"links"`
	Disks  DiskNoise   `json:"disks"`
	Store  StoreNoise  `json:"store,omitzero"`
	Work   Work        `json:"work"`
	Log    Log         `json:"log,omitzero"`
	Clocks []ClockSpec `json:"clocks,omitempty"` // of n1, n2, …, o1, …, s1, …; those that are missing are perfect
	Ops    []Op        `json:"ops"`              // by rising At
}

// Expected is the outcome of a run.
type Expected struct {
	Hash      string    `json:"hash"`                // 16 hexadecimal digits
	Build     string    `json:"build,omitempty"`     // of the program that ran it; another build may give another hash
	Invariant Invariant `json:"invariant,omitempty"` // that was violated
}

// LinkNoise is the permanent behaviour of every link. A shrunk schedule has none and explicit Drop
// operations instead.
type LinkNoise struct {
	Delay     time.Duration `json:"delay"`               // least one-way delay
	Jitter    time.Duration `json:"jitter,omitempty"`    // mean of the exponential delay on top
	Tail      float64       `json:"tail,omitempty"`      // probability of a delay out of the heavy tail (Pareto, α = 1.5, from 10·Jitter, at most 3 s)
	Loss      float64       `json:"loss,omitempty"`      // probability that a message is lost
	Duplicate float64       `json:"duplicate,omitempty"` // probability that a message comes twice, the second up to 3 s late
	Reorder   bool          `json:"reorder,omitempty"`   // messages of one link may overtake each other; TCP's would not
	Bandwidth int64         `json:"bandwidth,omitempty"` // messages per second that a link carries; 0 is any number
}

// DiskNoise is the permanent behaviour of every disk.
type DiskNoise struct {
	Sync   time.Duration `json:"sync"`             // least time of a write and sync
	Jitter time.Duration `json:"jitter,omitempty"` // mean of the exponential time on top
	Tail   float64       `json:"tail,omitempty"`   // probability of a sync out of the heavy tail, as for links
}

// StoreNoise is the permanent behaviour of the store.
type StoreNoise struct {
	Delay      time.Duration `json:"delay,omitempty"` // least one-way delay
	Jitter     time.Duration `json:"jitter,omitempty"`
	Tail       float64       `json:"tail,omitempty"`
	Timeout    time.Duration `json:"timeout,omitempty"`     // of a runtime: then an answer counts as unknown; 0 is 1 s
	Unknown    float64       `json:"unknown,omitempty"`     // probability that a request is applied and its answer lost
	LostAsk    float64       `json:"lost_ask,omitempty"`    // probability that a request never arrives; its outcome is unknown too
	LateAsk    float64       `json:"late_ask,omitempty"`    // probability that a request is applied up to 3 s late, its answer lost
	Repeat     float64       `json:"repeat,omitempty"`      // probability that the client library repeats a write that was applied: a conflict with itself
	StaleRead  float64       `json:"stale_read,omitempty"`  // probability that a watch event or a lagging read shows an older state
	WatchLoss  float64       `json:"watch_loss,omitempty"`  // probability that an event is lost, and
	WatchTwice float64       `json:"watch_twice,omitempty"` // that it comes twice
	WatchClose float64       `json:"watch_close,omitempty"` // that a watch is closed instead of an event
	Throttle   float64       `json:"throttle,omitempty"`    // probability that a request is refused
	Rate       int64         `json:"rate,omitempty"`        // the server's clock: parts per million that it is fast
	Mended     bool          `json:"mended,omitempty"`      // etcd's servers have the mend of its issue 15247; see OpStoreHang
	// Replicated: the store's servers run on the computers of the voters or candidates, at most
	// MaxNodes, one beside each. A server is down while the process beside it is dead or frozen, or
	// its disk fails, and for good once that was wiped; its links are cut as the participant's are.
	// A participant that reaches fewer than a majority of them, both ways, cannot reach the store.
	// When the server that leads goes down or loses its majority, another one leads after an
	// election (see package lab/sim/compare); if none can, the store is down.
	Replicated bool `json:"replicated,omitempty"`
}

// Work is the program of a leader: it checks, takes a while (a pause may fall into it), and writes
// to the guarded resource with its token.
type Work struct {
	Every  time.Duration `json:"every"`            // from write to write
	Think  time.Duration `json:"think,omitempty"`  // from the check to the write
	Flight time.Duration `json:"flight,omitempty"` // from the sending of the write to its arrival at the resource
	Drain  time.Duration `json:"drain,omitempty"`  // the work is told this long before the lease ends
	Stop   time.Duration `json:"stop,omitempty"`   // it returns this long after it was told
	// NonExclusive work begins when elected; its every effect is fenced.
	NonExclusive bool `json:"non_exclusive,omitempty"`
	// Outlives: work whose process is killed goes on until its lease has ended, as a child process
	// may, unless a keeper ends it and reports that.
	Outlives bool `json:"outlives,omitempty"`
}

// Log is what the leader's program writes and the others copy. A participant's position is its
// place in it. Positions are numbers; "" is the beginning.
type Log struct {
	Every time.Duration `json:"every,omitempty"` // the time between two steps of the leader; 0 is never
	Lag   time.Duration `json:"lag,omitempty"`   // the delay of the others, and of a participant that catches up
}

// ClockSpec is a participant's clock at the beginning.
type ClockSpec struct {
	Rate int64         `json:"rate,omitempty"` // parts per million that it is fast
	Zero time.Duration `json:"zero,omitempty"` // what it shows at true time 0
}

// Op is one fault, or one act of an operator. Each OpKind documents which fields it uses. An
// operation whose participant is down, or that finds nothing to do, does nothing, so that any
// subset of a schedule's operations is a schedule.
type Op struct {
	At    Time              `json:"at"`
	Kind  OpKind            `json:"kind"`
	Node  protocol.NodeID   `json:"node,omitempty"`
	Peer  protocol.NodeID   `json:"peer,omitempty"`
	Group []protocol.NodeID `json:"group,omitempty"`
	For   time.Duration     `json:"for,omitempty"` // its length; 0 is until the faults end, unless the kind differs
	Every time.Duration     `json:"every,omitempty"`
	Value float64           `json:"value,omitempty"`
	By    time.Duration     `json:"by,omitempty"`
	Count int               `json:"count,omitempty"`
}

// Leader stands in an operation's Node or Peer for the leader at the beginning of the
// operation: the participant with the greatest token among those with a proven lease, or else among
// the elected. If there is none, nothing is done.
const Leader protocol.NodeID = "leader"

// OpKind names a fault.
type OpKind string

// Faults of the network. Links are directed, from Node to Peer.
const (
	OpLoss      OpKind = "loss"      // the link loses Value of its messages, For
	OpDelay     OpKind = "delay"     // the link's messages take By longer, For
	OpDuplicate OpKind = "duplicate" // the link doubles Value of its messages, For
	OpReorder   OpKind = "reorder"   // the link's messages overtake each other within By, For
	OpReplay    OpKind = "replay"    // Count old messages of the link arrive again, the youngest first
	OpClog      OpKind = "clog"      // the link holds all messages For, then lets them go at once
	OpHalfOpen  OpKind = "half-open" // the link loses everything For; no participant is told
	OpReset     OpKind = "reset"     // the connection between Node and Peer (or everybody) is reset: both are told, both live
	OpDrop      OpKind = "drop"      // the Count-th message of the link (from 1, over the whole run) is lost
)

// Partitions. All of them last For and close no connection.
const (
	OpIsolate      OpKind = "isolate"        // Node from everybody
	OpHalves       OpKind = "halves"         // Group from the others
	OpThird        OpKind = "minority-third" // Group is heard by none and hears none; the others are whole; Group is a third
	OpBridge       OpKind = "bridge"         // Group and the others see each other through Node only
	OpMajorityRing OpKind = "majority-ring"  // each sees a majority, no two the same: its neighbours on the ring of all voters
	OpChain        OpKind = "chain"          // each sees its neighbours on the line of Group only
	OpOneWay       OpKind = "one-way"        // Node is heard by none (Value 0) or hears none (Value 1)
	OpSwizzle      OpKind = "swizzle"        // Group is isolated one after the other, Every, and healed in another order
	OpFlap         OpKind = "flap"           // the link both ways is cut and healed, Every
)

// Faults of processes.
const (
	OpKill      OpKind = "kill"       // Node dies; its connections close; it stays down For, or until it is healed if 0
	OpPowerLoss OpKind = "power-loss" // Node dies, nothing is closed, unsynced writes may be lost; down For
	OpCrashLoop OpKind = "crash-loop" // Node dies and starts, Every, For
	OpPause     OpKind = "pause"      // Node is frozen For (SIGSTOP); messages wait; clocks run
	OpPauseSend OpKind = "pause-send" // the same, at the moment when it is about to carry out its next effects
	OpPauseWork OpKind = "pause-work" // the same, between the check and the write of its work
	OpSuspend   OpKind = "suspend"    // Node's machine sleeps For: the boot clock runs, the other does not
	OpWipe      OpKind = "wipe"       // Node dies and starts, after For, with an empty disk: another directory
	OpTwin      OpKind = "twin"       // a second process with Node's id and a copy of its disk runs For; beyond the model: data directories are locked
	OpRoll      OpKind = "roll"       // every participant is restarted in turn, Every
	OpImpostor  OpKind = "impostor"   // Node's messages arrive as if Peer had sent them, For, unless the protocol authenticates senders (Protocol.Authenticated), and refuses them; beyond the model
	OpWitness   OpKind = "witness"    // Node dies, its keeper outlives it and says so to all
)

// Faults of clocks.
const (
	OpRate   OpKind = "clock-rate"   // Node's clock is Value·10⁻⁶ fast from now on
	OpStep   OpKind = "clock-step"   // Node's boot clock jumps by By, forwards or back, unless that could undo a jump that was not noticed yet
	OpStrobe OpKind = "clock-strobe" // it jumps by By to and fro, Every, For
	OpReboot OpKind = "reboot"       // Node's machine restarts: power loss, and clocks begin at zero; down For
)

// Faults of disks.
const (
	OpLoseWrites OpKind = "lose-writes" // Node dies; what was not yet synced is lost, and a write in flight is torn; down For
	OpFlip       OpKind = "bit-flip"    // one bit of one slot of Node's disk turns; checksums find it at the next start; beyond the model: it may be the one that counts
	OpRestore    OpKind = "restore"     // Node dies and starts with its disk as it was By ago; beyond the model
	OpEIO        OpKind = "eio"         // Node's writes fail For
	OpFull       OpKind = "disk-full"   // Node's writes fail For, by ENOSPC
	OpSlowSync   OpKind = "slow-sync"   // Node's syncs take By longer, For
)

// Faults of the store.
const (
	OpStoreDown    OpKind = "store-down"     // no participant (or not Node) reaches the store For
	OpStoreSlow    OpKind = "store-slow"     // requests take By longer, For
	OpStoreUnknown OpKind = "store-unknown"  // Value of the answers are lost For
	OpStaleRead    OpKind = "stale-read"     // Node sees the store as it was up to By ago where a read may lag, For
	OpWatchLoss    OpKind = "watch-loss"     // events are lost For
	OpWatchDouble  OpKind = "watch-double"   // events come twice For
	OpWatchClose   OpKind = "watch-close"    // all watches (of Node) close
	OpExpireEarly  OpKind = "expire-early"   // Node's session, or its record that would expire, ends now; beyond the model where exclusivity rests on its TTL
	OpExpireLate   OpKind = "expire-late"    // sessions live By longer than their TTL, For
	OpFailover     OpKind = "store-failover" // the store loses the last Count acknowledged writes and has another incarnation; beyond the model
	OpRollback     OpKind = "store-rollback" // the store goes back by Count changes, does not say so, and gives their versions again; with Value 1 it has lost the record, and versions begin anew; beyond the model
	OpStoreElect   OpKind = "store-elect"    // the store's leader changes: sessions are refreshed, watches close, nothing is lost
	OpStoreHang    OpKind = "store-hang"     // etcd's leader hangs For and is replaced: it renews leases by its own count, at once or (Value 1) when it goes on, and then revokes what has run out there; a mended one does neither; beyond the model where exclusivity rests on the TTL alone
	OpThrottle     OpKind = "throttle"       // Value of the requests are refused For
	OpForeign      OpKind = "foreign-delete" // the record, or Node's entry, is deleted by hand; with Count, puts back the record of Count changes ago; beyond the model where exclusivity or the count rests on it
)

// Acts of an operator, or of the program.
const (
	OpResign   OpKind = "resign"   // Node is asked to resign
	OpWithdraw OpKind = "withdraw" // Node stops being a candidate For
	OpSicken   OpKind = "sicken"   // Node is unhealthy For
	OpConfirm  OpKind = "confirm"  // Node's term is to be proven anew

	OpTransfer  OpKind = "transfer"   // Node is asked to hand over to Peer, to the best successor if there is none
	OpStandBack OpKind = "stand-back" // Node is paused by its operator For, restarts included: it votes, and does not stand
	OpLocate    OpKind = "locate"     // Node's position is Count beyond that of all others; with 0 it stands still For

	OpAdd         OpKind = "add"         // Node is to become a voter; the leader is asked for the next step, Every, For
	OpRemove      OpKind = "remove"      // Node is to be no voter and no observer any more; asked for likewise
	OpReplace     OpKind = "replace"     // Node's new directory is to be a voter in the place of its old one, if its disk was wiped; asked for likewise
	OpReconfigure OpKind = "reconfigure" // the voters are to be Group; asked for likewise, and with Value 1 for all at once first
)

package sim

// Fault describes a kind of operation.
type Fault struct {
	Kind  OpKind `json:"kind"`
	Group string `json:"group"` // what it befalls: network, partition, process, clock, disk, store, operator
	Says  string `json:"says"`
}

// Faults lists every kind of operation, as it is said at its OpKind.
func Faults() []Fault {
	return []Fault{
		{OpLoss, "network", "the link loses Value of its messages, For"},
		{OpDelay, "network", "the link's messages take By longer, For"},
		{OpDuplicate, "network", "the link doubles Value of its messages, For"},
		{OpReorder, "network", "the link's messages overtake each other within By, For"},
		{OpReplay, "network", "Count old messages of the link arrive again, the youngest first"},
		{OpClog, "network", "the link holds all messages For, then lets them go at once"},
		{OpHalfOpen, "network", "the link loses everything For; nobody is told"},
		{OpReset, "network", "the connection between Node and Peer (or everybody) is reset: both are told, both live"},
		{OpDrop, "network", "the Count-th message of the link (from 1, over the whole run) is lost"},
		{OpIsolate, "partition", "Node from everybody"},
		{OpHalves, "partition", "Group from the others"},
		{OpThird, "partition", "Group can be heard by nobody and hears nobody; the others are whole; Group is a third"},
		{OpBridge, "partition", "Group and the others see each other through Node only"},
		{OpMajorityRing, "partition", "each sees a majority, no two the same: its neighbours on the ring of all voters"},
		{OpChain, "partition", "each sees its neighbours on the line of Group only"},
		{OpOneWay, "partition", "Node is heard by nobody (Value 0) or hears nobody (Value 1)"},
		{OpSwizzle, "partition", "Group is isolated one after the other, Every, and healed in another order"},
		{OpFlap, "partition", "the link both ways is cut and healed, Every"},
		{OpKill, "process", "Node dies; its connections close; it stays down For, or until it is healed if 0"},
		{OpPowerLoss, "process", "Node dies, nothing is closed, unsynced writes may be lost; down For"},
		{OpCrashLoop, "process", "Node dies and starts, Every, For"},
		{OpPause, "process", "Node is frozen For (SIGSTOP); messages wait; clocks run"},
		{OpPauseSend, "process", "the same, at the moment when it is about to carry out its next effects"},
		{OpPauseWork, "process", "the same, between the check and the write of its work"},
		{OpSuspend, "process", "Node's machine sleeps For: the boot clock runs, the other does not"},
		{OpWipe, "process", "Node dies and starts, after For, with an empty disk: another directory"},
		{OpTwin, "process", "a second process with Node's id and a copy of its disk runs For; beyond the model: data directories are locked"},
		{OpRoll, "process", "every participant is restarted in turn, Every"},
		{OpWitness, "process", "Node dies, its keeper outlives it and says so to all"},
		{OpRate, "clock", "Node's clock is Value·10⁻⁶ fast from now on"},
		{OpStep, "clock", "Node's boot clock jumps by By, forwards or back, unless that could undo a jump nobody has noticed yet"},
		{OpStrobe, "clock", "it jumps by By to and fro, Every, For"},
		{OpReboot, "clock", "Node's machine restarts: power loss, and clocks begin at zero; down For"},
		{OpLoseWrites, "disk", "Node dies; what was not yet synced is lost, and a write in flight is torn; down For"},
		{OpFlip, "disk", "one bit of one slot of Node's disk turns; checksums find it at the next start"},
		{OpRestore, "disk", "Node dies and starts with its disk as it was By ago; beyond the model"},
		{OpEIO, "disk", "Node's writes fail For"},
		{OpFull, "disk", "Node's writes fail For, by ENOSPC"},
		{OpSlowSync, "disk", "Node's syncs take By longer, For"},
		{OpStoreDown, "store", "nobody (or not Node) reaches the store For"},
		{OpStoreSlow, "store", "requests take By longer, For"},
		{OpStoreUnknown, "store", "Value of the answers are lost For"},
		{OpStaleRead, "store", "Node sees the store as it was up to By ago where a read may lag, For"},
		{OpWatchLoss, "store", "events are lost For"},
		{OpWatchDouble, "store", "events come twice For"},
		{OpWatchClose, "store", "all watches (of Node) close"},
		{OpExpireEarly, "store", "Node's session expires now; beyond the model where exclusivity rests on its TTL"},
		{OpExpireLate, "store", "sessions live By longer than their TTL, For"},
		{OpFailover, "store", "the store loses the last Count acknowledged writes and has another incarnation; beyond the model"},
		{OpStoreElect, "store", "the store's leader changes: sessions are refreshed, watches close, nothing is lost"},
		{OpThrottle, "store", "Value of the requests are refused For"},
		{OpForeign, "store", "somebody deletes the record, or Node's entry; with Count, puts back the record of Count changes ago"},
		{OpResign, "operator", "Node is asked to resign"},
		{OpWithdraw, "operator", "Node stops being a candidate For"},
		{OpSicken, "operator", "Node is unhealthy For"},
		{OpConfirm, "operator", "Node's term is to be proven anew"},
	}
}

// Promise describes an invariant.
type Promise struct {
	Invariant Invariant `json:"invariant"`
	Says      string    `json:"says"`
}

// Promises lists the invariants, as is said at each of them.
func Promises() []Promise {
	return []Promise{
		{OneLeader, "no two participants are elected with one token, ever"},
		{Once, "nobody is active twice in one term"},
		{TokensRise, "of two active tenures, the later one has the greater token"},
		{OneVote, "one durable vote per term"},
		{VoteSaved, "it is durable before its answer leaves"},
		{Exclusive, "no two proven leases at one true instant"},
		{NoStale, "the guarded resource accepted nothing stale"},
		{NoneOffered, "nobody wrote with a stale token after a check that said yes, but for what was in flight"},
		{ToldInTime, "the work was told to stop before its lease ended"},
		{FIFO, "a queue's leaders come in the order of their entries"},
		{Orders, "Elected, Lead, Stop in this order, each once, tokens as announced"},
		{Live, "after the faults, one stable leader in time"},
		{NoPanic, "no machine panics"},
	}
}

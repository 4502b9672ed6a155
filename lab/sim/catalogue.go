package sim

//go:generate go test -run ^TestDocumentedCatalogue$ . -rewrite

// Fault describes a kind of operation.
type Fault struct {
	Kind  OpKind `json:"kind"`
	Group string `json:"group"` // what it affects: network, partition, process, clock, disk, store, operator
	Says  string `json:"says"`
	// Beyond says that it breaks an assumption of every protocol: it is drawn only with
	// Options.Beyond, and its run is excused for what it breaks. Other operations may break an
	// assumption of some protocols; see Protocol.Breaks.
	Beyond bool `json:"beyond"`
}

// beyond reports whether an operation is beyond any model: a disk or a store forgets what it has
// acknowledged as durable, a directory's lock does not hold, or a sender uses another's name.
func (k OpKind) beyond() bool {
	return k == OpTwin || k == OpImpostor || k == OpFlip || k == OpRestore || k == OpFailover || k == OpRollback
}

// Faults lists every kind of operation, described as at its OpKind.
func Faults() []Fault {
	all := []Fault{
		{Kind: OpLoss, Group: "network", Says: "the link loses Value of its messages, For"},
		{Kind: OpDelay, Group: "network", Says: "the link's messages take By longer, For"},
		{Kind: OpDuplicate, Group: "network", Says: "the link doubles Value of its messages, For"},
		{Kind: OpReorder, Group: "network", Says: "the link's messages overtake each other within By, For"},
		{Kind: OpReplay, Group: "network", Says: "Count old messages of the link arrive again, the youngest first"},
		{Kind: OpClog, Group: "network", Says: "the link holds all messages For, then lets them go at once"},
		{Kind: OpHalfOpen, Group: "network", Says: "the link loses everything For; no participant is told"},
		{Kind: OpReset, Group: "network", Says: "the connection between Node and Peer (or everybody) is reset: both are told, both live"},
		{Kind: OpDrop, Group: "network", Says: "the Count-th message of the link (from 1, over the whole run) is lost"},
		{Kind: OpIsolate, Group: "partition", Says: "Node from everybody"},
		{Kind: OpHalves, Group: "partition", Says: "Group from the others"},
		{Kind: OpThird, Group: "partition", Says: "Group is heard by none and hears none; the others are whole; Group is a third"},
		{Kind: OpBridge, Group: "partition", Says: "Group and the others see each other through Node only"},
		{Kind: OpMajorityRing, Group: "partition", Says: "each sees a majority, no two the same: its neighbours on the ring of all voters"},
		{Kind: OpChain, Group: "partition", Says: "each sees its neighbours on the line of Group only"},
		{Kind: OpOneWay, Group: "partition", Says: "Node is heard by none (Value 0) or hears none (Value 1)"},
		{Kind: OpSwizzle, Group: "partition", Says: "Group is isolated one after the other, Every, and healed in another order"},
		{Kind: OpFlap, Group: "partition", Says: "the link both ways is cut and healed, Every"},
		{Kind: OpKill, Group: "process", Says: "Node dies; its connections close; it stays down For, or until it is healed if 0"},
		{Kind: OpPowerLoss, Group: "process", Says: "Node dies, nothing is closed, unsynced writes may be lost; down For"},
		{Kind: OpCrashLoop, Group: "process", Says: "Node dies and starts, Every, For"},
		{Kind: OpPause, Group: "process", Says: "Node is frozen For (SIGSTOP); messages wait; clocks run"},
		{Kind: OpPauseSend, Group: "process", Says: "the same, at the moment when it is about to carry out its next effects"},
		{Kind: OpPauseWork, Group: "process", Says: "the same, between the check and the write of its work"},
		{Kind: OpSuspend, Group: "process", Says: "Node's machine sleeps For: the boot clock runs, the other does not"},
		{Kind: OpWipe, Group: "process", Says: "Node dies and starts, after For, with an empty disk: another directory"},
		{Kind: OpTwin, Group: "process", Says: "a second process with Node's id and a copy of its disk runs For; beyond the model: data directories are locked"},
		{Kind: OpRoll, Group: "process", Says: "every participant is restarted in turn, Every"},
		{Kind: OpImpostor, Group: "process", Says: "Node's messages arrive as if Peer had sent them, For, unless the protocol authenticates senders (Protocol.Authenticated), and refuses them; beyond the model"},
		{Kind: OpWitness, Group: "process", Says: "Node dies, its keeper outlives it and says so to all"},
		{Kind: OpRate, Group: "clock", Says: "Node's clock is Value·10⁻⁶ fast from now on"},
		{Kind: OpStep, Group: "clock", Says: "Node's boot clock jumps by By, forwards or back, unless that could undo a jump that was not noticed yet"},
		{Kind: OpStrobe, Group: "clock", Says: "it jumps by By to and fro, Every, For"},
		{Kind: OpReboot, Group: "clock", Says: "Node's machine restarts: power loss, and clocks begin at zero; down For"},
		{Kind: OpLoseWrites, Group: "disk", Says: "Node dies; what was not yet synced is lost, and a write in flight is torn; down For"},
		{Kind: OpFlip, Group: "disk", Says: "one bit of one slot of Node's disk turns; checksums find it at the next start; beyond the model: it may be the one that counts"},
		{Kind: OpRestore, Group: "disk", Says: "Node dies and starts with its disk as it was By ago; beyond the model"},
		{Kind: OpEIO, Group: "disk", Says: "Node's writes fail For"},
		{Kind: OpFull, Group: "disk", Says: "Node's writes fail For, by ENOSPC"},
		{Kind: OpSlowSync, Group: "disk", Says: "Node's syncs take By longer, For"},
		{Kind: OpStoreDown, Group: "store", Says: "no participant (or not Node) reaches the store For"},
		{Kind: OpStoreSlow, Group: "store", Says: "requests take By longer, For"},
		{Kind: OpStoreUnknown, Group: "store", Says: "Value of the answers are lost For"},
		{Kind: OpStaleRead, Group: "store", Says: "Node sees the store as it was up to By ago where a read may lag, For"},
		{Kind: OpWatchLoss, Group: "store", Says: "events are lost For"},
		{Kind: OpWatchDouble, Group: "store", Says: "events come twice For"},
		{Kind: OpWatchClose, Group: "store", Says: "all watches (of Node) close"},
		{Kind: OpExpireEarly, Group: "store", Says: "Node's session, or its record that would expire, ends now; beyond the model where exclusivity rests on its TTL"},
		{Kind: OpExpireLate, Group: "store", Says: "sessions live By longer than their TTL, For"},
		{Kind: OpFailover, Group: "store", Says: "the store loses the last Count acknowledged writes and has another incarnation; beyond the model"},
		{Kind: OpRollback, Group: "store", Says: "the store goes back by Count changes, does not say so, and gives their versions again; with Value 1 it has lost the record, and versions begin anew; beyond the model"},
		{Kind: OpStoreElect, Group: "store", Says: "the store's leader changes: sessions are refreshed, watches close, nothing is lost"},
		{Kind: OpStoreHang, Group: "store", Says: "etcd's leader hangs For and is replaced: it renews leases by its own count, at once or (Value 1) when it goes on, and then revokes what has run out there; a mended one does neither; beyond the model where exclusivity rests on the TTL alone"},
		{Kind: OpThrottle, Group: "store", Says: "Value of the requests are refused For"},
		{Kind: OpForeign, Group: "store", Says: "the record, or Node's entry, is deleted by hand; with Count, puts back the record of Count changes ago; beyond the model where exclusivity or the count rests on it"},
		{Kind: OpResign, Group: "operator", Says: "Node is asked to resign"},
		{Kind: OpWithdraw, Group: "operator", Says: "Node stops being a candidate For"},
		{Kind: OpSicken, Group: "operator", Says: "Node is unhealthy For"},
		{Kind: OpConfirm, Group: "operator", Says: "Node's term is to be proven anew"},
		{Kind: OpTransfer, Group: "operator", Says: "Node is asked to hand over to Peer, to the best successor if there is none"},
		{Kind: OpStandBack, Group: "operator", Says: "Node is paused by its operator For, restarts included: it votes, and does not stand"},
		{Kind: OpLocate, Group: "operator", Says: "Node's position is Count beyond that of all others; with 0 it stands still For"},
		{Kind: OpAdd, Group: "operator", Says: "Node is to become a voter; the leader is asked for the next step, Every, For"},
		{Kind: OpRemove, Group: "operator", Says: "Node is to be no voter and no observer any more; asked for likewise"},
		{Kind: OpReplace, Group: "operator", Says: "Node's new directory is to be a voter in the place of its old one, if its disk was wiped; asked for likewise"},
		{Kind: OpReconfigure, Group: "operator", Says: "the voters are to be Group; asked for likewise, and with Value 1 for all at once first"},
	}
	for i := range all {
		all[i].Beyond = all[i].Kind.beyond()
	}
	return all
}

// Promise describes an invariant.
type Promise struct {
	Invariant Invariant `json:"invariant"`
	Says      string    `json:"says"`
}

// Promises lists the invariants, described as at each of them.
func Promises() []Promise {
	return []Promise{
		{OneLeader, "no two participants are elected with one token, ever"},
		{Once, "no node is active twice in one term"},
		{TokensRise, "of two active tenures, the later one has the greater token"},
		{OneVote, "one durable vote per term"},
		{VoteSaved, "it is durable before its answer leaves"},
		{Exclusive, "no two proven leases at one true instant; where there are none, no two that are elected and run"},
		{NoStale, "the guarded resource accepted nothing stale"},
		{NoneOffered, "no write with a stale token after a check that said yes, except those in flight"},
		{ToldInTime, "the work was told to stop before its lease ended"},
		{FIFO, "a queue's leaders come in the order of their entries"},
		{Orders, "Elected, Lead, Stop in this order, each once, tokens as announced"},
		{Anchored, "no other has won, or wins later, a term above a leader's token and not above the term that it leads in with that token"},
		{ToldApart, "a participant that is connected with a process talks to no other with its id, unless that has a higher incarnation"},
		{Adjacent, "a membership's majorities share a voter with those of the one that it comes from, and of all others that may still elect"},
		{OneMembership, "a membership's term and version are one membership's, everywhere"},
		{DurableFirst, "a reconfiguration was durable before any participant used it or was told"},
		{VoterLeads, "an elected participant is a voter of its membership"},
		{NotBehind, "where positions are required, no voter votes for a candidate that is behind it"},
		{NeverLeads, "no participant is elected with the priority never, or when it knows that its operator has paused it"},
		{AboveSeen, "no participant is elected with a token that is not above the counts its process was shown, or leads on when it is shown an older renewal of its own"},
		{Live, "after the faults, one stable leader in time"},
		{NoPanic, "no machine panics"},
	}
}

// Package mutation switches on, in a real program, one of a few mistakes that chaos runs must catch. Only those tests
// build with the tag "mutants". In all other builds Is is the constant false, and the compiler removes the code that
// depends on it. The mistakes of machines are in internal/protocol/internal/mutant; those that a real program can
// have are named here too.
//
// With the tag, the environment variable ELECT_MUTANT of the process chooses the mistake; empty is none. Check
// returns an error for an unknown name, and a program that does not call Check has no mistake then. The functions may
// be called by any number of goroutines.
package mutation

// Env is the environment variable with the name.
const Env = "ELECT_MUTANT"

// The names.
const (
	LeaseFromAck  = "lease-from-ack"  // the lease counts from the arrival of the ack
	NoResidual    = "no-residual"     // a winner leads without waiting for promises to others
	VoteNotSynced = "vote-not-synced" // a save is answered before it is synced, and never synced
	StoppedClock  = "stopped-clock"   // CLOCK_BOOTTIME is CLOCK_MONOTONIC, which stands still while the machine sleeps
	LateKill      = "late-kill"       // the keeper begins to kill a second too late
)

// Names lists the names.
func Names() []string {
	return []string{LeaseFromAck, NoResidual, VoteNotSynced, StoppedClock, LateKill}
}

// The names of mistakes of a group's members and coordinator, which are those of their machines.
const (
	ReleaseBeforeJoin = "release-before-join" // a key is released when its work is told to stop
	ClaimFromAnswer   = "claim-from-answer"   // a member's claim counts from the arrival of the answer
	NoCover           = "no-cover"            // a coordinator takes all keys for free that nobody has reported
	WordAboutAMember  = "word-about-a-member" // a witness's word about a process ends all sessions of its member
)

// OfGroups lists the names of the mistakes of groups.
func OfGroups() []string {
	return []string{ReleaseBeforeJoin, ClaimFromAnswer, NoCover, WordAboutAMember}
}

// EarlyWord is a mistake of keepers: the witness speaks when the program is dead, before its family is.
const EarlyWord = "early-word"

// PostgresQuorum is a mistake of elect recipe postgres: a winner is promoted although one node fewer than necessary has
// answered, which with three nodes is its own alone.
const PostgresQuorum = "postgres-quorum"

// AddressKept is a mistake with virtual addresses: the keeper does not remove them.
const AddressKept = "address-kept"

// The names of mistakes in the runtime. Unit tests catch them.
const (
	SendAtOnce         = "send-at-once"
	SendAfterFailure   = "send-after-failed-save"
	AnySaveReleases    = "any-save-releases-all"
	EarlierForgotten   = "earlier-save-forgotten"
	QueueBehindSaves   = "queue-behind-saves"
	DurableAwaited     = "durable-save-awaited"
	OlderKept          = "older-waiting-kept"
	ViewAfterOrders    = "view-after-orders"
	ViewBeforeStop     = "view-before-stop"
	SendsBeforeOrders  = "sends-before-orders"
	ReadBeforeReceive  = "read-before-receive"
	ReadAfterSend      = "read-after-send"
	TimerBeforeMessage = "timer-before-message"
	BootNotAwaited     = "boot-save-not-awaited"
	FoundNotAwaited    = "founding-save-not-awaited"
	LapseNotFinal      = "lapse-not-final"
	NextLifesWill      = "testament-of-next-life"
)

// Driving is a mistake in the runtime.
type Driving struct {
	Name string
	Says string // its effect

	Package, Test string // the test that catches it
}

// OfDriving lists the mistakes in the runtime. The tests run in builds with the tag "mutants".
func OfDriving() []Driving {
	const (
		runtime               = "internal/runtime"
		saves, orders, clocks = "TestSendsAfterSaves", "TestOrdersBeforeSends", "TestClockIsReadBetween"
	)
	return []Driving{
		{SendAtOnce, "a message leaves before the save that it names", runtime, saves},
		{SendAfterFailure, "a message leaves although the save that it names has failed", runtime, saves},
		{AnySaveReleases, "a save that succeeds releases messages that name a later one, too", runtime, saves},
		{EarlierForgotten, "a save releases only the messages that name it, and not those that name one that it has replaced", runtime, saves},
		{QueueBehindSaves, "a message that names no save waits while another one does", runtime, saves},
		{DurableAwaited, "a message that names a save that is durable already waits for the next one", runtime, saves},
		{OlderKept, "a message that waits is kept when a newer one of its type to the same participant comes", runtime, "TestNewestWaits"},
		{ViewAfterOrders, "an order is told before the view that it rests on is published", runtime, "TestViewBeforeOrders"},
		{ViewBeforeStop, "the view of the end of a term is published before the work's context has ended", runtime, "TestViewBeforeOrders"},
		{SendsBeforeOrders, "messages leave before the work is told to stop", runtime, orders},
		{ReadBeforeReceive, "the clock is read before the message that the machine is handed has arrived", runtime, clocks},
		{ReadAfterSend, "the machine is told a time later than that at which its messages leave", runtime, clocks},
		{TimerBeforeMessage, "a timer that has come due is handed in before a message that has arrived", runtime, "TestMessagesBeforeTimer"},
		{BootNotAwaited, "a machine that restarts has booted before its new incarnation is durable", runtime, "TestBootSaveIsAwaited"},
		{FoundNotAwaited, "a machine that boots while turns are made has booted before its incarnation is durable", runtime, "TestFoundingSaveIsAwaited"},
		{LapseNotFinal, "a term that Check has found to be over is proven again by a late answer", runtime, "TestLapseIsFinal"},
		{NextLifesWill, "a testament names the life after the one that leads", "peer", "TestTestamentNamesThisLife"},
	}
}

// The names of mistakes of the recipe for Redis.
const (
	NoFence   = "redis-no-fence"
	OneEye    = "redis-one-eye"
	OwnLedger = "redis-own-ledger"
	OldOrders = "redis-old-orders"
)

// OfRedis lists the mistakes of the recipe for Redis. Tests run in builds with the tag "mutants"; test/chaos/redis
// catches the first of them at real servers, too.
func OfRedis() []Driving {
	const recipe = "cmd/elect/internal/recipe/redis"
	return []Driving{
		{NoFence, "a replica is promoted although an old master may still take writes", recipe, "TestSilentMasterIsOutlasted"},
		{OneEye, "one elector that finds the master down is enough", recipe, "TestQuorum"},
		{OwnLedger, "an acting elector believes its own disk, and asks no other elector", recipe, "TestDecisionIsLearnt"},
		{OldOrders, "the connections of older acting electors stay open", recipe, "TestOlderOrdersAreCutOff"},
	}
}

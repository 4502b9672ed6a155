package sim

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Protocol is an election protocol as the world runs it. To run a machine of your own, fill one in;
// see the package's examples.
type Protocol struct {
	// Name is the protocol's name in schedules and traces.
	Name string
	// New makes a participant's machine, for its first incarnation and for each later one. It is
	// called with the same Participant each time, except that a wiped disk has another Dir. An
	// error ends the run: the schedule is invalid.
	New func(Participant) (protocol.Machine, error)
	// Store is the kind of store that its machines ask; StoreNone if none.
	Store StoreKind
	// Vote returns the vote in a Save's Data, for the invariants on votes; nil if the protocol has
	// no durable votes.
	Vote func(data []byte) (Vote, error)
	// Grants reports whether a message grants a vote to its receiver, and in which term; nil as for
	// Vote.
	Grants func(*protocol.Message) (term uint64, ok bool)
	// Death is the message by which a keeper tells all others that an incarnation of a participant
	// and all its work are over; nil if the protocol has none.
	Death func(of protocol.Voter, incarnation uint64) protocol.Message
	// Incarnation is the boot counter in a Save's Data; needed with Death, and
	// for PeerClosed.
	Incarnation func(data []byte) (uint64, error)
	// Members is the membership in a Save's Data, for the invariants on memberships; nil if the
	// membership is fixed. Then there are no spares, and no operations that need them. Machines of
	// a protocol with Members implement [protocol.Reconfigurable].
	Members func(data []byte) (*protocol.Membership, error)
	// Draw draws the parts of the configuration that a schedule leaves to the seed, such as
	// priorities, for all that may ever vote; nil if there are none.
	Draw func(r *rand.Rand, ids []protocol.NodeID) json.RawMessage
	// Never reports whether a participant never leads, by its configuration; nil if there are none
	// such.
	Never func(config json.RawMessage, id protocol.NodeID) (bool, error)
	// Requires reports whether a voter must refuse a candidate that is behind it, and Compare
	// orders positions; both nil if positions never count. Then there are no positions, and no
	// operations on them.
	Requires func(config json.RawMessage) (bool, error)
	Compare  func(a, b string) int
	// Yields is the longest time after the beginning of its term after which a leader may hand over
	// without a command; nil if none does.
	Yields func(config json.RawMessage) (time.Duration, error)
	// Patience is the longest time, in a healthy world, from the loss of a leader to the next
	// proven one. The liveness phase waits for a few of it.
	Patience func(config json.RawMessage) (time.Duration, error)
	// Drift is the assumption on clocks that the configuration makes.
	Drift func(config json.RawMessage) (protocol.Drift, error)
	// Breaks lists the operations that break an assumption of this protocol with that
	// configuration, in addition to those that are beyond any model. Schedules have them only where
	// Options.Beyond allows it. nil is none.
	Breaks func(config json.RawMessage) ([]OpKind, error)
	// Leaseless says that its machines never prove a lease (they order no Lead): work begins at the
	// election, and the figures, Exclusive and the liveness phase count from there.
	Leaseless bool
	// Heartbeat reports whether a message is not part of an election: what a leader sends all the
	// time, and the answers to it. nil: every message is part of one.
	Heartbeat func(*protocol.Message) bool
	// Detects is the configuration in which a silent leader is noticed after about d, for
	// comparisons; nil if there is none such. The error says what d would be possible.
	Detects func(d time.Duration) (json.RawMessage, error)
	// Silence is the longest time after which a silent leader is given up, with that configuration,
	// on a perfect clock; nil if it is not known.
	Silence func(config json.RawMessage) (time.Duration, error)
	// Authenticated says that the runtime of these machines authenticates the senders of messages.
	Authenticated bool
	// Replaces reports whether a process takes the place of another one with its id at a peer that
	// is connected with that one, by their incarnations. Otherwise the peer refuses it; and from
	// then on the peer refuses the replaced one. nil if the runtime does not distinguish processes
	// with one id.
	Replaces func(next, present uint64) bool
	// Expect says what is expected of an invariant; the default is that it holds.
	Expect map[Invariant]Expectation
}

// Participant describes what a machine is made for.
type Participant struct {
	Self       protocol.Voter
	Index      int                  // n1 is 0
	Observer   bool                 // o1, o2, …
	Membership *protocol.Membership // of the founders; a spare's is the one that lists it
	Config     json.RawMessage      // the schedule's
	Work       Work
}

// Vote is the vote in a participant's durable state.
type Vote struct {
	Term uint64
	For  protocol.Voter
}

// StoreKind is a kind of simulated store.
type StoreKind string

// The kinds.
const (
	StoreNone      StoreKind = ""
	StoreRegister  StoreKind = "register"  // one record with compare-and-set
	StoreExpiring  StoreKind = "expiring"  // a register whose record ends when its Duration is over by the server's clock: a key of Redis
	StoreSession   StoreKind = "session"   // a register whose record ends with the connection of its writer: an advisory lock of PostgreSQL
	StoreEtcd      StoreKind = "etcd"      // leases, entries by create revision, transactions
	StoreZooKeeper StoreKind = "zookeeper" // sessions, ephemeral entries, followers that lag
)

// Invariant names a property that is checked after every event.
type Invariant string

// The invariants.
const (
	OneLeader   Invariant = "one-leader-per-term" // no two participants are elected with one token, ever
	Once        Invariant = "once"                // no node is active twice in one term
	TokensRise  Invariant = "tokens-rise"         // of two active tenures, the later one has the greater token
	OneVote     Invariant = "one-vote-per-term"   // one durable vote per term
	VoteSaved   Invariant = "vote-saved"          // it is durable before its answer leaves
	Exclusive   Invariant = "exclusive"           // no two proven leases at one true instant; where there are none, no two that are elected and run
	NoStale     Invariant = "no-stale-write"      // the guarded resource accepted nothing stale
	NoneOffered Invariant = "no-stale-offer"      // no write with a stale token after a check that said yes, except those in flight
	ToldInTime  Invariant = "told-in-time"        // the work was told to stop before its lease ended
	FIFO        Invariant = "first-in-first-out"  // a queue's leaders come in the order of their entries
	Orders      Invariant = "orders"              // Elected, Lead, Stop in this order, each once, tokens as announced
	Anchored    Invariant = "anchored"            // no other has won, or wins later, a term above a leader's token and not above the term that it leads in with that token
	ToldApart   Invariant = "told-apart"          // a participant that is connected with a process talks to no other with its id, unless that has a higher incarnation

	Adjacent      Invariant = "adjacent-overlap" // a membership's majorities share a voter with those of the one that it comes from, and of all others that may still elect
	OneMembership Invariant = "one-membership"   // a membership's term and version are one membership's, everywhere
	DurableFirst  Invariant = "durable-first"    // a reconfiguration was durable before any participant used it or was told
	VoterLeads    Invariant = "voter-leads"      // an elected participant is a voter of its membership
	NotBehind     Invariant = "not-behind"       // where positions are required, no voter votes for a candidate that is behind it
	NeverLeads    Invariant = "never-leads"      // no participant is elected with the priority never, or when it knows that its operator has paused it

	AboveSeen Invariant = "above-seen" // no participant is elected with a token that is not above the counts its process was shown, or leads on when it is shown an older renewal of its own

	Live    Invariant = "live"     // after the faults, one stable leader in time
	NoPanic Invariant = "no-panic" // no machine panics
)

// Expectation is what a protocol promises of an invariant.
type Expectation uint8

// The expectations.
const (
	MustHold Expectation = iota
	MayFail
	MustFail // it must be found failing, or the simulator has lost its teeth
)

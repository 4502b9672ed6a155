package sim

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Protocol is an election protocol as the world runs it. To put a machine of
// your own into the world, fill one in; see the package's examples.
type Protocol struct {
	// Name is what schedules and traces call it.
	Name string
	// New makes a participant's machine, for its first life and for each later
	// one. It is called with the same Participant each time, except that a wiped
	// disk has another Dir. An error ends the run: it is of the schedule.
	New func(Participant) (protocol.Machine, error)
	// Store is the kind of store that its machines ask; StoreNone if none.
	Store StoreKind
	// Vote tells what a Save's Data says of a vote, for the invariants on votes;
	// nil if the protocol has none that must be durable.
	Vote func(data []byte) (Vote, error)
	// Grants tells whether a message grants a vote, in which term and to whom
	// it is sent by the Send; nil as for Vote.
	Grants func(*protocol.Message) (term uint64, ok bool)
	// Death is the message by which a keeper tells everybody that a life of a
	// participant and all its work are over; nil if the protocol knows none.
	Death func(of protocol.Voter, incarnation uint64) protocol.Message
	// Incarnation is the boot counter in a Save's Data; needed with Death, and
	// for PeerClosed.
	Incarnation func(data []byte) (uint64, error)
	// Members is the membership in a Save's Data, for the invariants on memberships;
	// nil if who takes part is fixed. Then there are no spares, and no operations
	// that need them. Machines of a protocol that has it implement
	// [protocol.Reconfigurable].
	Members func(data []byte) (*protocol.Membership, error)
	// Draw draws what a schedule's configuration leaves to the seed, such as
	// priorities, for those who may ever vote; nil if there is nothing to draw.
	Draw func(r *rand.Rand, ids []protocol.NodeID) json.RawMessage
	// Never reports whether a participant never leads, by its configuration; nil if
	// there are none such.
	Never func(config json.RawMessage, id protocol.NodeID) (bool, error)
	// Requires reports whether nobody may be elected by one whose position it is
	// behind, and Compare orders positions; both nil if positions never count. Then
	// there are no positions, and no operations on them.
	Requires func(config json.RawMessage) (bool, error)
	Compare  func(a, b string) int
	// Yields is how long after its term began a leader may hand over by itself, at
	// the longest; nil if none ever does.
	Yields func(config json.RawMessage) (time.Duration, error)
	// Patience is how long, at the longest, a healthy world takes from the loss
	// of a leader to the next proven one. The liveness phase waits for a few of it.
	Patience func(config json.RawMessage) (time.Duration, error)
	// Drift is the assumption on clocks that the configuration makes.
	Drift func(config json.RawMessage) (protocol.Drift, error)
	// Breaks lists the operations that break an assumption which this protocol
	// makes with that configuration, beside those that are beyond any model.
	// Schedules have them only where Options.Beyond allows it. nil is none.
	Breaks func(config json.RawMessage) ([]OpKind, error)
	// Leaseless says that its machines never prove a lease (they order no Lead):
	// work begins when elected, and that is what the figures, Exclusive and the
	// liveness phase look at.
	Leaseless bool
	// Heartbeat reports whether a message is no part of an election: what a leader
	// says all the time, and the answers to it. nil: every message is part of one.
	Heartbeat func(*protocol.Message) bool
	// Detects is the configuration in which a leader that has fallen silent is noticed
	// after about d, for comparisons; nil if there is none such. An error says what
	// would be right.
	Detects func(d time.Duration) (json.RawMessage, error)
	// Silence is after how long a leader that says nothing is given up, at the longest,
	// with that configuration, on a perfect clock; nil if nothing is known of it.
	Silence func(config json.RawMessage) (time.Duration, error)
	// Authenticated says that whoever runs these machines knows who sent a message,
	// so that nobody can speak in another one's name.
	Authenticated bool
	// Replaces reports whether a process takes the place of another one with its id
	// at a peer that is connected with that one, by their incarnations. It is refused
	// there otherwise; and so is, from then on, the one that was replaced. nil if
	// whoever runs these machines does not tell processes with one id apart.
	Replaces func(next, present uint64) bool
	// Expect says what must hold; an invariant that is not in it must.
	Expect map[Invariant]Expectation
}

// Participant is what a machine is made for.
type Participant struct {
	Self       protocol.Voter
	Index      int                  // n1 is 0
	Observer   bool                 // o1, o2, …
	Membership *protocol.Membership // of the founders; a spare's is that by which it was called
	Config     json.RawMessage      // the schedule's
	Work       Work
}

// Vote is what a participant's durable state says of its vote.
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
	StoreEtcd      StoreKind = "etcd"      // leases, entries by create revision, transactions
	StoreZooKeeper StoreKind = "zookeeper" // sessions, ephemeral entries, followers that lag
)

// Invariant names a property that is checked after every event.
type Invariant string

// The invariants.
const (
	OneLeader   Invariant = "one-leader-per-term" // no two participants are elected with one token, ever
	Once        Invariant = "once"                // nobody is active twice in one term
	TokensRise  Invariant = "tokens-rise"         // of two active tenures, the later one has the greater token
	OneVote     Invariant = "one-vote-per-term"   // one durable vote per term
	VoteSaved   Invariant = "vote-saved"          // it is durable before its answer leaves
	Exclusive   Invariant = "exclusive"           // no two proven leases at one true instant; where there are none, no two elected who run
	NoStale     Invariant = "no-stale-write"      // the guarded resource accepted nothing stale
	NoneOffered Invariant = "no-stale-offer"      // nobody wrote with a stale token after a check that said yes, but for what was in flight
	ToldInTime  Invariant = "told-in-time"        // the work was told to stop before its lease ended
	FIFO        Invariant = "first-in-first-out"  // a queue's leaders come in the order of their entries
	Orders      Invariant = "orders"              // Elected, Lead, Stop in this order, each once, tokens as announced
	Anchored    Invariant = "anchored"            // nobody has won, or wins later, a term above a leader's token and not above the term that it leads in with that token
	ToldApart   Invariant = "told-apart"          // who is connected with a process talks to no other one with its id, unless that has a higher incarnation

	Adjacent      Invariant = "adjacent-overlap" // a membership's majorities share a voter with those of the one that it comes from, and of all others that may still elect
	OneMembership Invariant = "one-membership"   // a membership's term and version are one membership's, everywhere
	DurableFirst  Invariant = "durable-first"    // a reconfiguration was durable before anybody used it or was told
	VoterLeads    Invariant = "voter-leads"      // who is elected is a voter of the membership that it has
	NotBehind     Invariant = "not-behind"       // where positions are required, nobody gives its vote to one who is behind it
	NeverLeads    Invariant = "never-leads"      // nobody is elected whose priority is never, or who knows that its operator has paused it

	AboveSeen Invariant = "above-seen" // nobody is elected with a token that is not above the counts its process was shown, or leads on when it is shown an older renewal of its own

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

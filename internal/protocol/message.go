package protocol

import "time"

// MessageType names a kind of message, in the words of its protocol:
// "heartbeat", "pre-vote". Each protocol has constants for its own.
type MessageType string

// Message is what one participant sends to another. It is one flat struct for all protocols, so
// that a send allocates nothing and a transport needs one encoding. Each protocol documents which
// fields its messages use; the others are zero. What Membership, Ranking and Handover point to is
// immutable.
//
// The runtime, not the machine, ensures that a message comes from the sender that it names and
// belongs to this cluster and election.
type Message struct {
	Type MessageType `json:"type"`

	// The sender: its directory, its boot counter and its term.
	Dir         DirID       `json:"dir,omitzero"`
	Incarnation uint64      `json:"incarnation,omitzero"`
	Term        uint64      `json:"term,omitzero"`
	Membership  *Membership `json:"membership,omitzero"`

	// Echo is, in an answer, the incarnation of the participant that asked; in a witness's release,
	// the incarnation that is dead.
	Echo uint64 `json:"echo,omitzero"`
	// Round numbers elections, Seq heartbeats; both rise within an incarnation.
	Round uint64 `json:"round,omitzero"`
	Seq   uint64 `json:"seq,omitzero"`

	// Promise is how long the receiver is asked to promise, or has promised.
	Promise time.Duration `json:"promise,omitzero"`
	// Residual is how long the sender is still promised to others.
	Residual time.Duration `json:"residual,omitzero"`
	// PrevTerm is the voter's term before this vote.
	PrevTerm uint64 `json:"prev_term,omitzero"`
	// RetryAfter is the time until a refusal may become a grant.
	RetryAfter time.Duration `json:"retry_after,omitzero"`

	// Clock is the time on the sender's clock since the sender booted, or since that clock jumped;
	// Jumps counts its jumps. Two Clocks with equal Jumps give the rate of the clock.
	Clock time.Duration `json:"clock,omitzero"`
	Jumps uint64        `json:"jumps,omitzero"`

	Granted   bool   `json:"granted,omitzero"`
	Unhealthy bool   `json:"unhealthy,omitzero"`
	Reason    Reason `json:"reason,omitzero"`
	// Priority is the sender's priority, NeverLead if it never leads; 0 is unknown. Position is the
	// sender's position in what the leader's work writes.
	Priority int    `json:"priority,omitzero"`
	Position string `json:"position,omitzero"`
	// Held is the newest membership that is durable on the sender.
	Held ConfigID `json:"held,omitzero"`
	// Handover states that a leader's work is over, and names its successor.
	Handover *Handover `json:"handover,omitempty"`

	Leader Leadership `json:"leader,omitzero"`
	// Ranking is the order in which successors stand.
	Ranking []NodeID `json:"ranking,omitzero"`
	// Metadata is the leader's, such as its address; it is UTF-8.
	Metadata string `json:"metadata,omitzero"`
	// Body holds protocol-specific data, in an encoding that is valid UTF-8.
	Body string `json:"body,omitzero"`
}

// Bounds that all protocols have.
const (
	// MaxCount is the greatest count of a token, and so the greatest term, epoch and order of an entry.
	MaxCount = 1<<48 - 1
	// MaxPosition is the greatest length of a position, in bytes.
	MaxPosition = 256
	// DefaultPriority is the priority of a participant whose configuration has none.
	DefaultPriority = 100
	// MaxPriority is the greatest.
	MaxPriority = 1000
	// NeverLead is the priority of a participant that votes and never leads.
	NeverLead = -1
)

// WitnessRelease is the type of the message of a witness. The work of all that the sender with Dir
// started in the incarnation Echo, and in those before it, is over for ever. A keeper sends it on
// behalf of that node. A keeper knows of earlier incarnations if its own has led, because that
// waited for theirs, or if an incarnation cannot begin before the work of those before it has
// ended. A keeper that knows of its own incarnation only must not send it.
const WitnessRelease MessageType = "witness-release"

// Handover is the token of a transfer: all that Leader did in Term, and before it in the same
// incarnation, is over, and its last heartbeat was Seq. Target is the successor.
type Handover struct {
	Leader      Voter  `json:"leader"`
	Incarnation uint64 `json:"incarnation"`
	Term        uint64 `json:"term"`
	Seq         uint64 `json:"seq"`
	Target      NodeID `json:"target"`
}

// Leadership identifies a known leader. The zero Leadership is none.
type Leadership struct {
	ID          NodeID `json:"id,omitzero"`
	Incarnation uint64 `json:"incarnation,omitzero"`
	Term        uint64 `json:"term,omitzero"`
}

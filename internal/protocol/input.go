package protocol

// InputKind says which field of an [Input] counts.
type InputKind uint8

// The inputs.
const (
	_ InputKind = iota
	// Boot is the first input of an incarnation: the process has started. Durable is the Data of
	// the last Save that became durable, nil if there never was one.
	Boot
	// Receive: Message has arrived from From, whose identity is authenticated. Messages may be
	// lost, doubled, late and out of order.
	Receive
	// Fire: NextFire has come. An early or unneeded Fire does no harm.
	Fire
	// Saved: the Save with that Number is durable, unless Failed, and with it every Save of a
	// smaller number. After a failure the driver keeps the last Data and tries again when the
	// machine saves next.
	Saved
	// Replied: Answer is a store's answer to an Ask. Each Ask but a watch gets exactly one; without
	// an answer in time it gets StatusUnknown.
	Replied
	// PeerClosed: the other side closed or reset the last connection with From's Incarnation. It is
	// a hint: it does not prove that From is dead.
	PeerClosed
	// Do: a Command of an operator, of the participating program, or of the runtime.
	Do
)

var inputNames = [...]string{Boot: "boot", Receive: "receive", Fire: "fire", Saved: "saved", Replied: "replied", PeerClosed: "peer-closed", Do: "do"}

// Input is one event for a machine. A driver reuses one; a machine keeps no reference to it.
type Input struct {
	Kind InputKind `json:"kind"`
	// Now is what the participant's clocks show: after the receipt of what this input reports, and
	// before anything that results from it is sent.
	Now Reading `json:"now"`
	// Rand is 64 random bits, fresh with each input.
	Rand uint64 `json:"rand,omitzero"`

	From        NodeID  `json:"from,omitzero"`        // Receive, PeerClosed
	Incarnation uint64  `json:"incarnation,omitzero"` // PeerClosed
	Message     Message `json:"message,omitzero"`     // Receive
	Number      uint64  `json:"number,omitzero"`      // Saved
	Failed      bool    `json:"failed,omitzero"`      // Saved
	Answer      Answer  `json:"answer,omitzero"`      // Replied
	Durable     []byte  `json:"durable,omitzero"`     // Boot
	Command     Command `json:"command,omitzero"`     // Do
}

// Verb is what a [Command] asks for.
type Verb uint8

// The commands. A machine ignores a command that it does not support.
const (
	_ Verb = iota
	// Campaign: take part as a candidate from now on.
	Campaign
	// Withdraw: stop being a candidate; resign a present term.
	Withdraw
	// Resign: give up a present term, and go on as a candidate.
	Resign
	// Joined: the work of the term with Token has returned. It follows every Stop, at once if there
	// was no work.
	Joined
	// Sicken and Recover: the participant's health, as its owner reports it.
	Sicken
	Recover
	// Confirm: prove the term again by a round trip; see View.Confirmed.
	Confirm
	// Transfer: give up a present term in favour of Target, or of the best successor if Target is
	// empty.
	Transfer
	// Pause: do not stand, and give up a present term, until Resume. It is the operator's command;
	// Sicken is the owner's.
	Pause
	Resume
	// Reconfigure: make Membership that of the election, with a version and a term that the machine
	// assigns. A machine that cannot do so safely now ignores it; see quorum.Machine.Objection.
	Reconfigure
	// Locate: the participant's position in what the leader's work writes, such as a log, is now
	// Position.
	Locate
)

var verbNames = [...]string{Campaign: "campaign", Withdraw: "withdraw", Resign: "resign", Joined: "joined", Sicken: "sicken", Recover: "recover", Confirm: "confirm",
	Transfer: "transfer", Pause: "pause", Resume: "resume", Reconfigure: "reconfigure", Locate: "locate"}

// Command is a request to a participant.
type Command struct {
	Verb  Verb   `json:"verb"`
	Token uint64 `json:"token,omitzero"` // Joined: the term's
	// Metadata, with Campaign, replaces what others are told about this participant when it leads,
	// unless it is empty. It is UTF-8.
	Metadata string `json:"metadata,omitzero"`
	// Priority, with Campaign, replaces the participant's priority, unless it is 0. It may be
	// NeverLead.
	Priority int `json:"priority,omitzero"`

	Target     NodeID      `json:"target,omitzero"`     // Transfer
	Membership *Membership `json:"membership,omitzero"` // Reconfigure; it is immutable
	Position   string      `json:"position,omitzero"`   // Locate; it is UTF-8
}

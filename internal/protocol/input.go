package protocol

// InputKind says which field of an [Input] counts.
type InputKind uint8

// The inputs.
const (
	_ InputKind = iota
	// Boot is the first input of a machine's life: the process has started.
	// Durable is the Data of the last Save that became durable, nil if there
	// never was one.
	Boot
	// Receive: Message has arrived From a participant, who is known to have
	// sent it. Messages may be lost, doubled, late and out of order.
	Receive
	// Fire: NextFire has come. An early or a needless Fire does no harm.
	Fire
	// Saved: the Save with that Number is durable, unless Failed, and with it
	// every Save of a smaller number. After a failure the driver keeps the
	// last Data and tries again when the machine saves next.
	Saved
	// Replied: Answer is a store's answer to an Ask. Each Ask but a watch gets
	// exactly one; one whose answer does not come in time gets StatusUnknown.
	Replied
	// PeerClosed: the last connection with From's Incarnation was closed or
	// reset by its side. It is a hint: it does not prove that From is dead.
	PeerClosed
	// Do: the Command of an operator, of the program that takes part, or of
	// the runtime.
	Do
)

var inputNames = [...]string{Boot: "boot", Receive: "receive", Fire: "fire", Saved: "saved", Replied: "replied", PeerClosed: "peer-closed", Do: "do"}

// Input is one thing that happens to a machine. A driver reuses one; a machine
// keeps no reference to it.
type Input struct {
	Kind InputKind `json:"kind"`
	// Now is what the participant's clocks show: after the receipt of what is
	// told, and before anything that comes of it is sent.
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

// The commands. A machine that has no use for one ignores it.
const (
	_ Verb = iota
	// Campaign: take part as a candidate from now on.
	Campaign
	// Withdraw: stop being a candidate; a term that is had is resigned.
	Withdraw
	// Resign: give the term up that is had, and go on as a candidate.
	Resign
	// Joined: the work of the term with Token has returned. It follows every
	// Stop, at once if there was no work.
	Joined
	// Sicken and Recover: the participant's health, as its owner sees it.
	Sicken
	Recover
	// Confirm: prove the term anew by a round trip; see View.Confirmed.
	Confirm
	// Transfer: give the term up that is had, in favour of Target; of the best
	// successor if it is empty.
	Transfer
	// Pause: do not stand, and give up a term that is had, until Resume. It is
	// the operator's, as Sicken is the owner's.
	Pause
	Resume
	// Reconfigure: make Membership that of the election, with a version and a
	// term that the machine gives it. A machine that cannot do so safely now
	// ignores it; see quorum.Machine.Objection.
	Reconfigure
	// Locate: the participant's position in what the leader's work writes, such
	// as a log, is Position now.
	Locate
)

var verbNames = [...]string{Campaign: "campaign", Withdraw: "withdraw", Resign: "resign", Joined: "joined", Sicken: "sicken", Recover: "recover", Confirm: "confirm",
	Transfer: "transfer", Pause: "pause", Resume: "resume", Reconfigure: "reconfigure", Locate: "locate"}

// Command is what somebody asks of a participant.
type Command struct {
	Verb  Verb   `json:"verb"`
	Token uint64 `json:"token,omitzero"` // Joined: of which term
	// Metadata, with Campaign, replaces what others may know of this participant
	// when it leads, if it is not empty. It is UTF-8.
	Metadata string `json:"metadata,omitzero"`
	// Priority, with Campaign, replaces how gladly this participant leads, if it
	// is not 0; NeverLead is one.
	Priority int `json:"priority,omitzero"`

	Target     NodeID      `json:"target,omitzero"`     // Transfer
	Membership *Membership `json:"membership,omitzero"` // Reconfigure; it is immutable
	Position   string      `json:"position,omitzero"`   // Locate; it is UTF-8
}

package protocol

// Effects is what a driver has to do after a Step, in this order: carry out the Orders, begin the
// Saves, send each message whose save is durable, submit the Asks; then arrange for a Fire at the
// machine's NextFire. A driver that dies in between has done a prefix of this; machines allow for
// that.
//
// A driver reuses one Effects and calls Reset before each Step. Its contents are valid until then.
type Effects struct {
	Orders []Order `json:"orders,omitempty"`
	Saves  []Save  `json:"saves,omitempty"`
	Sends  []Send  `json:"sends,omitempty"`
	Asks   []Ask   `json:"asks,omitempty"`

	data []byte // what the Saves of this step point into
}

// Reset empties the effects and keeps their memory.
func (fx *Effects) Reset() {
	fx.Orders, fx.Saves, fx.Sends, fx.Asks, fx.data = fx.Orders[:0], fx.Saves[:0], fx.Sends[:0], fx.Asks[:0], fx.data[:0]
}

// Save appends a Save. encode appends the data to what it is given and returns
// the result, as AppendState does.
func (fx *Effects) Save(number uint64, encode func(dst []byte) []byte) {
	start := len(fx.data)
	fx.data = encode(fx.data)
	fx.Saves = append(fx.Saves, Save{Number: number, Data: fx.data[start:len(fx.data):len(fx.data)]})
}

// OrderKind is what an [Order] tells the work.
type OrderKind uint8

// The orders.
const (
	_ OrderKind = iota
	// Elected: this participant has won. Work whose every effect is fenced by Token may begin; work
	// that must be exclusive may not.
	Elected
	// Lead: the lease is proven. Exclusive work may begin once View.Proven confirms it for a
	// reading taken then. It follows an Elected with the same Token, possibly in the same step.
	Lead
	// Stop: the term with Token has ended. The work's context must have ended before any other
	// effect of this step is carried out, because what this step sends may let another participant
	// lead. When the work has returned, the driver gives the command Joined. Every Elected is
	// followed by exactly one Stop, unless the process dies.
	Stop
	// CatchUp: a quorum would elect this participant if its position were not behind that of From,
	// which is Position. It is ordered once for each election that refused it. The answer is a
	// Locate.
	CatchUp
)

var orderNames = [...]string{Elected: "elected", Lead: "lead", Stop: "stop", CatchUp: "catch-up"}

// Order tells the work of this participant about its leadership.
type Order struct {
	Kind   OrderKind `json:"kind"`
	Token  uint64    `json:"token"` // the token's count
	Reason Reason    `json:"reason,omitzero"`

	From     NodeID `json:"from,omitzero"`     // CatchUp
	Position string `json:"position,omitzero"` // CatchUp
}

// Save is durable state to be written. Data replaces all that was saved before; an interrupted
// write must leave the old or the new data whole (two slots with checksums). Numbers rise from 1
// within an incarnation. The driver may skip a Save that a later one replaces. It answers each
// write with Saved.
type Save struct {
	Number uint64 `json:"number"`
	Data   []byte `json:"data"`
}

// Send is a message for another participant.
type Send struct {
	To NodeID `json:"to"`
	// After is the Save that must be durable before the message leaves; 0 is none. A waiting
	// message is dropped when the process dies or the save fails, and may be dropped when a newer
	// one of its type to the same participant waits. A message with After 0 must not wait for the
	// disk.
	After   uint64  `json:"after,omitzero"`
	Message Message `json:"message"`
	// Leads: with this message its sender tells of its leadership. The driver may
	// add what it knows of that. It is not in traces, as it follows from the rest.
	Leads bool `json:"-"`
}

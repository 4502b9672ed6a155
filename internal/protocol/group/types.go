package group

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Key names what is led: a shard, a tenant, an election. Package driver's CheckName says which keys are valid; the
// machines do not look inside.
type Key string

// MaxState is the greatest size of the state that the holder of a key hands over to the next one, in bytes.
const MaxState = 1 << 20

// Session is one unbroken claim of one process. A session that is over never comes back: the same process goes on
// with the next epoch.
type Session struct {
	Member  protocol.NodeID `json:"member"`
	Process protocol.Nonce  `json:"process"` // drawn when the process started
	Epoch   uint64          `json:"epoch"`   // from 1
}

// Compare orders sessions by member, process and epoch.
func (s Session) Compare(o Session) int {
	return cmp.Or(s.Member.Compare(o.Member), cmp.Compare(s.Process[0], o.Process[0]), cmp.Compare(s.Process[1], o.Process[1]),
		cmp.Compare(s.Epoch, o.Epoch))
}

// String returns the member, the first digits of the process, and the epoch.
func (s Session) String() string {
	if s == (Session{}) {
		return "nobody"
	}
	return fmt.Sprintf("%s/%04x.%d", s.Member, s.Process[0]>>48, s.Epoch)
}

// Token orders the holders of one key: the count of the coordinator's token, then the number of the assignment of that
// key in that tenure, from 1. The zero Token is none.
type Token struct {
	Tenure uint64 `json:"t"`
	N      uint64 `json:"n"`
}

// Compare orders by tenure, then by number.
func (t Token) Compare(o Token) int {
	return cmp.Or(cmp.Compare(t.Tenure, o.Tenure), cmp.Compare(t.N, o.N))
}

// String returns T.n, such as 7.3.
func (t Token) String() string { return fmt.Sprintf("%d.%d", t.Tenure, t.N) }

// Held is a key under a token.
type Held struct {
	Key   Key   `json:"key"`
	Token Token `json:"token"`
	// State is what the last holder hands over to the next one, in Released and Assign: at most MaxState bytes. It is
	// lost with the coordinator, and with the holder. It is immutable.
	State []byte `json:"state,omitempty"`
}

// Want is a member's candidacy for a key.
type Want struct {
	Key      Key `json:"key"`
	Priority int `json:"priority,omitzero"` // as driver.Candidacy has it; 0 is the default
}

// Registry is a numbered version of the set of a coordinator's sessions. It is immutable once in use.
type Registry struct {
	Tenure   uint64    `json:"tenure"`
	Version  uint64    `json:"version"`  // rises within the tenure
	Sessions []Session `json:"sessions"` // in the order of Compare
}

// Traits are what placement knows of a member, beside its keys.
type Traits struct {
	Weight   int    `json:"weight,omitzero"`   // its share of the keys in proportion to the others'; 0 is 100
	Zone     string `json:"zone,omitzero"`     // where it runs
	Draining bool   `json:"draining,omitzero"` // it is to be emptied
	// Back is how long it will be away after its goodbye, to come back under the same id. See Coordinator.Away.
	Back time.Duration `json:"back,omitzero"`
}

// Settings are a group's, equal at all participants but while they are rolled out: a longer promise first as Cover
// everywhere, then as Promise.
type Settings struct {
	Promise time.Duration  `json:"promise"` // D_V
	Cover   time.Duration  `json:"cover"`   // W; not less than Promise
	Poll    time.Duration  `json:"poll"`    // the interval of a member's polls
	Drain   time.Duration  `json:"drain"`   // a member stops its work that long before its claim ends
	Drift   protocol.Drift `json:"drift"`
	// Vouchers is how many sessions vouch for the registry (G10); 0 is all of them.
	Vouchers int `json:"vouchers,omitzero"`
	// Bits is how many bits of a token's count N has: 16, or 8 where E's counts are revisions.
	Bits uint `json:"bits"`
}

// Conn is the driver's number of a connection between one member and one coordinator. It is never used twice. What is
// sent on one connection arrives in order, or not at all; polls and answers may overtake other messages.
type Conn uint64

// MessageType names a kind of message.
type MessageType string

// The messages. In brackets: the fields of a [Message] that count.
const (
	// Greet is the coordinator's first on a connection [Tenure, Promise: its W].
	Greet MessageType = "greet"
	// Refuse is its last on one that it does not take [Tenure, Text, Misfit].
	Refuse MessageType = "refuse"

	// Report is a member's first, composed after the Greet, and its first poll [Session, Number, Tenure, Seq, Admitted,
	// Promise: its D_V, Cover: its W, 0: it never coordinates, Registry: vouched if not nil, Held, Overruns, Wants: all, Traits, Members].
	Report MessageType = "report"
	// Poll renews [Number, Tenure, Seq, Acked, Admitted].
	Poll MessageType = "poll"
	// Released answers an Assign that came too late, or a Revoke, or gives a key up; the work was joined [Number, Held].
	Released MessageType = "released"
	// Ended says that overruns have ended [Number, Held].
	Ended MessageType = "ended"
	// Wish changes what the member wants [Number, Wants, Unwants].
	Wish MessageType = "wish"
	// Tell changes the member's Traits [Number, Traits].
	Tell MessageType = "tell"
	// Goodbye ends the session: all its work was joined [Session, Number, Traits].
	Goodbye MessageType = "goodbye"

	// Answer answers a Report or a Poll [Tenure, Number, Seq, Promise: D_V, Members].
	Answer MessageType = "answer"
	// Assign gives keys [Tenure, Number, Held].
	Assign MessageType = "assign"
	// Revoke takes keys back [Tenure, Number, Held].
	Revoke MessageType = "revoke"
	// Enrol tells a voucher a version of the registry, which it keeps and then acknowledges [Tenure, Number, Registry].
	Enrol MessageType = "enrol"
	// Admit admits the session, with the registry of now if it is a voucher [Tenure, Number, Registry].
	Admit MessageType = "admit"
	// Over tells a member that its session is over for the coordinator [Tenure, Number, Session].
	Over MessageType = "over"
)

// Message is what a member and a coordinator send to each other. Slices are immutable.
type Message struct {
	Type     MessageType   `json:"type"`
	Session  Session       `json:"session,omitzero"`
	Number   uint64        `json:"number,omitzero"` // of the attachment: the report's
	Tenure   uint64        `json:"tenure,omitzero"` // T
	Seq      uint64        `json:"seq,omitzero"`    // of polls; rises within a session
	Acked    uint64        `json:"acked,omitzero"`  // the version of the registry of this Tenure that is kept
	Admitted bool          `json:"admitted,omitzero"`
	Promise  time.Duration `json:"promise,omitzero"`
	Cover    time.Duration `json:"cover,omitzero"`
	Registry *Registry     `json:"registry,omitempty"`
	Held     []Held        `json:"held,omitempty"`
	Overruns []Held        `json:"overruns,omitempty"`
	Wants    []Want        `json:"wants,omitempty"`
	Unwants  []Key         `json:"unwants,omitempty"`
	Traits   Traits        `json:"traits,omitzero"`
	// Members is how many members the coordinator knows of, or the last one that answered did (G13).
	Members uint64 `json:"members,omitzero"`
	Text    string `json:"text,omitzero"`
	Misfit  bool   `json:"misfit,omitzero"` // what is refused is the member's settings (G14)
}

// InputKind says which fields of an [Input] count.
type InputKind uint8

// The inputs.
const (
	_ InputKind = iota
	// Receive: Message has arrived on Conn. For a coordinator, From is the authenticated member.
	Receive
	// Closed: Conn is closed. It proves nothing.
	Closed
	// Fire: NextFire has come.
	Fire

	// Begin is a coordinator's first input: the tenure with Tenure was proven, and Now read after that. Tenure is the
	// whole token, in which the count has the lower 48 bits. Cover is that of this process's Member.
	Begin
	// Opened: a member has connected on Conn, From.
	Opened
	// Dead: a witness says that Session's Process, of Session's Member, which it is authenticated as, is dead with all
	// its work.
	Dead
	// Moves: what placement wants. A move that does not fit the state any more is dropped.
	Moves
	// Resign: give the tenure up in good order, after the vouchers had a round trip.
	Resign

	// Start is a member's first input: Session has the Member and the Process; Epoch does not count.
	Start
	// Choose changes what it wants and its Traits: Wants are added or replaced, Unwants removed.
	Choose
	// Returned: the work of Held's keys, under Held's tokens, has returned. It follows every Stop of [Effects], and
	// may come without one: the work gives its key up.
	Returned
	// Leave: give all up, say goodbye, and attach no more.
	Leave
	// Led: E was observed. Tenure leads it, of Session's Process, which shows its W as Cover, 0 if not, and the Cover of
	// its process's Member as Wait, if that is longer. Tenure 0: nobody does.
	Led
	// Unseen: E cannot be observed now.
	Unseen
)

// Input is one event for a machine, which keeps no reference to it, but may keep the slices of its Message.
type Input struct {
	Kind InputKind `json:"kind"`
	// Now is read after the arrival of what is reported and before anything that results is sent.
	Now  protocol.Reading `json:"now"`
	Rand uint64           `json:"rand,omitzero"`
	// Proven, for a coordinator: E's Check returned nil, called after Now was read.
	Proven bool `json:"proven,omitzero"`

	Conn    Conn            `json:"conn,omitzero"`
	From    protocol.NodeID `json:"from,omitzero"`
	Message Message         `json:"message,omitzero"`
	Tenure  uint64          `json:"tenure,omitzero"`
	Cover   time.Duration   `json:"cover,omitzero"`
	Wait    time.Duration   `json:"wait,omitzero"`
	Session Session         `json:"session,omitzero"`
	Moves   []Move          `json:"moves,omitempty"`
	Wants   []Want          `json:"wants,omitempty"`
	Unwants []Key           `json:"unwants,omitempty"`
	Traits  *Traits         `json:"traits,omitempty"`
	Held    []Held          `json:"held,omitempty"`
}

// Move is a wish of placement: that Key be held by To. From is the session that held it when the move was computed,
// the zero Session if nobody did.
type Move struct {
	Key  Key     `json:"key"`
	From Session `json:"from,omitzero"`
	To   Session `json:"to"`
}

// Effects is what a driver does after a Step, in this order: it ends the contexts of the work in Stops, publishes the
// machine's View, sends the Sends, begins the Starts, closes the Closes; then it arranges for a Fire at NextFire. A
// driver reuses one Effects and calls Reset before each Step.
type Effects struct {
	Stops  []Stop `json:"stops,omitempty"`
	Sends  []Send `json:"sends,omitempty"`
	Starts []Held `json:"starts,omitempty"`
	Closes []Conn `json:"closes,omitempty"`

	// Changes are a coordinator's keys whose holder has changed, and those for which a Move was dropped, as they are now.
	Changes []Change `json:"changes,omitempty"`
	// Wanted are keys that another set of sessions wants, or with another priority; the end of a session is not in it.
	Wanted []Key `json:"wanted,omitempty"`
	// Members: sessions have begun, ended, been admitted, attached, detached, or changed their Traits.
	Members bool `json:"members,omitzero"`
	// Resign, of a coordinator: the tenure is to be released. It decides nothing any more. Aside: its participant does
	// not stand again for a while.
	Resign bool          `json:"resign,omitzero"`
	Aside  time.Duration `json:"aside,omitzero"`
	Reason string        `json:"reason,omitzero"`
}

// keptEffects is how many of one kind an Effects keeps the memory for.
const keptEffects = 1024

// Reset empties the effects and keeps their memory, unless there were many.
func (fx *Effects) Reset() {
	if max(cap(fx.Stops), cap(fx.Starts), cap(fx.Changes), cap(fx.Wanted)) > keptEffects {
		*fx = Effects{}
		return
	}
	*fx = Effects{
		Stops: fx.Stops[:0], Sends: fx.Sends[:0], Starts: fx.Starts[:0], Closes: fx.Closes[:0], Changes: fx.Changes[:0], Wanted: fx.Wanted[:0],
	}
}

// Stop tells the work of a key to end. When it has returned the driver says Returned.
type Stop struct {
	Held
	Reason protocol.Reason `json:"reason"`
}

// Send is a message on a connection.
type Send struct {
	Conn    Conn    `json:"conn"`
	Message Message `json:"message"`
}

// Change is a key whose holder has changed: the zero Session if nobody holds it.
type Change struct {
	Key     Key     `json:"key"`
	Session Session `json:"session,omitzero"`
	Token   Token   `json:"token,omitzero"`
}

// View is what a member's work and its observers see. The driver keeps one object for each epoch, whose Claim is never
// extended after the epoch's end.
type View struct {
	Session Session `json:"session"`
	// Claim is until when the session's keys are proven, and Read the reading whose offset it depends on.
	Claim    protocol.Instant `json:"claim"`
	Read     protocol.Reading `json:"read"`
	Tenure   uint64           `json:"tenure,omitzero"` // of the coordinator that it is attached to; 0: none
	Admitted bool             `json:"admitted,omitzero"`
}

// Proven reports whether the session's keys that are not stopping are proven at a reading taken now.
func (v *View) Proven(now protocol.Reading) bool {
	return now.Boot < v.Claim && !now.Jumped(v.Read)
}

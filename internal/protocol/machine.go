package protocol

// Machine is an election protocol as one participant sees it: a pure function
// of its inputs. It is owned by one goroutine.
type Machine interface {
	// Step takes one input and appends its effects to fx. The first input is a Boot; there is no
	// second Boot.
	Step(in *Input, fx *Effects)
	// NextFire is when Step has to be called with a Fire, on the participant's Boot clock, or
	// Never. The driver asks again after each Step. It hands in what has arrived before a Fire that
	// is due.
	NextFire() Instant
	// View is the observable state.
	View() View
	// AppendState appends all that determines the machine's behaviour, in one canonical encoding:
	// machines with equal bytes behave equally. It is for snapshots, hashes and the checker, and is
	// stable within one build only.
	AppendState(dst []byte) []byte
	// LoadState sets the machine to the state that AppendState wrote. The machine must have been
	// made with the same configuration. After an error its state is undefined.
	LoadState(src []byte) error
}

// Reconfigurable is implemented by machines whose membership can be changed.
type Reconfigurable interface {
	// Membership is the newest membership that this participant knows. Settled reports, in a
	// leader, that a majority has it durably in this term.
	Membership() (ms *Membership, settled bool)
	// Objection returns the reason why a Reconfigure with the voters, observers and addresses of
	// next would be ignored now; nil if it would be carried out.
	Objection(next *Membership) error
	// Members appends what a leader knows of each other voter, in the order of the membership.
	Members(dst []Member) []Member
}

// Member is what a leader knows of a voter.
type Member struct {
	Voter
	Answered Instant `json:"answered"` // the latest send that it answered; Always if none
	// Idle: it would not stand, because it is no candidate, unhealthy or paused.
	Idle     bool   `json:"idle,omitzero"`
	Priority int    `json:"priority,omitzero"`
	Position string `json:"position,omitzero"`
	// Behind: its position is behind the leader's.
	Behind bool     `json:"behind,omitzero"`
	Held   ConfigID `json:"held"` // the newest membership that is durable on it
	// Rate is the rate of its clock measured by the leader's; Apart: the rate is outside of what
	// Drift allows, so the voter does not count.
	Rate  Rate `json:"rate,omitzero"`
	Apart bool `json:"apart,omitzero"`
}

// Role is what a participant is at the moment.
type Role uint8

// The roles. No protocol needs all of them.
const (
	_ Role = iota
	// Down: not booted yet.
	Down
	// Observer: it follows and never counts.
	Observer
	// Follower: it follows, or waits.
	Follower
	// PreCandidate: it asks whether it could win.
	PreCandidate
	// Candidate: it stands for election, or has sent a request to a store.
	Candidate
	// Leader: it is elected. View.Active says whether the lease is proven.
	Leader
	// Fencing: its term has ended and its work has not returned yet.
	Fencing
	// Releasing: its work has returned, and the release is on its way to the store.
	Releasing
	// Halted: it cannot go on; View.Fault says why.
	Halted
)

var roleNames = [...]string{
	Down: "down", Observer: "observer", Follower: "follower", PreCandidate: "pre-candidate", Candidate: "candidate",
	Leader: "leader", Fencing: "fencing", Releasing: "releasing", Halted: "halted",
}

// View is the observable state of a machine.
type View struct {
	Role Role   `json:"role"`
	Term uint64 `json:"term,omitzero"`
	// Leader is the known leader.
	Leader Leadership `json:"leader,omitzero"`
	// Token is the count of this participant's token while Elected.
	Token   uint64 `json:"token,omitzero"`
	Elected bool   `json:"elected,omitzero"` // between the orders Elected and Stop
	Active  bool   `json:"active,omitzero"`  // between the orders Lead and Stop
	// LeaseEnd is the instant until which leadership is proven, and Read the reading whose offset
	// it depends on. They are valid while Active.
	LeaseEnd Instant `json:"lease_end,omitzero"`
	Read     Reading `json:"read,omitzero"`
	// NotBefore is the earliest instant at which an elected leader may become active.
	NotBefore Instant `json:"not_before,omitzero"`
	// Confirmed is the number of Confirm commands that a round trip has answered.
	Confirmed uint64 `json:"confirmed,omitzero"`
	// Fault says why the machine is Halted.
	Fault string `json:"fault,omitzero"`

	// What follows is for the driver, and follows from the state. It is not in
	// traces, which are older.

	// Incarnation is the boot counter of this participant; 0 in a protocol that has
	// none. It may be told to others when the Saves of the Boot are durable.
	Incarnation uint64 `json:"-"`
	// OwesUntil is until when this participant may be promised to somebody by what it
	// said before it started, or before its clock jumped: a leader that needs its vote
	// may have to wait as long. 0 if it owes nothing.
	OwesUntil Instant `json:"-"`
	// Apart has, in a leader, a bit for the place in the membership of each voter whose
	// clock does not run like the leader's, see [Member].Apart. Aside: this participant
	// does not stand for election because of its own clock.
	Apart uint16 `json:"-"`
	Aside bool   `json:"-"`
}

// Proven reports whether leadership is proven at a reading taken now. It is Term.Check, in the
// simulator and in the runtimes: no timer, no I/O.
func (v *View) Proven(now Reading) bool {
	return v.Active && now.Boot < v.LeaseEnd && !now.Jumped(v.Read)
}

package group

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/group/placement"
)

// Config configures a member of a group. The zero value is a member on one machine, for named elections. What is marked
// with (group) is the same at all members.
type Config struct {
	// Name is the group's (group). Members of a group with another name are refused. Empty means "group".
	Name string

	// ID names this member, and differs between members. Empty means the id of the certificate of TLS, or
	// [elect.DefaultID] without TLS.
	ID string

	// Keys are the shards of [Group.Run] (group). The zero value is none.
	Keys Keys

	// Observer keeps this member out of the coordinator's election as a candidate. It holds keys as every other member.
	Observer bool

	// Listener accepts the members' connections while this one is the coordinator. Join owns it. Nil listens at Listen.
	Listener net.Listener

	// Listen is the address to listen at if Listener is nil. Empty means "127.0.0.1:0".
	Listen string

	// Advertise is the address at which the others reach the listener. Empty means the listener's own.
	Advertise string

	// TLS has this member's certificate, and says whose it accepts. Nil is plain TCP, which Join refuses for an address
	// that is not of this machine, unless Insecure is set.
	TLS TLS

	// Insecure permits plain TCP between machines: everybody who can connect can take every key.
	Insecure bool

	// Promise is how long the coordinator keeps the keys of a member that it does not hear (group). 0 means 3 s.
	Promise time.Duration

	// Cover is how long a new coordinator waits for members that it has not heard before it hands out what they may
	// still have (group). It is not less than any Promise in use. 0 means Promise. A longer Promise is rolled out in two
	// steps: first Cover at all members, then Promise.
	Cover time.Duration

	// Poll is the interval of this member's heartbeats. 0 means a tenth of Promise.
	Poll time.Duration

	// Drain is how long before its claim ends a member stops its work. 0 means a tenth of Promise.
	Drain time.Duration

	// Vouchers is how many members know who may hold keys, so that a new coordinator need not wait for Cover (group). 0
	// means 5.
	Vouchers int

	// Weight is this member's share of the keys in proportion to the others' weights. 0 means 100.
	Weight int

	// Zone names where this member runs. See package placement.
	Zone string

	// TokenBits is how many bits of a token's count number the assignments of a key in one term of the coordinator, from
	// 8 to 16 (group). 0 means 16, which leaves 32 bits for the counts of the election's tokens. Where these are
	// revisions of a store, which may grow beyond that, 8 leaves 40. A change of it needs a raised era of the election.
	TokenBits int

	// Guardian guards the work of Run and Serve, as elect.Config.Guardian does that of an election: *supervise.Guardian
	// is one. It gets the claim of this member, which has no token, while work goes on; when it refuses, the key is given
	// up. With it, and a [Witness], the keys of a process that dies are free at once, if all work of its elections by
	// [Group.Elector] has a guardian, too. Nil is none.
	Guardian elect.Guardian

	// Placement makes what decides who gets which key, anew for each term as coordinator (group). It must return quickly.
	// If it fails this member stands again later. Nil means placement.New with its defaults.
	Placement func() (placement.Placer, error)

	// Flight is a directory for flight records, of the last minutes of this member and of its terms as coordinator, in
	// its subdirectories NAME/member and NAME/coordinator. "electlab trace verify" replays them. If another member
	// records there, or the record cannot be written, a line says so, and the group goes on. Empty means none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger

	// OnEvent is called for each event of this member and its coordinator, in order, by one goroutine at a time. Nothing
	// waits for it but Leave and Close, which it must not call. Events are dropped, and the log says so, while more than
	// [MaxKeys] wait for it. Nil means none.
	OnEvent func(Event)

	params string // of the URL, for a witness
}

// TLS is the identity of a member: *certs.Identity of package peer/certs is one. The certificate names the member in a
// URI elect://CLUSTER/ID, or else as its common name. Both configurations must verify the other side's certificate.
type TLS interface {
	// Server is the configuration for accepting members. It has to ask for certificates.
	Server() *tls.Config
	// Client is the configuration for a connection with the member called id, or with any member if id is "".
	Client(id string) *tls.Config
}

// EventKind says what happened.
type EventKind string

// The kinds of [Event].
const (
	EventAttached    EventKind = "attached"    // this member has joined a coordinator; Member is that one
	EventDetached    EventKind = "detached"    // it has lost the coordinator Member; Err says why
	EventExpired     EventKind = "expired"     // its claim has lapsed, and with it all its keys
	EventOverrun     EventKind = "overrun"     // the claim of Key has ended and its work had not returned
	EventBegan       EventKind = "began"       // Key is held by this member
	EventEnded       EventKind = "ended"       // the work of Key was told to stop; Err is a *elect.LostError
	EventReleased    EventKind = "released"    // the work of Key has returned
	EventCoordinates EventKind = "coordinates" // this member is the coordinator; Token is its term's
	EventStoodDown   EventKind = "stood-down"  // it is no longer the coordinator; Err says why
	EventRefused     EventKind = "refused"     // as a member, it is refused by the coordinator; Err says what would be right
)

// Event is one step in a member's life. [EventKind] says which of the fields after At are set.
type Event struct {
	Kind   EventKind
	At     time.Time   // when it was seen, by the clock of this machine
	Key    string      // of events of a key
	Token  elect.Token // of the key, or of the term as coordinator
	Member string      // the id of the coordinator
	Err    error       // why
}

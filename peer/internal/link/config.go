package link

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// Bounds of what others can make this process hold.
const (
	maxQueue     = 128 // letters for one connection that the kernel does not take yet
	maxGuests    = 64  // accepted connections that have not said who they are
	maxAccepted  = 256 // accepted connections in all
	maxClients   = 64  // of them, connections of clients
	maxWitnesses = 8   // of them, connections of witnesses of one node
	maxCalls     = 16  // requests in progress for one client

	// MaxElections is how many elections a Link serves.
	MaxElections = 1024
	// maxFrames bounds the frames but letters that wait for one connection: a few
	// for each election. Who takes nothing and asks for more is given up.
	maxFrames = 4 * MaxElections
)

// Times.
const (
	defaultIdle = time.Second
	firstPause  = 10 * time.Millisecond // between two attempts to connect, doubling…
	lastPause   = time.Second           // …up to this
	steady      = time.Second           // a connection that lasted so long starts the pauses anew
	flushTime   = 250 * time.Millisecond
	replyTime   = 10 * time.Second // for a client to take a response
)

// Caller is who sent a request.
type Caller struct {
	ID      protocol.NodeID // of the certificate; "" for an operator and without certificates
	Role    certs.Role      // of an operator's certificate; "" for a node and without certificates
	Name    string          // of an operator, for people; "" if the certificate has none
	Addr    string          // where the connection comes from
	Program string          // version of the caller's program, for people
}

// HostConfig says who a Link is, and how it connects.
type HostConfig struct {
	// Hello is what this side says.
	Hello wire.Hello
	// Listener accepts; the Link owns it. Nil: this host only dials, as observers
	// do.
	Listener net.Listener
	// TLS is this node's certificate. Nil: plain TCP, and each peer is trusted to be
	// who it says it is.
	TLS *certs.Identity
	// Look is the time between two looks at certificates: at the files of TLS, and at
	// what was shown on connections that are there; 0 is a minute.
	Look time.Duration
	// Idle bounds a handshake, and is the time after which a connection that
	// takes nothing is given up; 0 is 1 s. The least one of the elections counts.
	Idle time.Duration
	// Dial makes a connection; nil is TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger gets a line for each connection that fails, and for each refusal; nil
	// is silence.
	Logger *slog.Logger
}

// Config says what an Election needs. Admit, Welcomed, Refused, Receive and Closed
// are required where nodes are connected with, Serve where clients call.
type Config struct {
	HostConfig // of a Link of its own, see [Start]; [Link.Join] uses Idle and Logger

	// Enter is what this side says of its part in the election. Its incarnation may
	// be set later.
	Enter wire.Enter
	// Peers are the nodes to keep a connection with, each with the addresses, host
	// and port, that it may be found at; without one it is not dialled.
	Peers Peers

	// Admit decides on a node, or the witness of a node, that enters the election.
	// Its id is authenticated. Admit may wait for the disk. A nil Welcome and a nil
	// Refusal are an empty Welcome.
	Admit func(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal)
	// Welcomed tells that a node has admitted this one, or has announced
	// something since.
	Welcomed func(from protocol.NodeID, w *wire.Welcome)
	// Refused tells that a node has refused this one.
	Refused func(by protocol.NodeID, r *wire.Refusal)
	// Receive hands over a letter of an admitted node, or the release that its
	// witness speaks. The letter belongs to the receiver.
	Receive func(from protocol.NodeID, l *wire.Letter)
	// Closed tells that the last connection with that incarnation was closed or
	// reset by its side, that its side has left the election, or that a later
	// process has taken its place.
	Closed func(from protocol.NodeID, incarnation uint64)
	// Serve answers a request of a client, by any number of responses of which
	// the last has More false. It is called in a goroutine of its own; ctx ends
	// with the connection, with the election, and when the client gives up.
	Serve func(ctx context.Context, from Caller, q *wire.Request, reply func(*wire.Response) error)
}

// Peers are nodes, and where each may be found: of several addresses the next one is
// tried when one has failed.
type Peers map[protocol.NodeID][]string

// PeerInfo is how the connection with a node is.
type PeerInfo struct {
	ID          protocol.NodeID
	Addr        string // where it is dialled, else where it calls from
	Connected   bool
	RTT         time.Duration // as the kernel measures it; 0 where it does not say
	Retransmits uint64        // of the present connection
	LastHeard   clock.Boot    // 0: never
	Program     string        // version of its program, for people
	Speaks      uint32        // the version of the protocol of the present connection; 0: there is none
	Sent        uint64        // letters written
	Received    uint64        // letters read
	Dropped     uint64        // letters that waited too long, or met no connection
	Err         error         // why there is no connection
}

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

// Bounds on what other hosts can make this process hold.
const (
	maxQueue     = 128 // letters queued for one connection
	maxGuests    = 64  // accepted connections before their Hello
	maxAccepted  = 256 // accepted connections in all
	maxClients   = 64  // of them, connections of clients
	maxWitnesses = 8   // of them, connections of witnesses of one node
	maxCalls     = 16  // requests in progress for one client

	// MaxElections is how many elections a Link serves.
	MaxElections = 1024
	// maxFrames bounds the frames other than letters that are queued for one connection: a few for each election. A host
	// that reads nothing and asks for more is dropped.
	maxFrames = 4 * MaxElections
)

// Times.
const (
	defaultIdle = time.Second
	firstPause  = 10 * time.Millisecond // between two attempts to connect, doubling
	lastPause   = time.Second           // up to this
	steady      = time.Second           // a connection that lasted so long resets the pauses
	flushTime   = 250 * time.Millisecond
	replyTime   = 10 * time.Second // for a client to read a response
)

// Caller is the sender of a request.
type Caller struct {
	ID      protocol.NodeID // of the certificate; "" for an operator and without certificates
	Role    certs.Role      // of an operator's certificate; "" for a node and without certificates
	Name    string          // of an operator, for people; "" if the certificate has none
	Addr    string          // where the connection comes from
	Program string          // version of the caller's program, for people
}

// HostConfig is the identity of a Link, and how it connects.
type HostConfig struct {
	// Hello is this side's Hello.
	Hello wire.Hello
	// Listener accepts; the Link owns it. Nil: this host only dials, as observers
	// do.
	Listener net.Listener
	// TLS is this node's certificate. Nil is plain TCP: each peer is then trusted about its identity.
	TLS *certs.Identity
	// Look is the interval between two checks of certificates: of the files of TLS, and of the certificates shown on
	// existing connections; 0 is a minute.
	Look time.Duration
	// Idle bounds a handshake, and is the time after which a connection that takes nothing is dropped; 0 is 1 s. The
	// least value of the elections counts.
	Idle time.Duration
	// Dial makes a connection; nil is TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger gets a line for each connection that fails, and for each refusal; nil
	// is silence.
	Logger *slog.Logger
}

// Config is the configuration of an Election. Admit, Welcomed, Refused, Receive and Closed are required if it
// connects with nodes, Serve if clients call.
type Config struct {
	HostConfig // of a Link of its own, see [Start]; [Link.Join] uses Idle and Logger

	// Enter describes this side's part in the election. Its incarnation may be set later.
	Enter wire.Enter
	// Peers are the nodes to keep a connection with, each with its possible addresses, host and port. A node without an
	// address is not dialled.
	Peers Peers

	// Admit decides on a node, or the witness of a node, that enters the election. Its id is authenticated. Admit may
	// wait for the disk. If both results are nil that is an empty Welcome.
	Admit func(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal)
	// Welcomed reports that a node has admitted this one, or has announced something since.
	Welcomed func(from protocol.NodeID, w *wire.Welcome)
	// Refused reports that a node has refused this one.
	Refused func(by protocol.NodeID, r *wire.Refusal)
	// Receive passes a letter of an admitted node, or the release that its witness sends. The receiver owns the letter.
	Receive func(from protocol.NodeID, l *wire.Letter)
	// Closed reports that the other side has closed or reset the last connection with that incarnation, or has left the
	// election, or that a later process has replaced it.
	Closed func(from protocol.NodeID, incarnation uint64)
	// Serve answers a request of a client, by any number of responses. The last one has More false. It runs in a
	// goroutine of its own. ctx ends with the connection, with the election, and when the client cancels.
	Serve func(ctx context.Context, from Caller, q *wire.Request, reply func(*wire.Response) error)
	// Stream returns what takes a client's stream of a protocol, or why nothing does. take closes the connection, which
	// ends with the election. Nil takes none.
	Stream func(from Caller, protocol string) (take func(net.Conn), refused *CallError)
}

// Peers are nodes and their possible addresses. If one address fails the next one is tried.
type Peers map[protocol.NodeID][]string

// PeerInfo is the state of the connection with a node.
type PeerInfo struct {
	ID          protocol.NodeID
	Addr        string // the address that is dialled, or else from which the node calls
	Connected   bool
	RTT         time.Duration // as measured by the kernel; 0 if not known
	Retransmits uint64        // of the present connection
	LastHeard   clock.Boot    // 0: never
	Program     string        // version of its program, for people
	Speaks      uint32        // the version of the protocol on the present connection; 0: none
	Sent        uint64        // letters written
	Received    uint64        // letters read
	Dropped     uint64        // letters that were queued too long, or had no connection
	Err         error         // why there is no connection
}

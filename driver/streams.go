package driver

import (
	"context"
	"encoding/json"
	"net"
)

// Streamer is implemented by electors whose participants connect with each other. Beside the election they carry
// streams for what is built on it, such as a group: to the same port, and with the same certificates. Each stream is a
// connection of its own, so it delays no message of the election.
type Streamer interface {
	// Streams is what this participant is for others.
	Streams() StreamInfo

	// TakeStreams calls take for each stream of a protocol that another participant, or a client, opens, each in a
	// goroutine of its own; take closes the stream. There is one taker of a protocol at a time. stop closes the streams
	// and returns when each take has. A participant that does not listen takes none, and returns no error.
	TakeStreams(protocol string, take func(Stream)) (stop func(), err error)

	// OpenStream opens a stream of a protocol with the participant to, at addr, as the one with the id from. The other
	// side has proven to be that one, if there are certificates. ctx bounds the call only.
	OpenStream(ctx context.Context, protocol, from, to, addr string) (net.Conn, error)
}

// StreamInfo is what the participant of a [Streamer] is for others.
type StreamInfo struct {
	ID   string // that it proves by its certificate; "" if it takes no part, and shows any certificate that it has
	Addr string // where others reach it; "" if it does not listen
	// Asks means that the certificate is that of no participant, such as an operator's: it opens streams to ask.
	Asks bool
	// Key is what another process of this machine needs to open streams as this participant, as JSON: names of files, and
	// no secret. It is for the back end's own function, such as peer.OpenStream, in a witness.
	Key json.RawMessage
}

// Stream is a connection that is taken by a [Streamer].
type Stream struct {
	net.Conn
	// ID is the participant that the other side has proven to be; "" if it has not.
	ID string
	// Any means that the other side may be any participant: there are no certificates, or all are of one user.
	Any bool
	// ReadOnly means that the other side's certificate permits it to ask, and to change nothing.
	ReadOnly bool
}

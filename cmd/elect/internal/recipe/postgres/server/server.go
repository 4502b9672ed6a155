//go:build unix

package server

import (
	"io"
	"log/slog"
)

// Config is the configuration of a Server.
type Config struct {
	Bin    string // directory of initdb, postgres, pg_rewind, …
	Data   string // data directory, which is not a mount point; the one above it is writable, for [Server.Rebuild]
	Socket string // directory of the unix socket, of this process alone
	Listen string // HOST:PORT

	ID      string // of this node: its application_name
	Nodes   []Peer // the other nodes
	Confirm int    // how many of them have a commit on disk before it is acknowledged; at least 1

	Superuser   string // role of the process's own connections; "" is postgres
	Replication string // role of standbys, pg_rewind and pg_basebackup; "" is replicator
	Passfile    string // password file of libpq, with a line for Replication; for Superuser, too, if it has one
	Conninfo    string // more settings of connections to other nodes, such as "sslmode=verify-full sslrootcert=FILE"

	Parameters map[string]string // of postgresql.conf; those of [Owned] are refused
	HBA        []string          // lines of pg_hba.conf, after those for the nodes

	Logger *slog.Logger // nil is silence
	Output io.Writer    // takes the server's log, whole lines; it must not block. nil: Logger does, at level debug
}

// Peer is another node.
type Peer struct {
	ID      string
	Address string // HOST:PORT of its PostgreSQL
}

// Upstream is a primary to follow.
type Upstream struct {
	ID, Address string
	// Confirm makes this node one of those that confirm commits. The package comment says when.
	Confirm bool
}

// Position is where a server's WAL ends.
type Position struct {
	SystemID   uint64
	Timeline   uint32 // of the last WAL
	LSN        uint64 // the end of what is flushed; of a server that does not run, of what is valid
	Replayed   uint64
	InRecovery bool
	Streaming  bool   // a walreceiver streams now, on Timeline
	From       string // its sender, HOST:PORT
}

// Term is a row of elect.terms.
type Term struct {
	Token    uint64
	ID       string // of the primary
	Timeline uint32
	Begin    uint64 // where the timeline begins; Mark finds it
}

// Mode is how to stop a server.
type Mode int

// The modes.
const (
	Fast      Mode = iota // a checkpoint, and all WAL to connected standbys
	Immediate             // as a crash
)

package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// Name is the application_name of a replica in the term of a token. A primary of that term has these names, and no
// others, in synchronous_standby_names: ANY k ("b@17", "c@17"). So the confirmation of a commit is always one under
// the term of the primary, also of a replica whose primary_conninfo is that of an older term at the same address.
func Name(id string, token uint64) string { return id + "@" + strconv.FormatUint(token, 10) }

// ErrElsewhere is why a server does not start, and not in its data: a wrong setting, a port that another process has, a
// full disk. A copy of the data would be no remedy.
var ErrElsewhere = errors.New("the reason is not in its data; want it removed, and no copy")

// FormatLSN is an LSN as PostgreSQL writes it.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }

// Config configures a Server. Bin, Data, Socket, Listen, ID and Confirm are required.
type Config struct {
	Bin         string            // directory of initdb, postgres, pg_rewind, …
	Data        string            // data directory; the directory above it exists, and belongs to this user
	Socket      string            // directory of the Unix socket, for the connections of this process; it exists
	Listen      string            // HOST:PORT
	Addresses   string            // listen_addresses; "" is the host of Listen
	ID          string            // of this node; its SlotName has at most 63 bytes
	Nodes       []Upstream        // the other nodes; only ID and Address count
	Confirm     int               // k: how many of them confirm a commit, 1 or more
	Superuser   string            // role of this process; "" is postgres
	Replication string            // role of replicas; "" is replicator
	Password    string            // of both roles; "" only on loopback, where the roles are trusted
	Parameters  map[string]string // those of the user. The ones that a Server sets itself are refused before
	HBA         []string          // lines of pg_hba.conf after those that a Server needs itself
	Logger      *slog.Logger      // nil is silence
	Output      io.Writer         // the log lines of the postmaster and of the programs; nil discards them
}

// Position is how far the WAL of a server goes.
type Position struct {
	SystemID uint64 `json:"system_id,string"`

	// Timeline is that of the newest WAL which this server has: of a primary its own; of a standby that streams,
	// received_tli; otherwise the newest timeline of which pg_wal has a segment that recovery would read.
	Timeline uint32 `json:"timeline"`
	// LSN is the end of the WAL that is on this disk and will be replayed. Of a standby it is the greater one of what
	// was flushed and what was replayed. While a standby that has just started still replays its own WAL, it is the end of
	// that WAL and not the place of the replay: it is never below what this server has confirmed on Timeline.
	LSN      uint64 `json:"lsn"`
	Replayed uint64 `json:"replayed"` // 0 of a stopped server

	Begin   uint64 `json:"begin"`   // where Timeline begins, by History; 0 on timeline 1
	History string `json:"history"` // the contents of the history file of Timeline; "" on timeline 1

	InRecovery bool   `json:"in_recovery"` // a stopped server: it has standby.signal
	Streaming  bool   `json:"streaming"`   // a walreceiver streams now, on Timeline
	From       string `json:"from"`        // its sender, HOST:PORT
}

// Upstream is a node to follow, or to copy.
type Upstream struct {
	ID, Address string // HOST:PORT

	// Token is that of the term which the replica follows. Its application_name is [Name] of its id and that token. A
	// primary of another term, or of none, at the same address does not count its confirmations.
	Token uint64

	// Timeline and History are those of its Position. A history file of this server which is not that of Timeline or of
	// an ancestor of it, or has other contents, is of a timeline that was given up: Follow and StartStandby remove it, and
	// Follow restarts the server if need be. (A walreceiver does not fetch a history file that is there, and recovery
	// goes to the newest timeline of which it finds one.)
	Timeline uint32
	History  string
}

// Mode is how a server is stopped.
type Mode int

// The modes.
const (
	Fast      Mode = iota // SIGINT: it sends all WAL and the last checkpoint to the replicas that are connected
	Immediate             // SIGQUIT, and after a second SIGKILL to every process of it; at once if it is stopped by a signal
)

// SlotName is the name of the replication slot of a node: PostgreSQL allows lower-case letters, digits and '_'.
func SlotName(id string) string {
	var b strings.Builder
	b.WriteString(slotPrefix)
	for _, c := range []byte(id) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

const slotPrefix = "elect_"

package postgres

import (
	"context"

	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// database is what a node needs of a PostgreSQL server and its data directory: *server.Server, and in tests one that is
// made up. Its methods are called by one goroutine at a time, except Done, Running, Stopped, Recovery, Position, Probe and
// Flushed.
type database interface {
	// Empty reports that there is no cluster in the data directory: nothing, or what an Init or a Rebuild has left that
	// did not end.
	Empty() (bool, error)
	// Init makes a cluster with data checksums, the roles and the schema elect with its table terms, and leaves it
	// stopped. If it fails the directory is Empty.
	Init(ctx context.Context) error

	// StartPrimary starts the cluster that Init made, without standby.signal, as the primary of a term: the names of that
	// token are in synchronous_standby_names before it accepts connections. It returns when it does.
	StartPrimary(ctx context.Context, token uint64) error
	// StartStandby starts with standby.signal, and returns when the server accepts connections (hot standby), or replays
	// and cannot yet (a backup before its end): an error only if it cannot start. nil is nobody to follow.
	StartStandby(ctx context.Context, from *server.Upstream) error
	// Running reports whether the postmaster is alive.
	Running() bool
	// Done is closed when the postmaster of the last start has ended, and before the first start.
	Done() <-chan struct{}
	// Stopped reports whether the postmaster is stopped by a signal, as by kill -STOP.
	Stopped() bool
	// Recovery grows while the server replays or is promoted, as long as that goes on; 0 if it does neither.
	Recovery() int
	// Stop returns when no process of the server is left. The end of ctx turns Fast into Immediate. Stopping a stopped
	// one succeeds.
	Stop(ctx context.Context, mode server.Mode) error

	// Follow sets primary_conninfo and primary_slot_name of a running standby, and has it read them.
	Follow(ctx context.Context, from server.Upstream) error
	// Detach makes a running standby follow nobody, durably, also after a restart. It returns its Position when no
	// walreceiver is left and nothing that was received can be lost. Of a stopped server it does the same.
	Detach(ctx context.Context) (server.Position, error)
	// Position is that of the running or the stopped server.
	Position(ctx context.Context) (server.Position, error)

	// Promote ends the recovery of a running standby that follows nobody. Before that it has put the names of the token
	// (server.Name) into synchronous_standby_names; a standby has none that match anything, and is never without. It
	// returns when the server accepts writes, with its new timeline. It waits for no replica.
	Promote(ctx context.Context, token uint64) (server.Position, error)
	// Mark inserts the row of a term into elect.terms, if it is not there, and returns when k replicas have confirmed it.
	Mark(ctx context.Context, token uint64, id string, timeline uint32) error
	// Slots makes the physical slots of those nodes, and drops those that Slots made for others.
	Slots(ctx context.Context, ids []string) error
	// Flushed is the LSN that the replica has flushed under the token of this primary, as pg_stat_replication has it; 0 if
	// it is not connected.
	Flushed(ctx context.Context, id string) (uint64, error)
	// Checkpoint makes one, so that a Fast stop is short.
	Checkpoint(ctx context.Context) error

	// Rewind makes a stopped server, which may have crashed, one that can follow, by pg_rewind. It is left stopped. A
	// checkpoint of the source has to be made first: until its first one after a promotion pg_rewind takes it to be on
	// its old timeline. Then change is called. After an error before that the directory is as it was.
	Rewind(ctx context.Context, from server.Upstream, change func() error) error
	// Rebuild replaces the data directory by a copy of that server. It is left stopped. The copy is made beside the old
	// directory; when it is whole and durable, replace is called, and if that succeeds the old one is exchanged for it.
	// After an error before that the old one is as it was.
	Rebuild(ctx context.Context, from server.Upstream, replace func() error) error

	// Reload puts the changed settings of a configuration into force. It returns those that need a restart.
	Reload(ctx context.Context, cfg server.Config) (restart []string, err error)
	// Probe is nil if the server answers, and the file system of the data directory takes a synced write.
	Probe(ctx context.Context) error
}

// Package server is one PostgreSQL server, from version 15 on, and its data directory: it makes, starts, stops,
// promotes, rewinds and rebuilds it, and says where its WAL ends. It decides nothing: its caller does.
//
// # What confirms a commit
//
// A commit is acknowledged when k of the other nodes have it on disk: synchronous_standby_names = 'ANY k ("b@17", …)',
// see [Name], on a primary from its first instant. A standby counts only while it streams under its name of that token.
// An [Upstream] of token 0 is streamed from without confirming anything.
//
// # What a caller keeps
//
// The caller has, durably, the followed token F of the node: the token of the term that wrote its last WAL. These rules
// make (F, LSN) of a node comparable with that of others, as (term, index) of the last entry is in Raft (Ongaro and
// Ousterhout, section 5.4.1):
//
//   - Each term has a timeline of its own. So a leader always promotes a standby, also one that was a primary before:
//     StartStandby without an upstream, then Promote. Without a new timeline a standby that streams from a new term
//     could have a greater F and less of the WAL than another one which confirmed commits of the term before.
//   - F becomes T only when the node has all WAL that T's timeline begins with: its WAL ends exactly at Begin of T's
//     Position, or it streams on T's timeline (Streaming, Timeline).
//   - It streams under T's name only after F = T is durable, and under token 0 until then. A commit that a node has
//     confirmed with an older F could be lost by the choice of the next primary.
//   - Two terms can have made a timeline of the same number, and even with the same history: both promoted at one LSN.
//     Then pg_rewind and streaming take one for the other. So before a node follows or is rewound, the (Timeline, F) of
//     its own is looked up in the primary's [Server.Terms]. If it is not there, the node is rebuilt.
//   - [Server.Mark] adds the row of the term, and those of terms before that are missing, before clients are served.
//
// # Following
//
// primary_conninfo never changes: it names a service, and the service's file says who the primary is. The walreceiver
// reads that file when it connects. So after [Server.Detach] has emptied the file and has seen every older walreceiver
// die, none can come back to the older primary, whatever the startup process does.
//
// # Concurrency and failure
//
// Start, Stop, Follow, Detach, Promote, Rewind, Rebuild, Init and Reload belong to one goroutine at a time; the other
// methods may be called by any number. Every method ends with its context. A server that hangs does not hang them. A
// crash at any point leaves a state from which the next call recovers. The postmaster dies with this process on Linux;
// package supervise kills the rest.
package server

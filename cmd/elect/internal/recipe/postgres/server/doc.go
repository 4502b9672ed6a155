// Package server is one PostgreSQL server, from version 15 on, and its data directory: it makes, starts, stops,
// promotes, rewinds and rebuilds it, and says where its WAL ends. It decides nothing: its caller does.
//
// # What confirms a commit
//
// A commit is acknowledged when k of the other nodes have it on disk: synchronous_standby_names = 'ANY k ("b@17", …)',
// see [Name], on a primary from its first instant. A standby counts only while it streams under its name of that token.
//
// Each term has a timeline of its own: a leader always promotes a standby, also one that was a primary before. So the
// timeline on which a standby's WAL ends says which term it has followed. Two terms can have made timelines of the same
// number, even with the same history, if both promoted at one LSN. pg_rewind and streaming take one for the other, so
// the caller compares the terms of timelines.
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

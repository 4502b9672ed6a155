// Package postgres keeps one primary among the nodes of a PostgreSQL cluster, and the others as its replicas.
//
// An election chooses which node may be the primary. Its winner first asks the others for a promise to confirm nothing
// to earlier terms any more, as in the first phase of Paxos; it is promoted only if of n nodes n-k have answered, where k
// confirm each commit, and none of them has more (decide.go). Package server does what is decided to a real server.
//
// Run belongs to one goroutine. A Client may be used by any number. A node that fails ends its server first; what it has
// promised is durable, so that it can be started again at any time.
package postgres

// Package redis keeps one master among a few Redis servers, as Redis Sentinel does, with the decisions in an election.
//
// A few electors watch the servers. They stand in one election, and the leader acts: it decides that the master is
// down, chooses a replica, promotes it, points the others at it, and demotes the old master. Every elector serves
// Sentinel's protocol to clients, and answers with the last master that an acting elector has announced.
//
// Who is master is a [Decision] under the token of the acting elector's term. It is on the disks of a majority of the
// electors before anything is done about it, as a value of Paxos whose ballots are tokens: a new acting elector first
// has a majority promise its token, and takes over the newest decision that the majority has. So an order of an older
// acting elector finds no majority. It finds no server either: each order goes over a connection that was made before
// the lease was checked, and a newer acting elector first closes the connections of older ones.
//
// An old master that cannot be reached takes no write when it has too few replicas (min-replicas-to-write). Before a
// replica is promoted, the reachable servers are taken away from the old master, and what is left could not make up that
// number; then the recipe waits until the old master has noticed. That is the only use of a clock here, and it rests on
// the rate of the clock of the old master's machine.
//
// plan.go decides what to do next, and is a pure function; act.go and failover.go do it, and orders.go tells servers.
// watch.go sees one server; ledger.go keeps the promise and the decision; peers.go asks the other electors; serve.go and
// sentinel.go answer clients. Redis's clients are ours here, because an order must never go over a connection that a
// library has made again behind our back, and the parser of requests is ours because no library that we found has limits
// before authentication, or RESP3.
package redis

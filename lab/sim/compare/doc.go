// Package compare runs the same faults through several election protocols in the world of package
// sim, and adds up the results: for how much of the time there was a leader, how long a takeover
// took, its cost in messages, for how long two led at once, and the stale writes that followed.
//
// # The same faults
//
// The faults of a seed are drawn once, by [sim.Generate] for protocol quorum with
// its default configuration: noise, clocks within the assumption, the guarded
// work, and the operations. [Adapt] then gives each protocol those faults as it
// can have them:
//
//   - Each protocol runs in its own default configuration, or, with a detection time, in the one
//     that [sim.Protocol.Detects] gives. What the schedule itself says of the machines is left out,
//     priorities and policies on positions included.
//   - n voters or candidates take part, without observers or spares.
//   - An operator's acts (resign, transfer, withdraw, pause, changes of the membership, positions)
//     are left out for all, because not all protocols know them.
//   - Work is exclusive for all; whether its leader has a lease is the protocol's
//     affair. It is told of the end of a lease no longer before than a quarter of
//     the time after which a silent leader is given up. There is no liveness phase:
//     all of the time is among faults.
//   - A fault hits a named participant, or the leader at that time, which differs by protocol.
//   - A wiped disk stays a wiped disk where a protocol has one. To quorum that is the loss of a
//     voter, because nothing replaces it here; to the others it is an amnesiac. Where the protocol
//     declares that to be beyond its model (sim.Protocol.Breaks), the run is excused for what comes
//     of it.
//   - What a protocol has no use for (faults of disks that it does not have) is
//     left out.
//
// Protocols over a store have no links among participants and no disks. Their
// store is replicated on the machines of the n participants (Replicated of
// [sim.StoreNoise]), so that it suffers what quorum's voters suffer, and no more:
//
//   - A request takes two link delays each way, and a disk's sync in all: to the
//     store's leader and from there to a majority. What the links lose is lost on
//     the way in (the request was never made) or on the way out (its outcome is
//     unknown). Links that double or reorder messages are a stream's business, and
//     do nothing here.
//   - Cuts of links (partitions of all kinds, flapping, half-open and clogged links,
//     a link that loses everything) cut the servers' links. What kills, freezes or
//     restarts a participant, or has its disk fail, does so to the server beside
//     it; a wiped disk takes that away for good, as it takes a voter from quorum. A
//     participant that reaches fewer than a majority of the servers, both ways,
//     cannot reach the store, but for what one server answers alone (below).
//   - One of the servers leads the store. If it dies, is frozen or is cut off, there is another one
//     after one to two election timeouts of a second, etcd's default. One that has not died, and is
//     back before, leads on. Those of ZooKeeper find that it has died when their connections end,
//     and need 0.2 to 1.2 s for the next one; a leader that is frozen or cut off they miss for a
//     second first, and then it leads no more. Meanwhile no server answers for a majority, and
//     requests are lost or wait; without a majority, that lasts until there is one. No session
//     expires in that time, and the next leader gives all of them their time anew, and etcd's a
//     second more.
//   - A running server that is cut off answers alone those that reach it: etcd's last leader
//     keep-alives, until it finds that it leads no more (one to two election timeouts); ZooKeeper's
//     servers, half of the time, reads and pings, for a second at most.
//   - A reset of all connections of a participant closes its watches. Other noise of
//     single links (loss of a part, delay, doubling, reordering, replay), a slow
//     sync and a flipped bit do nothing: there is another server.
//   - The store's own clock is n1's, as it was at the beginning.
//
// A schedule that was made for a protocol over a store can be run too. Protocols
// with links among their participants have it without its store's faults, but for
// a participant that cannot reach the store: it is isolated.
//
// # Concurrency and failure
//
// [Run] uses as many goroutines as it is told, and ends them before it returns. Its report does not
// depend on their number or their order: what runs come to is added up in integers. A [Report] is
// plain data that does not change.
//
// Run fails where a schedule cannot be made or a protocol is unknown. A protocol that
// violates what it must hold is no failure of Run: the report names the seed.
package compare

// Package peer is the back end for a few machines that elect a leader among themselves, without a further service. It
// runs the machine of package internal/protocol/quorum on real networks, clocks and disks.
//
//	peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs
//
// The list names the voters, 1 to 9, and is the same at each of them when the election is founded; [ParseURL] has the
// parameters. The elections of one process that have the same id, listening address and directory share the port, and
// one connection with each other node; see Config.Name. A majority of the voters elects: three can lose one, five can
// lose two. Observers see the leader, and never count. A participant whose id is not listed is a [Client], which
// observes and recalls, and keeps no state.
//
// # Times
//
// A leader sends heartbeats, and derives its lease from the promises that a majority gives in answer. [Plan] has the
// times, and refuses those that cannot hold. When a leader's process dies its kernel closes its connections, and
// another one is elected after two round trips and two writes of a disk. The new leader may act when the promises to
// the old one are over: at once after a release or a witness's word ([Witness]), at the end of the promise otherwise.
// A leader's heartbeats carry its metadata, and since when it leads by its own wall clock.
//
// # Who leads
//
// A leader hands over to one voter, which then needs one round of votes. A transfer names that voter ([Node.Appoint],
// [driver.Transferrer]); otherwise it is the best of those that answer and would stand, by position and priority. A
// voter that is paused ([Node.SetPaused]) or whose priority is [driver.NeverLead] votes only. Priorities and
// positions follow rules R12 and R13 of package quorum; Config documents the application's functions for them.
//
// # Founding
//
// The first start of an election needs all voters at the same time: each learns the others' data directories,
// durably, before any of them votes. From then on a voter is its id together with its directory. The others refuse a
// voter whose disk was wiped, or that uses another directory, because it has forgotten its votes and its promises. If
// so many refuse it that the rest is no majority, its campaigns fail with an error that says so. Later starts need a
// majority. Before the founding, voters refuse those with a different configuration; they always refuse another
// cluster, and a second process with a directory that is in use. A node refuses an election that is not open there.
//
// # Membership
//
// From the founding on the voters' membership counts, and no longer the list. [Client.AddMember],
// [Client.RemoveMember] and [Client.ReplaceMember] change it while the election goes on, one voter at a time. Each
// step needs the answers of a majority of the next membership. The membership travels in every message and is kept
// with the ballot. A node to be added is started with [Config.Join] and waits. A removed node is told by the members,
// and its campaigns fail for good.
//
// A directory that is a copy, or was restored from an older one, cannot be distinguished from the right one. It may
// vote twice. An operator who has restored one stops all participants, empties all directories and raises era.
//
// # Other protocols
//
// [Config.Protocol] names another protocol than quorum, one of [Protocols]: bully, ring, raft, blazingmq, and
// variants. They elect, and prove nothing: a Candidacy with Exclusive is refused for good, Check of a mandate is
// [driver.ErrNotExclusive] until its context ends, and the statements below about leases do not hold. The founding is
// the same, and settles the participants; there is no transfer, no change of the membership and no witness. Nodes of
// different protocols refuse each other, and a data directory is bound to its protocol.
//
// # Concurrency
//
// A Node may be used by any number of goroutines, within the rules of package driver. One goroutine at a time owns
// the machine (its own, or one that brings a letter, for one turn) and never waits: disk, network and history have
// goroutines of their own. Check and Remaining of a mandate read the latest view and the clocks, and take no lock.
// Close joins everything that was started.
//
// # Failure
//
// A node in doubt does not lead. A leader that cannot reach a majority, whose process was stopped, or whose clock
// jumped loses its proven lease before any other node has one, as long as the rates of all clocks are true within 5
// %; beyond that only tokens help. A node whose disk fails goes on following, gives up leadership, gives no votes,
// and tries again. The flight recorder keeps the last minutes of the machine's steps in the data directory. A node
// works without it, and without history.
//
// # Security
//
// With certificates peers use TLS 1.3, and each proves its id and its cluster. Without them only addresses of the
// loopback are accepted, and only the processes of one user elect together: they make certificates by themselves, in
// a directory that no other user can read. So another user of the machine is refused, and root is not.
// [Config].Insecure is plain text: every process that reaches the port can elect and depose. Voters are believed: one
// that lies can make two leaders.
//
// What a client may do depends on its certificate. An operator's certificate has a role, see [certs.Role]: observe
// may look; operate may also resign, transfer, pause and resume; administer may also change the membership. A node's
// own certificate counts as operate while the node is in the membership, and as observe otherwise. A request that is
// not permitted fails with [ErrNotPermitted], and the node logs it.
//
// Files of certificates are read again when they have changed, at each handshake and each minute; then connections
// are made anew. A node logs once a day that its certificate expires soon, and [NodeStatus] reports it. After it has
// expired no new connection is accepted. An existing connection between nodes goes on for seven days, or for a third
// of the certificate's life if that is less. [New] and [NewClient] fail with [certs.ErrExpired].
package peer

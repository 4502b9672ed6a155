// Package peer is the back end for a few machines that elect among themselves,
// with no service to run beside them. It puts the machine of package
// internal/protocol/quorum on real networks, clocks and disks.
//
//	peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs
//
// The list names the voters, 1 to 9, and is the same at each of them when the
// election is founded; [ParseURL] has the parameters. A majority of
// the voters elects: three can lose one, five can lose two. Observers learn who leads,
// and neither vote nor lead. A participant whose id is not listed is a [Client], which
// watches and asks others, and stores nothing.
//
// # Times
//
// A leader sends heartbeats and claims a lease of what a majority promises in
// answer; [Plan] has the times, and refuses those that cannot hold. When a
// leader's process dies its kernel closes its connections, and another one is
// elected after two round trips and two writes of a disk. That one may act when
// what was promised to the old leader is over: at once after a release or a
// witness's word ([Witness]), at the end of the promise otherwise. Metadata of a
// leader, and since when it leads by its own wall clock, travel with its
// heartbeats.
//
// # Who leads
//
// A leader hands over to one voter, which then needs one round of votes: whom a
// transfer names ([Node.Transfer], [driver.MandateTransferrer]), or the best of those that
// answer and would stand, by position and priority. A voter that is paused
// ([Node.Pause]) or whose priority is [driver.NeverLead] votes only. Priorities
// and positions are those of the rules R12 and R13 of package quorum; Config says
// which functions of the application are called for them, and when.
//
// # Founding
//
// The first start of an election needs all voters up at one time: each learns
// the others' data directories, durably, before any of them votes. From then on
// a voter is its id together with its directory. One whose disk was wiped, or
// that is pointed at another place, is refused by the others, because it has
// forgotten its votes and its promises; when so many refuse it that the rest is
// no majority its campaigns fail with an error that says so. Later starts need
// a majority. Before the founding voters that are configured otherwise than the
// others are refused as plainly, and at any time another cluster. So is a second
// process with a directory that is in use. An election that is not open at a node is
// refused there until it is.
//
// # Membership
//
// From the founding on the membership that the voters hold counts, and no longer
// the list. [Client.AddMember], [Client.RemoveMember] and [Client.ReplaceMember]
// change it while the election goes on, one voter at a time, each time when a
// majority of the next one answers; it travels in every message and is kept with
// the ballot. A node to be added is started with [Config.Join] and waits. One that
// was removed is told by those who know, and its campaigns fail for good.
//
// A directory that is a copy, or was restored from an older one, cannot be told
// from the right one. It may vote twice. After restoring one, stop all
// participants, empty all directories and raise era.
//
// # Other protocols
//
// [Config.Protocol] names another protocol than quorum, one of [Protocols]: bully,
// ring, raft, blazingmq, and variants. They elect, and prove nothing: a Candidacy
// with Exclusive is refused for good, Check of a mandate is
// [driver.ErrNotExclusive] until its context ends, and what is said below of leases
// does not hold. The founding is the same, and settles who takes part; there is no
// transfer, no change of the membership and no witness. Nodes of different
// protocols refuse each other, and a data directory is bound to its protocol.
//
// # Concurrency
//
// A Node may be used by any number of goroutines, within the rules of package
// driver. One goroutine at a time owns the machine (its own, or one that brings a
// letter, for one turn) and waits for nothing: disk, network and history have
// goroutines of their own. Check and Remaining of a mandate
// read the latest view and the clocks, and take no lock. Close joins all
// that was started.
//
// # Failure
//
// Whatever a node is in doubt about, it does not lead. A leader that cannot
// reach a majority, whose process was stopped, or whose clock jumped has no
// proven lease before anybody else has one, as long as the rates of all clocks
// are true within 5 %; beyond that only tokens help. A node whose disk fails goes
// on following, gives leadership up, votes for nobody, and tries again. The
// flight recorder keeps the last minutes of what happened to the machine in the
// data directory; without it, and without history, a node goes on.
//
// # Security
//
// With certificates peers use TLS 1.3, and each proves its id and its cluster.
// Without them only addresses of the loopback are accepted, and only
// the processes of one user elect together: they make certificates by themselves,
// in a directory that nobody else can read. So another user of the machine is
// refused, and root is not. [Config].Insecure is plain text: everybody who reaches
// the port can elect and depose. Voters are believed: one that lies can make two
// leaders.
//
// What a client may do depends on its certificate. An operator's certificate has a
// role, see [certs.Role]: observe may look; operate may also resign, transfer, pause
// and resume; administer may also change the membership. A node's own certificate
// counts as operate while the node is in the membership, and as observe otherwise. A
// request that is not permitted fails with [ErrNotPermitted], and the node that was
// asked logs it.
//
// Files of certificates are read again when they have changed, at each handshake and
// each minute; connections are made anew then. A node logs once a day that its
// certificate ends soon, and [NodeStatus] has it. After the end no new connection is
// accepted. An existing connection between nodes goes on for seven days, or for a third
// of the certificate's life if that is less. [New] and [NewClient] fail with
// [certs.ErrExpired].
package peer

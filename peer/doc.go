// Package peer is the back end for a few machines that elect among themselves, with no service beside them.
//
//	peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs
//
// The list names the voters, 1 to 9; [ParseURL] has the parameters. A majority elects: three can lose one, five can
// lose two. A leader sends heartbeats, and claims a lease of what a majority promises in answer; [Plan] has the times.
// Observers learn who leads, and neither vote nor lead. A participant whose id is not listed is a [Client], which asks
// others and stores nothing. The page docs/peers.md is about running peers.
//
// # Founding and membership
//
// The first start needs all voters at one time, with the same list. Each durably learns the data directories of the
// others before any votes. From then on a voter is its id together with its directory, and later starts need a
// majority. A voter whose disk was wiped has forgotten its votes and promises, and is refused. When so many refuse a
// node that the rest is no majority, its campaigns fail for good.
//
// After the founding the membership that the voters hold counts, and no longer the list. [Client.AddMember],
// [Client.RemoveMember] and [Client.ReplaceMember] change it while the election goes on.
//
// A directory that is a copy, or was restored from an older one, cannot be told from the right one, and may vote
// twice. After restoring one, stop all participants, empty all directories and raise [Config].Era.
//
// # Other protocols
//
// [Config].Protocol names another of the [Protocols]. These elect and prove nothing: a Candidacy with Exclusive is
// refused for good, and Check of a mandate is [driver.ErrNotExclusive] until its context ends. There are no leases,
// transfers, changes of the membership, or witnesses.
//
// # Concurrency
//
// A Node may be used by any number of goroutines, within the rules of package driver. Check and Remaining of a mandate
// compare the latest view with the clocks, and take no lock. Close joins all that was started.
//
// # Failure
//
// A node in doubt does not lead. A leader that cannot reach a majority, whose process was stopped, or whose clock
// jumped has no proven lease before another node has one, as long as the rates of all clocks are true within 5 %;
// beyond that only tokens help. A node whose disk fails follows, gives leadership up, does not vote, and tries again.
// One whose disk hangs or is slow stands aside, and hands over if another node would stand. It goes on without its
// history, and without its flight recorder.
//
// # Security
//
// With certificates peers use TLS 1.3, and each proves its id and its cluster. Without them only addresses of the
// loopback are accepted, and only processes of one user, and root, elect together. [Config].Insecure is plain text:
// anyone who reaches the port can elect and depose. Voters are believed: one that lies can make two leaders.
//
// What a client may do depends on the [certs.Role] of its certificate. A node's own certificate counts as
// [certs.Operate] while the node is in the membership, and as [certs.Observe] otherwise. Other requests fail with
// [ErrNotPermitted], and the node that was asked logs them.
//
// Changed files of certificates are read again. After the end of its certificate a node does not start, no new
// connection is accepted, and those between nodes go on for seven days, or a third of the certificate's life if that is
// less. A node warns before, in its log and in [NodeStatus].
package peer

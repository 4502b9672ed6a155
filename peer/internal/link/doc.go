// Package link keeps the connections of a host with other hosts, for all elections in which it takes part, and
// answers clients and witnesses that call. It authenticates the other side of each connection. The elections' nodes
// interpret what it says.
//
// A connection begins with TLS 1.3, if there are certificates. Then both sides send a Hello, and each answers with a
// Welcome, or with a Refusal that says why and closes. Before admission a frame has at most 16 KiB, and the whole
// handshake takes at most the idle time. At most 64 connections are kept that have sent nothing yet or are being
// refused. For the next one, a connection from the network that has most of them is dropped, and none from a peer's
// address while there are others. So a flood of strangers keeps out at most others at its own address.
//
// # Elections
//
// A [Link] serves up to [MaxElections] of them, each an [Election]. Both sides of a connection enter the elections
// that they want on it. An Enter has the name of the election, and a number that stands for it from then on. Each
// side asks Config.Admit (which may wait for the disk: a goroutine for each election on each connection) and answers
// that number with a Welcome or a Refusal. When both sides are welcomed, letters flow. The number costs each letter
// two bytes, or three from the 128th Enter of a connection on. A refusal, or Leave, ends the entry, and neither the
// connection nor another entry. The side that wants the entry tries again as often as a dialler would, with its state
// at that time. An election that a host is not in is refused in the same way, and the host keeps nothing of it.
// Letters with an unknown number are dropped.
//
// A host that no election needs is dropped after the idle time, or a second.
//
// # One connection
//
// Voters dial each other, so that a node that comes back is connected by its own dialling. So there can be two
// connections. By these rules none is closed that the other side still needs:
//
//   - Of two that the same side dialled, the newer one counts: a node that has a connection dials only to replace it.
//     The called side closes the older one when all elections are open on the newer one, or after the idle time.
//   - If each side dialled one, the node with the smaller id keeps the one that became complete last, sends the
//     Refusal "duplicate" on the other one, and goes on reading there until the other side has closed it. The other
//     node sends on its newest connection until it receives that refusal. What it sends while that is its only
//     complete connection may be lost.
//   - If another process (Hello.Life) with the same id has the same directory and was started later (Hello.Starts) it
//     replaces the older one at once. Otherwise it is refused as a duplicate while the older one is connected and
//     admitted to an election. A process that no election admits is replaced.
//
// # The end of a connection
//
// When a process closes or resets its last connection, Config.Closed reports that at once to each election that the
// process had entered. When the process leaves one election, Config.Closed reports that to this election alone. It
// reports nothing when this side closes a connection or this side's kernel gives it up, because a node that is cut
// off may be alive. The kernel gives up a connection on which nothing comes through after about the idle time
// (TCP_USER_TIMEOUT on Linux, where a connection without traffic is probed once a second). If the other side's kernel
// gave up first, its reset may still arrive when the network is healed, and looks like a death: Closed is a hint.
//
// # Concurrency and failure
//
// All methods may be called by any number of goroutines, and none but Close blocks. Each connection has one goroutine
// that reads, and one that writes what the kernel did not take at once when it was sent. The reading goroutines call
// the callbacks, those of one connection in order. Callbacks must not block for long, except Admit, and must not call
// Close. What cannot be sent is dropped: protocols must cope with that anyway. Nothing here ends a node. A listener
// that fails, a peer that sends nonsense and a stranger that calls are each a line in the log. A caller that closes
// without sending anything is not logged.
//
// # Certificates
//
// Each minute the Link checks its own files and the certificates that were shown on its
// connections, and logs once a day what is wrong. When the files have changed, it makes
// connections with nodes anew, beside the old ones. A connection whose certificate has
// expired goes on for the time that [certs.Identity.Recheck] allows. If Recheck refuses
// the certificate for another reason, such as an authority that was removed, the
// connection ends when a new one fails. Connections of clients end at once. Those of
// witnesses stay: a witness can only say that its own node is dead.
package link

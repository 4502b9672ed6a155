// Package link keeps the connections of a host with other hosts, for all elections in
// which it takes part, and answers clients and witnesses that call. It knows who speaks
// and that nobody else can; what is said is the affair of the elections' nodes.
//
// A connection begins with TLS 1.3, if there are certificates. Then both sides
// say Hello, and each says Welcome, or says why not in a Refusal and closes. Until
// somebody is admitted a frame may have 16 KiB, the whole
// handshake takes at most the idle time, and of the connections that have said
// nothing yet, or are being refused, 64 are kept: one of the network that has most
// of them is dropped for the next, and none from where a peer is while there are
// others. So a flood of strangers keeps out others at their own address, if anybody.
//
// # Elections
//
// A [Link] serves up to [MaxElections] of them, each an [Election]. Of a connection both
// sides enter the elections that they want on it: Enter has the name, and a number that
// stands for it from then on. Each side asks Config.Admit (which may wait for the
// disk: a goroutine for each election on each connection) and says Welcome or Refusal to that number. When
// both are welcomed, letters flow; each costs two bytes for the number, or three from the
// 128th Enter of a connection on. A refusal, or Leave, ends the entry and neither the connection
// nor another entry; whoever wants it tries again, as often as a dialler would, with
// what holds then. An election that a host is not in is refused in the same way, and nothing is kept
// of it. Letters with a number that stands for nothing are dropped.
//
// A host with which no election has anything to do is dropped after the idle time, or a
// second.
//
// # One connection
//
// Voters dial each other, so that a node that comes back is connected by its own
// dialling. So it happens that there are two connections. The rules, by which
// none is closed that the other side still needs:
//
//   - Of two that the same side dialled, the newer one counts: a node that has a
//     connection dials only to put a new one in its place. The side that was called
//     closes the older one, when all elections are open on the newer one, or after the
//     idle time.
//   - Of two that were dialled by one side each, the node with the smaller id
//     keeps the one that became complete last, says Refusal "duplicate" on the
//     other one, and goes on reading there until the other side has closed it.
//     The other node sends on the newest that it has and waits to be told. What
//     it sends while that is the only one that is complete for it may be lost.
//   - Another process (Hello.Life) with the same id: if it has the same directory and
//     was started later (Hello.Starts) it replaces the older one at once.
//     If not, it is refused as a duplicate while the other one is connected, and
//     admitted to an election. One that no election admits gives way.
//
// # The end of a connection
//
// Config.Closed tells each election that a process had entered, at once, that the last
// connection with it was closed or reset by its side; and one election alone when the
// process has left that one. It is not told of what this side closed, nor of
// what this side's kernel gave up: who is cut off is not known to be dead. A
// connection on which nothing comes through is given up after about the idle time
// (TCP_USER_TIMEOUT on Linux, where a connection without traffic is probed once a
// second). If the other side's kernel gave up first, its reset may still arrive
// when the network is healed, and looks like a death: Closed is a hint.
//
// # Concurrency and failure
//
// All methods may be called by any number of goroutines, and none but Close
// blocks. Each connection has one goroutine that reads, and one that writes what
// the kernel did not take at once when it was sent. The callbacks are called by
// those that read: they must not block for long, Admit excepted, and must not
// call Close; those for one connection come in order. What cannot be sent is
// dropped: protocols must cope with that anyway. Nothing here ends a node: a
// listener that fails, a peer that speaks nonsense and a stranger who knocks are
// each a line in the log. Who closes without a word is none.
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

// Package link keeps the connections of a node with its peers, and answers
// clients and witnesses who call. It knows who speaks and that nobody else can;
// what is said is the node's affair.
//
// A connection begins with TLS 1.3, if there are certificates. Then both sides
// say Hello, each admits the other (Config.Admit, which may wait for the disk)
// and says Welcome, or says why not in a Refusal and closes. After that letters
// flow both ways. Until somebody is admitted a frame may have 16 KiB, the whole
// handshake takes at most Config.Idle, and of the connections that have said
// nothing yet, or are being refused, 64 are kept: one of the network that has most
// of them is dropped for the next, and none from where a peer is while there are
// others. So a flood of strangers keeps out others at their own address, if anybody.
//
// # One connection
//
// Voters dial each other, so that a node that comes back is connected by its own
// dialling. So it happens that there are two connections. The rules, by which
// none is closed that the other side still needs:
//
//   - Of two that the same side dialled, the newer one counts: a node that has a
//     connection dials only to put a new one in its place. The side that was called
//     closes the older one, when the newer one counts there.
//   - Of two that were dialled by one side each, the node with the smaller id
//     keeps the one that became complete last, says Refusal "duplicate" on the
//     other one, and goes on reading there until the other side has closed it.
//     The other node sends on the newest that it has and waits to be told. What
//     it sends while that is the only one that is complete for it may be lost.
//   - Another process (Hello.Life) with the same id: if its incarnation is higher
//     it replaces the older one at once, for the directory's lock has passed on.
//     If not, it is refused as a duplicate while the other one is connected.
//
// # The end of a connection
//
// Config.Closed tells, at once, that the last connection with an incarnation was
// closed or reset by its side. It is not told of what this side closed, nor of
// what this side's kernel gave up: who is cut off is not known to be dead. A
// connection on which nothing comes through is given up after about Config.Idle
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

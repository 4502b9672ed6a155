// Package register is the resource that leaders write to while a test injects faults: a server on a
// unix socket, and its client, which records its operations.
//
// The server keeps four things, each for a question of its own:
//
//   - a register behind a fence: a value, and the highest token that was shown to it.
//     A write with a lower one is refused. So whatever befalls the leaders, no
//     reader ever sees an earlier leader's value after a later one's.
//   - its twin without a fence, which takes each of those writes. It shows what the
//     fence has spared the other: how many writes of leaders that were none any more
//     were offered, and which values they would have overwritten.
//   - a stream of sequences, as a replica receives them from its leader: one is
//     accepted if it is above the last by [fence.Sequence.Compare], and refused
//     otherwise.
//   - the number of what was offered to each ([Stats]).
//
// # The log of a client
//
// A client writes a line to dir/ops/NAME.ndjson before it sends, and another after
// the answer came, each by one plain write to a file that only grows. A process
// that is killed between the two leaves a call without a return: its outcome is
// unknown to it. The server knows: when a connection ends it writes to
// dir/register.ndjson which request it carried out last on it. [ReadDir] puts both
// together. Times are those of package lives.
//
// # Concurrency and failure
//
// A [Server] has one goroutine a client, and carries out one request at a time. A
// client that is killed in mid-request has asked for nothing if the end of its line
// did not arrive. A [Client] belongs to one goroutine; after an error it connects
// anew with the next request. Linux only.
package register

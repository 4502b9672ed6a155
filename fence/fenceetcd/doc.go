// Package fenceetcd guards what is in etcd against leaders that were replaced. There are
// two forms.
//
// [Key] is for leaders of an election in the same etcd, such as those of
// go.etcd.io/etcd/client/v3/concurrency. Each write is a transaction that compares the
// create revision of the leader's own key. It needs no mark, and nothing installed: when
// the key has gone, with its lease or by resignation, nothing is written for its term any
// more, whether or not somebody else leads.
//
// [Guard] is for the tokens of any elector, and stands for one resource. Its key holds the
// greatest token that was claimed: the mark. [Guard.Install] makes it, once. A new leader
// calls [Guard.Claim] before it reads anything. Each of its writes is a transaction that
// compares the mark and raises it ([Guard.Write]). A [Mark] is the keys as marks of a
// fence.Guard, for what is not in etcd.
//
// The comparison and the writes are one transaction, so that no write of an earlier
// leader is left open when a later one has claimed. Reads must be linearizable, as those of
// the client are unless they ask for clientv3.WithSerializable. See "Transaction" and "KV
// API guarantees" in the manual of etcd 3.6.
//
// All of it is safe for concurrent use, in several processes. Contexts should have
// deadlines: the client waits for a server as long as they last. An error is a refusal,
// after which nothing was applied, or matches [fence.ErrUnknownOutcome]. That needs a client
// that sends a transaction once, as clientv3's does unless it is told CANCELED or
// DEADLINE_EXCEEDED while the context lasts. etcd does not answer so. Behind a proxy that
// does, set clientv3.Config.MaxUnaryRetries to 1
// (https://github.com/etcd-io/etcd/issues/18424).
//
// What a backup brings back is as old as the backup: marks and revisions go back with the
// data. Raise the era of the tokens then. Who has the right to put keys can always write
// past a guard: give the programs' users the right to their keys and the marks, and to
// nothing else, and let nobody put the guarded keys but through this package.
package fenceetcd

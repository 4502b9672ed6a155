// Package fenceetcd guards data in etcd against leaders that were replaced. There are two forms.
//
// [Key] is for leaders of an election in the same etcd, such as those of go.etcd.io/etcd/client/v3/concurrency. Each
// write is a transaction that compares the create revision of the leader's own key. It needs neither a mark nor an
// installation: when the key is gone, with its lease or by a resignation, nothing more is written for its term,
// whether or not there is another leader.
//
// [Guard] is for the tokens of any elector, and guards one resource. Its key holds the greatest token that was
// claimed: the mark. [Guard.Install] makes it, once. A new leader calls [Guard.Claim] before it reads anything. Each
// of its writes is a transaction that compares the mark and raises it ([Guard.Write]). [Mark] uses such keys as the
// marks of a fence.Guard, for data that is not in etcd.
//
// The comparison and the writes are one transaction, so that no write of an earlier leader is pending when a later
// one has claimed. Reads must be linearizable, as those of the client are unless they ask for
// clientv3.WithSerializable. See "Transaction" and "KV API guarantees" in the manual of etcd 3.6.
//
// The package is safe for concurrent use, in several processes. Contexts should have deadlines: the client waits for
// a server as long as they last. An error is a refusal, after which nothing was applied, or matches
// [fence.ErrUnknownOutcome]. That needs a client that sends a transaction once, as clientv3's does unless the answer
// is CANCELED or DEADLINE_EXCEEDED while the context lasts. etcd does not answer so. Behind a proxy that does, set
// clientv3.Config.MaxUnaryRetries to 1 (https://github.com/etcd-io/etcd/issues/18424).
//
// A restore from a backup also brings back the old marks and revisions. Raise the era of the tokens then. A user with
// the right to put keys can always bypass a guard: give the programs' users the right to their keys and the marks
// only, and put the guarded keys through this package only.
package fenceetcd

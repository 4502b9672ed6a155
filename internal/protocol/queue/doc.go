// Package queue elects over a store that has sessions and keeps entries in the order of their
// creation: ZooKeeper (ephemeral sequential znodes) and etcd (keys bound to a lease, ordered by
// create revision). A [Machine] is owned by one goroutine. It never fails; if it cannot go on,
// [protocol.View].Fault says why.
//
// # Protocol
//
// A candidate opens a session of its own, enters, and waits for the entry just before its own to
// go. When it is first it verifies that, and leads with the order of its entry as token. When its
// work has returned, it leaves.
//
//	opening → entering → listing ⇄ waiting
//	             ↓ ↑        ↓
//	    syncing, scanning   renewing or touching → verifying → leading → fencing → freeing → closing → idle
//
// From any phase before leading it leaves by way of closing.
//
// The shape is that of ZooKeeper's recipe for leader election and of etcd's clientv3/concurrency.
// The differences: being first is never enough; the holder's claim has a deadline that counts from
// before a request left (Q5, Q6); a win is read back from the store when the wait is over (Q4); an
// entry serves one tenure (Q1).
//
// The rules: Q1, Q2 in enter.go; Q3 in wait.go; Q4 in verify.go; Q5 in claim.go; Q6 in claim.go and
// hold.go; Q7 in tenure.go; Q8 in leave.go; Q9 in config.go and enter.go. The back end checks names
// of elections and sequence numbers, because it alone sees them.
//
// # Guarantee
//
// While every clock's rate is within 1 ± ρ of true time, no two machines have a
// proven lease at one true instant, and tokens rise from tenure to tenure.
//
// A client can never be sure that its session lives. So a claim depends on the entry: it ends
// H·(1−ρ)/(1+ρ) after the sending of a request whose condition was that the entry exists, where H
// is the holder's hold. A winner waits (hold-off) from its first view without an entry before its
// own, unless the last tenure's work is known to have returned. The request was committed before
// the entry went, and the entry went before that view. The winner reads H in the queue's mark,
// which the holder wrote before it led, and waits for the longer of it and its own hold; where no
// mark tells it, for MaxHold. So holds may differ between participants, as they do while a setting
// is rolled out.
//
// In etcd's dialect the wait begins earlier, so that a takeover takes the TTL and not the TTL and a
// hold. The holder's requests are touches: writes beside the queue, which outlive the entry. From the
// mark on its claim counts from no other request. The candidate behind it watches them, and notes when
// it first saw the latest. In the view without an entry before its own it reads which touch was the
// last. If it had seen that one before, at r, it waits from r. The last touch that was answered was
// sent at s and committed at c; the last one of all was committed no earlier, and seen no earlier than
// that: s ≤ c ≤ r. The claim ends H/(1+ρ) of true time after s at the latest, and the wait no sooner
// than H/(1+ρ) after r. A candidate that had not seen the last touch waits from its view.
//
// A touch names the entry, so the touches of one tenure say nothing of another. A holder that does not
// touch, as in releases before this rule and in ZooKeeper's dialect, proves its claim by requests that
// no candidate sees: where the mark's tenure has no touch, the winner waits from its view. Until its
// first touch the claim of a new holder counts from the mark, and from reads before the mark's answer,
// which is before that touch is sent: so it is before any candidate sees it. Winners of older releases
// wait from their view, which is never earlier.
//
// etcd with ServersFixed needs no hold. A key goes with its lease, and that lives for TTL/(1+ρ)
// after the server saw the request; the claim counts from before that request was sent. So the
// claim ends before the key goes, and the next candidate is first only after that.
//
// # What it assumes, and what breaks it
//
// With a hold, nothing is assumed about the times of sessions. That is the default in both
// dialects.
//
// Of etcd with ServersFixed and without a hold: the clocks of its servers stay within ρ, too;
// heartbeats between them and their answers are prompt; and a leader that hung or was paused learns
// of its successor, or asks a majority whether it still leads, before it renews or revokes a lease.
// Only then is a deposed leader silent two election timeouts after it was last heard (config.go,
// margin). The guard has to cover the delays.
//
// etcd's servers up to 3.4.30 and 3.5.12 violate this (issue 15247): a leader whose raft loop waits
// for a disk goes on renewing leases that its successor ends, and when it resumes it has leases
// revoked that its successor has renewed. Pull request 16822 makes it ask a majority first. It is
// in 3.6.0, and was backported to 3.5.13 (17425) and 3.4.31 (17465). From 3.5.16, 3.6.0 and 3.4.34
// on a server skips that question if its clock has ticked in the last three heartbeats. So a server
// that was paused and has ticked again may still answer before it learns of its successor, and any
// server may be paused between the question and what follows. The fix reduces this to moments; it
// does not exclude it. A hold does.
//
// Of the back end: a reading of the clock before a request leaves and after its answer has come;
// the queue's mark is read no earlier than the entries of the same list; one answer to an ask,
// paired with it; after CloseSession no request of that session takes effect, nor one of a session
// that the client opened in its place; after Sync, no earlier request on the same session does (a
// ZooKeeper server refuses requests from a connection that the session has left); an entry is
// identified by its order, not by its key, and has its session in every answer; Answer.Session, if
// it is not 0, is the session in which the request was carried out.
//
// A watch may end after its first event, and may report deletions only: in ZooKeeper each Touch of
// the leader would otherwise wake the candidate behind it. The back end should give up on a request
// after at most Config.RequestTimeout: only one of a kind is in flight.
//
// In etcd's dialect, the hold-off covers an operator that deletes the leader's key or revokes its
// lease. Without a hold the next candidate then leads at once, and the leader ends when its watch
// or its next check reports it. A clock beyond ρ, in a store's server or here, breaks the claim;
// then only the token protects. Candidates of other programs in the same queue keep the order, but
// know no hold-off and no mark. ServersFixed has to be the same in all participants, because one
// without a hold writes no mark either. MaxHold has to be raised in all of them before any Hold is
// raised above it.
//
// # Where it goes beyond its rules
//
// The mark "held" is written after the hold-off, not with the check that the entry is first. If it
// were written before, and this winner died while it waits, the mark would hide the longer hold of
// the previous tenure from the next winner. For the same reason only a winner that has waited may
// write "free". A mark that was never written counts as held, because a recreated queue has lost
// it.
//
// A session that the runtime's client has opened by itself, in place of a lost one, is closed with
// the candidacy: an Enter that was carried out in it has left an entry that would live, and block
// the queue, as long as the process.
//
// Answers to asks from before an event of a watch, or from before the end of the wait, are dropped:
// an old answer that all is well must not outweigh the watch, and an old answer that another entry
// is first must not end a tenure.
//
// A claim that has lapsed while the candidate waited is renewed before it verifies, and keeps its
// place. If the answer to that renewal comes too late as well, it leaves: a candidate too far from
// the store to lead must not stay first. The same holds for a candidate that may be first and has
// asked in vain for a TTL: its requests may be carried out, and so keep its session alive, although
// no answer comes in time. It closes its session. Behind a known entry it stays for MaxTTL: when
// the store itself does not answer, all wait, and none loses its place. A tenure that cannot delete
// its entry, with "free", within its hold closes its session instead.
//
// Work that does not return after its claim has lapsed does not block the election for ever. In
// etcd's dialect the session is no longer renewed. In ZooKeeper's, where the client keeps it alive
// as long as the process lives, it is closed TTL − Hold after the claim's end, so that work that
// returns in between has time to write "free"; the next winner waits for its hold, as for an
// expired session. No claim is left by then, but the work may go on: only the token protects
// against that. A tenure that ends by command is renewed, and keeps its entry, until its work has
// returned.
//
// Watches get lost, so a waiter checks from time to time with Verify, whose answer has one entry;
// listing the queue would cost the square of its length.
package queue

// Name is the protocol's name in configurations and traces.
const Name = "queue"

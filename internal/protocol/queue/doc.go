// Package queue elects over a store that has sessions and keeps entries in the
// order of their creation: ZooKeeper (ephemeral sequential znodes) and etcd
// (keys bound to a lease, ordered by create revision). A [Machine] is owned by
// one goroutine; it never fails, and what it cannot go on from is told in
// [protocol.View].Fault.
//
// # Protocol
//
// A candidate opens a session of its own, enters, and waits for the entry just
// before its own to go. When it is first it verifies that, and leads with its
// own entry's order as token. When its work has returned, it leaves.
//
//	opening → entering → listing ⇄ waiting
//	             ↓ ↑        ↓
//	    syncing, scanning   renewing or touching → verifying → leading → fencing → freeing → closing → idle
//
// It leaves from anywhere before leading, by way of closing.
//
// The shape is that of ZooKeeper's recipe for leader election and of etcd's
// clientv3/concurrency. What is different: being first is never enough. The
// holder's claim has a deadline that counts from before a request left (Q5,
// Q6), a win is read back from the store when the wait is over (Q4), and an
// entry serves one tenure (Q1).
//
// Rule by rule: Q1, Q2 in enter.go; Q3 in wait.go; Q4 in verify.go; Q5 in
// claim.go; Q6 in claim.go and hold.go; Q7 in tenure.go; Q8 in leave.go; Q9 in
// config.go and enter.go. What a name of an election or a sequence number may
// be is for the back end to refuse, as it alone sees them.
//
// # Guarantee
//
// While every clock's rate is within 1 ± ρ of true time, no two machines have a
// proven lease at one true instant, and tokens rise from tenure to tenure.
//
// A session may end at any time as far as its client can know. So a claim rests
// on the entry: it ends H·(1−ρ)/(1+ρ) after the sending of a request that the
// entry's existence was a condition of, and a winner waits after it first saw
// that no entry is before its own (hold-off), unless the last tenure's work is
// known to have returned. The request was committed before the entry went, and
// the entry went before that was seen. H is the holder's hold. The winner reads
// it in the queue's mark, which the holder wrote before it led, and waits for
// the longer of it and its own; where no mark tells it, for MaxHold. So holds may
// differ between participants, as they do while a setting is rolled out.
//
// etcd with ServersFixed needs no hold. A key goes with its lease, and that
// lives for TTL/(1+ρ) after the server saw the request that is counted from
// before it was sent. So the claim ends before the key does, and the next one is
// first only after that.
//
// # What it assumes, and what breaks it
//
// Of the session's time nothing is assumed where there is a hold. That is the
// default in both dialects.
//
// Of etcd with ServersFixed and without a hold: its servers' clocks too stay
// within ρ; heartbeats between them and their answers are prompt; and a leader
// that hung or was paused hears of its successor, or asks a majority whether it
// still leads, before it renews or revokes a lease. Only then has a leader that
// was deposed fallen silent two election timeouts after it was last heard
// (config.go, margin). What there is of delay is for the guard to cover.
//
// etcd's servers do not keep to that up to 3.4.30 and 3.5.12 (issue 15247): a
// leader whose raft loop waits for a disk goes on renewing leases that its
// successor ends, and when it goes on it has leases revoked that its successor
// has renewed. Pull request 16822 has it ask a majority first. It is in 3.6.0,
// and was brought back to 3.5.13 (17425) and 3.4.31 (17465). From 3.5.16, 3.6.0
// and by 3.4.34 on a server skips that question if its clock has ticked in the
// last three heartbeats. So one that was paused and has ticked again may still
// answer before it hears of its successor, and between the question and what
// follows any server may be paused. The mend makes that a matter of moments; it
// does not rule it out. A hold does.
//
// Of the back end: a reading of the clock before a request leaves and after its
// answer has come; the queue's mark is read no earlier than the entries of the
// same list; one answer to an ask, paired with it; after CloseSession no
// request of that session takes effect, nor does one of a session that the
// client opened in its place; after Sync, on the same session, no earlier one
// does (a ZooKeeper server refuses what comes from a connection that the
// session has left); an entry is told by its order, not by its key, and has its
// session in every answer; Answer.Session, if it is not 0, is the session that
// the request was carried out in.
//
// A watch may end after its first event, and may keep to itself what is no
// deletion: in ZooKeeper each Touch of the leader would otherwise wake the one
// behind it. The time after which a request is given up should be at most
// Config.KeepAliveEvery: one in flight is all that there is.
//
// In etcd's dialect somebody who deletes the leader's key, or revokes its
// lease, is covered by the hold-off. Without a hold it lets the next one lead at
// once, and the leader ends when its watch or its next look tells it. A
// clock beyond ρ, in a store's server or here, breaks the claim; then only the
// token helps. Candidates of other programs in the same queue keep the order,
// but know no hold-off and no mark. ServersFixed has to be the same at all
// participants, because one without a hold writes no mark either. MaxHold has to
// be raised at all of them before any Hold is raised above it.
//
// # Where it goes beyond the rules it was made from
//
// The mark "held" is written after the hold-off, not with the check that the
// entry is first: written before, it would hide the longer hold of the tenure
// before from whoever comes next if this winner dies while it waits. For the
// same reason only who has waited may write "free". A mark that was never
// written counts as held, because a queue that was made anew has lost it.
//
// A session that the runtime's client has opened by itself, in place of one that
// was lost, is closed with the candidacy: an Enter that was carried out in it
// has left an entry that would live, and block the queue, as long as the process
// does.
//
// What was asked before a watch told of a change, or before the wait was over,
// is not heard: an old "all is well" must not outweigh the watch, and an old
// "another is first" must not end a tenure.
//
// A claim that has lapsed while the candidate waited is renewed before it
// verifies, and keeps its place. If even that renewal's answer comes too late,
// it leaves: whoever is too far from the store to lead must not stay first. The
// same is so of one that may be first and has been asking in vain for a TTL: its
// requests may be carried out, and so keep its session alive, though no answer
// comes in time. It closes its session. Behind an entry that is known it stays
// for MaxTTL: when the store itself does not answer, all wait, and none loses its
// place. A tenure that cannot delete its entry, with "free", within its hold
// closes its session instead.
//
// Work that does not return after its claim has lapsed keeps nobody out for ever.
// In etcd's dialect the session is not prolonged any more. In ZooKeeper's, where
// the client keeps it alive as long as the process lives, it is closed TTL − Hold
// after the claim's end, which leaves work that returns in between the time to
// say "free"; the next one waits for its hold, as for a session that has expired.
// No claim is left by then, but the work may run on: only the token helps
// against that. A tenure that ends by its own will is renewed, and keeps its
// entry, until its work has returned.
//
// Watches get lost, so a waiter looks by itself now and then, by Verify, whose
// answer has one entry; listing the queue for that would cost the square of its
// length.
package queue

// Name is the protocol's name in configurations and traces.
const Name = "queue"

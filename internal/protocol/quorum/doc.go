// Package quorum elects a leader among one to nine voters that keep no log. It
// is Raft's election (terms, one durable vote a term, a majority) with the
// lease separated from the election:
//
// Votes elect early. Every voter reports its residual, the time for which it is
// still promised to earlier holders, and the winner waits that out before it
// acts.
//
// So a crash, or what looks like one, can start an election at once.
// Exclusivity does not depend on whether that suspicion was right.
//
// # Two events
//
// [protocol.Elected] is ordered at the win. The token (the term) is unique and
// above that of every earlier tenure; work whose every effect is fenced by it
// may begin. [protocol.Lead] is ordered when the tenure starts: the winner has
// waited until notBefore, and a quorum has promised to let no other participant
// act before leaseEnd. [protocol.View].Proven tells at any instant, without
// I/O, whether that still holds.
//
// # The lease
//
// A heartbeat asks each voter for a promise of D_V. The voter counts it from
// the receipt, on its own clock. The leader claims D_L from the instant before
// it sent the heartbeat, on its own clock. With clock rates within 1 ± ρ,
//
//	D_L ≤ D_V · (1−ρ)/(1+ρ) − guard
//
// and so the claim ends before the promise in true time:
// real(send) + D_L/(1−ρ) ≤ real(recv) + D_V/(1+ρ).
//
// # Guarantee
//
// While every clock's rate is within 1 ± ρ of true time, no two machines have a
// proven lease at one true instant, no two are elected with one token, and
// tokens rise from tenure to tenure. A tenure that is over never comes back.
//
// After a leader gives up its term it renews the lease until its work has
// returned, so no other participant leads before that, as long as the leader
// reaches a quorum. A jump of the clock, a lapse and a leader of a higher term
// end a tenure at once, and nothing is renewed after that: work that goes on is
// covered until the end of the lease that it had.
//
// An election may overlap with a lease: two participants may be Elected at one
// time, but never with one token. Work that begins at [protocol.Elected] relies
// on its token alone.
//
// When a leader falls silent, and a majority of voters reach each other and
// complete each of their rounds within a slot, another participant leads within
// [Config.WorstTakeover], unless candidates collide. After a release, or a
// witness's word, it does not wait for promises that these have ended.
//
// # What it assumes, and what breaks it
//
// Of the driver: a message leaves after the save that it names is durable; a
// save that was reported durable is read at the next start; clocks are read
// before a message is sent and after one is received; the sender of a message
// is authenticated. Messages may be lost, doubled, late and out of order.
//
// A disk that was cloned, or restored from an older copy, has forgotten votes.
// Its voter may vote twice in a term, so that two candidates win with one
// token, and may reuse an incarnation that others have already seen. No
// guarantee holds then; the operator has to raise the era of tokens. A slot
// whose checksum fails has the same effect if it was the latest one: the older
// slot is such a copy. An emptied disk is safe. Its directory has another
// identity, which is no voter of the membership.
//
// Two processes with one directory are one voter that votes twice, and one
// leader that leads twice. The driver locks the directory.
//
// A leader whose clock is beyond ρ may outlast the promises that it was given,
// and a voter whose clock is may end its own promise early: two leases may
// overlap. Tokens still rise, and only they protect. A leader notices such a
// clock, its own included, by the acks, and acts on it (R17): within a heartbeat
// or two if the rates differ by half, within eight promises if they differ by
// little more than is allowed. Until then only tokens protect.
//
// Two changes of a clock that cancel out between two readings are not noticed.
// A jump shows as a changed difference of the two clocks: while a machine
// sleeps, the Boot clock gains on the other. If it is set back by as much before
// the next step or [protocol.View].Proven, the difference is as before, the time
// of the sleep is missing, and a lease that has ended looks proven.
//
// A witness's word (R9) declares dead the incarnation that it names and all
// earlier ones. It is true only if the work of all of them is over. If a keeper
// speaks for an incarnation while the work of an earlier one still runs, voters
// drop the promises that protect that work. Only the keeper of that voter may be
// able to send it. It does not shorten a boot residual: a voter that has
// restarted waits for that to end, whatever a witness says.
//
// Work that outlives its process without a keeper is covered until the end of
// the last lease that it was given. It has to end itself by then.
//
// # Choices
//
// Where the rules leave something open:
//
//   - The vote requests leave before the candidate's own vote is durable; that
//     vote counts once it is. An incarnation that ends before has won nothing.
//   - A leader keeps no entry for itself among its promises. It votes for no
//     other candidate until its work has returned (R6), and owes nothing then.
//   - Votes for a stranded leader in earlier rounds count as votes for it: a
//     grantor whose previous vote went to this leader has voted for no other
//     candidate in between (R5).
//   - A leader without a live lease does not stand above a higher term that it
//     is told of. It may be the late winner of a lower term (R5).
//   - A voter acks again whenever its promises to others are dropped: the winner
//     may be waiting for that alone (R9).
//   - A clock that jumped ends a tenure, pending or not, and makes a voter owe
//     its longest promise to no particular holder (R16).
//   - Elections without a winner, its own or those of others, delay a voter's
//     next one: a disk slower than a slot must not make elections collide for
//     ever. A round goes on while the candidate's own vote is being saved. A
//     voter that has voted for another candidate does not stand before that vote
//     is durable, and for as long again: the time of a save on one disk is an
//     estimate for the others. In case it is a bad one, each failure doubles the
//     time for votes, up to four promises (R11).
//   - A leader counts the absence of its quorum from the win, not from the vote
//     requests, whose answers may have waited for disks. This is no evidence: e_q
//     is unchanged, and no lease counts from it (R8).
//   - A leader whose work has returned tells the voters, whatever ended its term:
//     a release is as true after a supersession, a lapse or a jump of the clock
//     (R9).
//   - Every release hands over to the best successor, if one answers and would
//     stand. It saves the successor the pre-vote (R10).
//   - The token of a transfer is the release itself, shown by another
//     participant. Both are made when the work has returned, and both stay true
//     for ever (R10).
//   - What was claimed of a lease stays claimed when the membership changes. The
//     promises cover it, because each majority of the new membership contains a
//     voter that gave one. The next change waits until a majority of the new
//     membership has promised as much (R15).
//   - A membership that a leader has saved is installed even if its tenure has
//     ended in the meantime: a restart would do the same (R15).
//   - Confirm commands are counted in every role. View.Confirmed is the number
//     that had been given when the latest round trip that a quorum has answered
//     began.
//
// # Rules
//
// The code refers to the rules by these numbers.
//
//	R1   restart: boot residual, a quiet while          restart.go
//	R2   pre-vote, stickiness, hints                    prevote.go, sticky.go
//	R3   vote: one a term, durable before the answer    vote.go
//	R4   win                                            win.go
//	R5   stranded higher term                           stranded.go
//	R6   another winner of a higher term: fence first   fence.go
//	R7   acks and promises                              promise.go, heartbeat.go, lease.go
//	R8   check-quorum                                   quorumcheck.go
//	R9   release, by the holder and by a witness        release.go
//	R10  transfer                                       transfer.go
//	R11  timing                                         timing.go
//	R12  priority                                       priority.go
//	R13  position                                       position.go
//	R14  observers, memberships                         membership.go
//	R15  reconfiguration                                reconfigure.go
//	R16  hygiene: clocks, disk, health                  hygiene.go
//	R17  clocks whose rates differ too much             pace.go
//
// # Sources
//
// Raft (Ongaro, 2014) for terms, votes, pre-vote and check-quorum; LeaseGuard
// (arXiv 2512.15659) and CockroachDB's leader leases for leases beside an
// election; Schultz, Dardik and Tripakis (2021) for memberships without a log;
// Omni-Paxos (EuroSys 2023) for partial partitions; KIP-996 and BlazingMQ's
// scouting for pre-vote.
//
// # Use and failure
//
// A [Machine] is owned by one goroutine. [New] refuses configurations that
// cannot hold. A machine that cannot read its durable state is Halted and does
// nothing. A machine whose disk fails keeps acking within the term that it has
// saved, gives up leadership, votes for no candidate, and tries to save again
// every heartbeat. A voter that lies is outside the fault model.
package quorum

// Package quorum elects a leader among one to nine voters that keep no log. It
// is Raft's election (terms, one durable vote a term, a majority) with the
// lease taken apart from the election:
//
// Votes elect early. Every voter reports how long it is still promised to
// earlier holders, its residual, and the winner waits that out before it acts.
//
// So a crash, or what looks like one, can start an election at once, and
// exclusivity never rests on having guessed right.
//
// # Two events
//
// [protocol.Elected] is ordered at the win. The token (the term) is unique and
// above that of every earlier tenure; work whose every effect is fenced by it
// may begin. [protocol.Lead] is ordered when the tenure starts: the winner has
// waited until notBefore and a quorum has promised not to let another act
// before leaseEnd. [protocol.View].Proven tells at any instant, without I/O,
// whether that still holds.
//
// # The lease
//
// A heartbeat asks each voter for a promise of D_V; the voter counts it from
// the receipt, on its own clock. The leader claims D_L from the instant before
// the heartbeat was sent, on its own. With clock rates within 1 ± ρ,
//
//	D_L ≤ D_V · (1−ρ)/(1+ρ) − guard
//
// and so the claim ends before the promise in true time:
// real(send) + D_L/(1−ρ) ≤ real(recv) + D_V/(1+ρ).
//
// # Choices
//
// Where the rules leave something open:
//
//   - The questions of a vote leave before the own vote is durable; it is counted
//     when it is. A life that ends in between has won nothing.
//   - A leader gives its own promise to itself no entry among its promises.
//     It helps nobody until its work has returned (R6), and then owes nothing.
//   - Ballots of earlier rounds of one stranded leader count as its own: a
//     grantor whose last vote went to it has voted for nobody else (R5).
//   - A leader without a live lease does not stand above a higher term that it is
//     told of. It may be the late winner of a lower one (R5).
//   - Whenever a voter's promises to others are dropped, it acks again: the
//     winner may be waiting for nothing else (R9).
//   - A clock that jumped ends a leadership, pending or not, and makes a voter owe
//     its longest promise, to nobody in particular (R16).
//   - Elections that no leader comes of, own or others', stretch the next ones: a
//     disk that is slower than a slot must not make them collide for ever (R11).
//   - Confirm commands are counted whoever leads. View.Confirmed is how many had
//     been given when the latest round trip that a quorum has answered began.
//
// # Rules
//
// The numbers are used throughout the code.
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
//	R10  transfer                                       not yet
//	R11  timing                                         timing.go
//	R12  priority                                       not yet
//	R13  position                                       not yet
//	R14  observers, memberships                         membership.go
//	R15  reconfiguration                                not yet
//	R16  hygiene: clocks, disk, health                  hygiene.go
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
// nothing. One whose disk fails goes on answering within the term that it has
// saved, gives leadership up, votes for nobody, and tries to save again every
// heartbeat. A voter that lies is outside the fault model.
package quorum

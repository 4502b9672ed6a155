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
// # Guarantee
//
// While every clock's rate is within 1 ± ρ of true time, no two machines have a
// proven lease at one true instant; no two are elected with one token, and
// tokens rise from tenure to tenure. A tenure that is over never comes back.
// While the work of a term that was given up returns, its lease is renewed, so
// that nobody else leads before as long as a quorum can be reached. A clock that
// jumped, a lapse and a leader of a higher term end a tenure at once, and nothing
// is renewed any more: work that goes on is covered until the lease ends that it
// had.
//
// Elections may overlap with a lease: two may be Elected at one time, never with
// one token. Work that begins at [protocol.Elected] relies on its token alone.
//
// When a leader has fallen silent, and a majority that can talk to each other
// gets each of its rounds done within a slot, another one leads within
// [Config.WorstTakeover], unless candidates collide; after a release, or a
// witness's word, it waits for no promise that this has ended.
//
// # What it assumes, and what breaks it
//
// Of the driver: a message leaves after the save that it names is durable; a
// save that was reported durable is read at the next start; clocks are read
// before what is sent and after what is received; messages come from whom they
// say they do. They may be lost, doubled, late and out of order.
//
// A disk restored from an older copy, or cloned, has forgotten votes: its voter
// may vote twice in a term, so that two win with one token, and may begin an
// incarnation again that others know things about. Nothing holds then; the
// operator has to raise the era of tokens. So it is with a slot whose checksum
// fails if it was the latest one: the older slot is such a copy. An emptied disk
// is safe instead. Its directory has another identity, and that one is no voter
// of the membership.
//
// Two processes with one directory are one voter that votes twice, and one
// leader that leads twice. The driver locks the directory.
//
// A clock beyond ρ outlasts what was promised to it, or forgets early what it
// promised: two leases may overlap. Tokens still rise; only they help. A leader
// notices such a clock by the acks, its own included, and acts on it (R17): in a
// heartbeat or two if the rates differ by half, in eight promises at most if they
// differ by little more than is allowed. Until then nothing helps but tokens.
//
// Two changes of a clock that cancel out before anybody looks are not seen. A
// jump shows as a changed difference of the two clocks: while a machine sleeps
// the Boot clock gains on the other, and if it is set back by as much before the
// next step or [protocol.View].Proven, the difference is as before, the time
// that was slept is missing, and a lease that has ended looks proven.
//
// A witness's word (R9) buries the life that it names and all earlier ones. It
// is true only if the work of all of them is over: of a keeper that speaks for a
// life while the work of an earlier one still runs, voters drop the promises
// that protect that work. Nobody but the keeper of that voter may be able to say
// it. What no promise of this life covers stays: a voter that has restarted
// waits its boot residual out, whatever a witness says.
//
// Work that outlives its process without a keeper is covered until the lease
// ends that it was last given. It has to end by then, by itself.
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
//     disk that is slower than a slot must not make them collide for ever. A round
//     goes on while the own vote is being saved, and who has voted for another does
//     not stand before that vote is durable, and for as long again: saves on one
//     disk tell how long those on the others take. Where they do not, each failure
//     doubles the time that votes have, up to four promises (R11).
//   - A leader misses its quorum from the win on, not from when it asked for the
//     votes, which may have waited for disks. That is no evidence: e_q is as it was,
//     and no lease counts from it (R8).
//   - Whoever's work has returned says so to the voters, whatever has ended its term:
//     a release is as true after a supersession, a lapse or a jump of the clock (R9).
//   - Every release hands over to the best successor, if one answers and would
//     stand: it saves the successor the question whether it could win (R10).
//   - The token of a transfer is the release itself, shown by somebody else. Both
//     are made when the work has returned, and both are true for ever (R10).
//   - What was claimed of a lease stays claimed when the membership changes. It is
//     covered by the promises of those who gave them, because a majority of the
//     new membership has one of them; the next change waits until a majority of
//     the new one has promised as much (R15).
//   - A membership that a leader had saved is installed even if its leadership has
//     ended by then: a restart would do the same (R15).
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
//	R10  transfer                                       transfer.go
//	R11  timing                                         timing.go
//	R12  priority                                       priority.go
//	R13  position                                       position.go
//	R14  observers, memberships                         membership.go
//	R15  reconfiguration                                reconfigure.go
//	R16  hygiene: clocks, disk, health                  hygiene.go
//	R17  clocks that do not run alike                   pace.go
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

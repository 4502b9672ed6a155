// Package bully is the bully algorithm as textbooks tell it (A. Tanenbaum, M. van
// Steen, "Distributed Systems"). It goes back to H. Garcia-Molina, "Elections in a
// Distributed Computing System", IEEE Transactions on Computers C-31(1), 1982. Of
// those who are alive, the one with the highest id leads, and takes the lead from
// any other when it comes back.
//
// The paper's own algorithm elects the same one with other messages, each a call
// that is answered or times out. Who begins asks those above whether they are up
// (AreYouUp). If none is, it has those below stop what they do (Halt), tells them
// that it coordinates (NewCoordinator), and lets them go on with what they need
// for it (Ready). A coordinator asks the others now and then whether all is normal
// (AreYouNormal), and who has not heard from it asks whether it is up. Here it is
// the three messages of the books.
//
// # The idea
//
// Who misses the coordinator sends [Election] to all with a higher id. Each of
// them that is alive answers [OK], which ends the asker's hopes, and begins an
// election of its own, unless it is in one. Who gets no answer in time has won,
// and tells all with a lower id by [Coordinator]. A participant that starts, or
// comes back as a candidate, begins an election.
//
// # Messages
//
// All carry Incarnation, the sender's boot counter, and Term, an epoch: that of
// the tenure in Coordinator and [Alive], the highest that the sender has heard of
// in Election and OK. Election carries the Round of the asker; OK repeats it and
// carries the asker's incarnation in Echo. Nothing else is used.
//
// # What it costs
//
// With n ids, of which the highest is dead and the i-th begins, m = n−i:
//
//	Election     m(m+1)/2   each of the m that are alive, from i on, to all above it
//	OK           m(m−1)/2   to each Election but the m to the dead one
//	Coordinator  n−2        from the (n−1)-th to all below it
//
// in all m²+n−2, and n²−n−1 if the lowest begins. Coordinator goes to all lower
// ids and to nobody else, which is what the formula counts: a higher one did not
// answer. If it is alive all the same it hears the next Alive, and takes the
// lead, or follows if it does not stand.
//
// # What had to be added
//
// The books assume that somebody notices a failure, and, with the paper, that who
// is up answers in time. Here the coordinator says Alive to all others every
// [Config.Heartbeat]; [Config.Silence] without it, and without a Coordinator
// after an OK, begins an election. Answers are awaited for [Config.Answer].
//
// A coordinator that is asked answers, and says Coordinator to the asker: the
// restart of a lower one costs messages and no tenure.
//
// An epoch numbers tenures, so that there is a token at all. A winner raises it
// above all that it has heard of, and has it on disk before it says so. Who is
// told of a tenure with a lower epoch than it knows of does not follow, but begins
// an election, which carries what it knows; a coordinator that hears of a higher
// epoch, or of its own as another's, stops and stands anew, because its token
// would be refused.
//
// # What it promises, and what not
//
// If messages arrive in time and are not lost, and who is alive answers in time,
// then the one with the highest id among them leads, and nobody else does after
// its Coordinator has arrived. A token is never used twice by one participant,
// across restarts too.
//
// Nothing holds beyond that. There is no majority: each side of a partition
// elects its own highest, and one that is slow rather than dead is joined by a
// second coordinator. Two tenures may have one token. When the sides meet, the
// lower coordinator gives up. Where links are cut one way, or between some only,
// coordinators may depose each other for as long as that lasts. Whoever claims
// the highest id, or epoch, wins: nobody checks. Who claims [MaxEpoch] to all
// ends elections for good: there is no later one, it is saved, and nobody stands
// any more. There is no lease: the orders are [protocol.Elected] and
// [protocol.Stop], never [protocol.Lead].
//
// A machine is owned by one goroutine. It fails only if it cannot read its
// ballot: then it halts, and View.Fault says why. A heartbeat allocates nothing.
// The memory of a machine beside the shared Config.Members does not grow with
// their number.
package bully

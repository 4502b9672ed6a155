// Package bully is the bully algorithm as described in textbooks (A. Tanenbaum, M. van Steen,
// "Distributed Systems"). It goes back to H. Garcia-Molina, "Elections in a Distributed Computing
// System", IEEE Transactions on Computers C-31(1), 1982. The participant with the highest id among
// those that are alive leads, and takes leadership from any other when it returns.
//
// The paper's own algorithm elects the same participant with other messages, each a call that is
// answered or times out. A participant that begins asks those above it whether they are up
// (AreYouUp). If none is, it stops those below (Halt), tells them that it coordinates
// (NewCoordinator), and resumes them (Ready). A coordinator asks the others from time to time
// whether all is normal (AreYouNormal), and a participant that has not heard from it asks whether
// it is up. This package uses the three messages of the books.
//
// # The idea
//
// A participant that misses the coordinator sends [Election] to all with a higher id. Each of them
// that is alive answers [OK], after which the asker cannot win, and begins an election of its own,
// unless it is in one. A participant without an answer in time has won, and tells all with a lower
// id by [Coordinator]. A participant that starts, or becomes a candidate again, begins an election.
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
// in all m²+n−2, and n²−n−1 if the lowest begins. Coordinator goes to all lower ids only, as the
// formula counts: a higher one did not answer. If that one is alive nevertheless it hears the next
// Alive, and takes leadership, or follows if it does not stand.
//
// # What had to be added
//
// The books assume that failures are noticed, and, with the paper, that a live participant answers
// in time. Here the coordinator sends Alive to all others every [Config.Heartbeat]; after
// [Config.Silence] without it, or without a Coordinator after an OK, an election begins. Answers
// are awaited for [Config.Answer].
//
// A coordinator that is asked answers, and sends Coordinator to the asker: the restart of a lower
// one costs messages but no tenure.
//
// An epoch numbers tenures, so that there is a token. A winner raises it above all that it has
// heard of, and saves it before it announces its win. A participant that is told of a tenure with a
// lower epoch than it knows does not follow, but begins an election, which carries what it knows. A
// coordinator that learns of a higher epoch, or of its own as another's, stops and stands again,
// because its token would be refused.
//
// # What it promises, and what not
//
// If messages arrive in time and are not lost, and live participants answer in time, then the one
// with the highest id among them leads, and no other does after its Coordinator has arrived. A
// participant never uses a token twice, across restarts too.
//
// Nothing holds beyond that. There is no majority: each side of a partition elects its own highest,
// and a second coordinator is elected beside one that is slow rather than dead. Two tenures may
// have one token. When the sides meet, the lower coordinator gives up. Where links are cut one way,
// or between some only, coordinators may depose each other as long as that lasts. A participant
// that claims the highest id, or epoch, wins without a check. One that claims [protocol.MaxCount] to all
// ends elections for good: there is no later one, it is saved, and none stands any more. There is
// no lease: the orders are [protocol.Elected] and [protocol.Stop], never [protocol.Lead].
//
// A machine is owned by one goroutine. It fails only if it cannot read its ballot: then it halts,
// and View.Fault says why. A heartbeat allocates nothing. Apart from the shared Config.Members, a
// machine's memory does not grow with their number.
package bully

// Package ring elects by a token that travels around a ring: as described in textbooks (A.
// Tanenbaum, M. van Steen, "Distributed Systems", the ring algorithm; it goes back to G. Le Lann,
// 1977), or with [Config.ChangRoberts] as in E. Chang and R. Roberts, "An improved algorithm for
// decentralized extrema-finding in circular configurations of processes", Communications of the ACM
// 22(5), 1979.
//
// # The idea
//
// Each participant knows the order of all around a ring, and sends to its successor only: the next
// one that is alive; dead ones are skipped. A participant that misses the coordinator sends an
// [Election] with its id; each adds its own and passes the list on. A participant that finds its
// own id in the list knows that it has come round: the highest id in it has won, and a
// [Coordinator] travels around the ring to tell all.
//
// Chang and Roberts send one id instead of a list. A higher one is passed on; a lower one is
// dropped, and its receiver sends its own if it has not yet. A participant that receives its own id
// has won.
//
// # What it costs
//
// On n live participants:
//
//	Election     n         for each that begins; n(n+1)/2 at most, 2n−1 at least,
//	                       and n·Hₙ on average (Chang and Roberts, all begin)
//	Coordinator  n         for each that begins; once (Chang and Roberts)
//
// so 2n for one that begins, 2kn for k. [Alive] and [Ack] are not counted: with them a participant
// knows which ones are dead before it has anything to send. A token goes to one that is believed to
// be alive, and no Election is sent to one that is known to be dead.
//
// # Messages
//
// All carry Incarnation, the sender's boot counter, and Term, the highest epoch known to any
// participant on the way. Election and Coordinator carry the incarnation and the Round of the
// participant that began in Echo and Round, and count hops in Seq. Election carries the list in
// Body, ids with a space between them, the first of the participant that began. Coordinator carries
// the list from the participant that turned it around, which also takes it off the ring, and the
// winner in Leader, with its epoch from the winner on. Chang and Roberts' Election carries the id
// in Leader, with its incarnation, and Coordinator no list. Alive and Ack carry the known leader in
// Leader, Ack the asker's incarnation in Echo. An Ack with a Term in Leader and no ID says that the
// tenures up to it are over.
//
// # What had to be added
//
// The books assume that dead participants are known. Here each participant sends Alive to its
// successor every [Config.Heartbeat]; one that has not answered for [Config.Silence] is skipped.
// The next eight are asked at once, and the nearest that answers within [Config.Answer] is the
// successor; if none does, the eight after them. The skipped ones are asked again with each
// heartbeat, the nearest eight or eight in turn. So the participant before the coordinator notices
// its death, and usually begins alone. In Alive and Ack each names the leader that it follows: a
// participant that was away, or missed the Coordinator, learns it there.
//
// The books let every participant that notices a failure stand. Here it may have withdrawn, be
// unhealthy or paused, or its disk may fail; it then begins nothing, and no other would learn that
// the coordinator is gone. So a participant that has lost its coordinator and does not stand says
// in its Acks that the tenure is over. One that asks it loses that coordinator too, and says so in
// turn, or stands and begins. This travels backwards around the ring, in at most a Heartbeat for
// each participant that does not stand. While those that notice stand, nothing is added.
//
// A participant that was frozen has asked none meanwhile. It asks its successor once more, and
// awaits the answer, before it skips it.
//
// A token is lost with its holder. A participant that has seen one, and learns of no outcome for
// Silence, begins again.
//
// An epoch numbers tenures, so that there is a token. The winner raises it above all epochs that
// those on the list know, and saves it before it passes the Coordinator on. Of two that claim to
// lead, the later epoch counts, and with equal epochs the higher id. A leader that wins again goes
// on in its epoch; one that learns of a later epoch stops, because its token would be refused.
//
// A restart begins no election: the participant learns the leader, whether its own id is higher or
// not. A leader that has lost its memory finds that others follow it, and begins one; so do its
// neighbours.
//
// # What it promises, and what not
//
// If messages arrive in time and are not lost, and dead participants do not return meanwhile, then
// an election ends with the highest id among the candidates as the leader, and all of them know it.
// A participant never uses a token twice, across restarts too.
//
// Nothing holds beyond that. There is no majority: each side of a partition makes a ring of its
// own, and elects. Two tenures may have one token. When the sides meet, the later tenure counts and
// the other ends, or both do and a third begins. A leader that its predecessor cannot reach is
// replaced, and may go on beside its successor as long as it hears from no other. A participant
// that claims the latest epoch wins without a check. One that claims [protocol.MaxCount] ends all elections
// for good: there is no later one, it is saved, and none stands any more. There is no lease: the
// orders are [protocol.Elected] and [protocol.Stop], never [protocol.Lead].
//
// A machine is owned by one goroutine. It fails only if it cannot read its ballot: then it halts,
// and View.Fault says why. A heartbeat allocates nothing. Apart from the shared Config.Members and
// Config.Ring, a machine's memory does not grow with their number.
package ring

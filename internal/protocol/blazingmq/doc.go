// Package blazingmq is the leader election that BlazingMQ describes, as a
// [protocol.Machine]: terms and majorities as in Raft, heartbeats, random waits,
// and a question before every proposal.
//
// Sources: the article "Leader Election and State Machine Replication in
// BlazingMQ" (bloomberg.github.io/blazingmq/docs/architecture/election_rsm), the
// code (github.com/bloomberg/blazingmq, src/groups/mqb/mqbnet/mqbnet_elector.cpp)
// and the TLA+ specification beside it (etc/tlaplus). Where they differ, this is
// said below.
//
// # The idea
//
// A participant that misses a leader waits for a random time of up to 3 s. Then it asks all others
// whether they would support it in the next term (ScoutingRequest); it has not raised its own term
// yet. A participant that sees a leader answers No. With a majority of Yes it raises its term and
// proposes itself (ElectionProposal). A participant that sees no leader and has a lower term
// supports it (ElectionResponse) and adopts the term, so that it supports no other in it. A
// majority makes it leader. It sends a heartbeat at once and every 2 s (LeaderHeartbeat). A
// follower that misses three heartbeats in a row has lost its leader; one that was told that the
// leader's connection has closed, or that it cedes, has lost it at once. Logs play no part: any
// participant may lead.
//
// [Config.Mode] is one of three electors:
//
//   - Naive, which the article starts from: no scouting, and every higher term is accepted, by a
//     leader too. A node that was cut off returns with a higher term and deposes a healthy leader;
//     two nodes that cannot see each other depose each other for ever.
//   - Sticky, the code without scouting: a participant that sees a leader ignores proposals. No
//     leader is deposed while the cut lasts. But the one that was cut off has raised its term with
//     every try. After the healing it answers the leader's heartbeat with it (HeartbeatResponse),
//     and the leader gives up.
//   - Scouting, the code as it is: neither happens, because no participant raises its term without
//     a majority that misses the leader.
//
// # What it promises, and what not
//
// Terms rise, and a leader of a higher term deposes one of a lower term that learns of it. A leader
// that is cut off leads on until then: two may lead at one time, in different terms, for an unknown
// time. There is no lease. View.Elected is between the orders Elected and Stop, the token is the
// term, and View.Active is never set.
//
// One leader in a term is promised only while no participant restarts. The elector keeps its term
// in memory, and its vote nowhere; a broker that starts takes the term of the newest record in its
// cluster state ledger, which is that of the last leader it followed (ClusterOrchestrator::start).
// So a participant that voted in a term without a leader, or has not yet heard that leader, forgets
// this with its process, and may vote in that term again. Then two may lead in one term, each with
// a majority, and neither deposes the other: the machines here and the code alike keep the leader
// that was heard first. Tokens may fall too, when a majority restarts. The TLA+ specification
// assumes that the term survives a restart; [Config.Durable] implements this, and then there is one
// leader in a term.
//
// A leader does not count the answers to its heartbeats: followers do not answer them. So a leader
// that has lost its majority, but still reaches one follower, keeps that one's No, and where the
// others need it for their majority none is elected. It is the deadlock of a pre-vote alone, which
// a leader that checks its quorum would end. BlazingMQ's leader steps down when enough connections
// break; a network that drops packets breaks none for a while.
//
// # Leader sequence numbers
//
// A leader numbers its messages from 1 in each term: [LSN], (Term, Counter), ordered by term first,
// so that a receiver can tell which message is older. BlazingMQ numbers the records of its ledger
// so. Here heartbeats are a leader's only messages; they carry Term and Seq, and [Machine.LSN] is
// the newest.
//
// # Messages of one election
//
// n members in a perfect network, one that stands, all others follow:
//
//	             all n alive   the old leader dead (its messages are sent, too)
//	naive, sticky    3n−3        3n−4     proposals, responses, first heartbeats
//	scouting         5n−5        5n−7     and questions and answers before
//
// # Where this differs
//
//   - The article lets a node say Yes to a scout "if selfNode < proposedNode".
//     Code and specification compare terms, and so does this.
//   - In the code the first try after a start waits for no random time; in the
//     article, and here, it does.
//   - The code looks every second whether the leader is lost. Here a timer is set
//     for the instant.
//   - A leader of a term answers the heartbeat of another leader of this very term
//     with its own in the code, which answers in turn, without end
//     (github.com/bloomberg/blazingmq/pull/1292 tells of the log lines). Here only
//     a lower term is answered.
//   - A participant remembers the term of a refusal, and its next try asks for a higher one.
//     Otherwise a participant whose term is too low never wins if those that know a higher one do
//     not stand. Its own term does not rise.
//   - NODE_UNAVAILABLE is the driver's PeerClosed. NODE_AVAILABLE, upon which a leader sends a
//     heartbeat at once, has no counterpart: it comes with the next one. A leader keeps one bit for
//     each supporter, and no incarnation, so a late PeerClosed of an earlier incarnation removes
//     the support of the present one.
//   - Incarnations, which are saved before the first message, stand for the connections of the
//     original: an answer to an earlier incarnation does not count.
//   - Candidacy, health and resignation are this repository's. A participant that resigns does not
//     stand for the time after which a silent leader is lost. A deposed leader votes and follows,
//     but does not stand before its work has returned.
//
// # Fields of messages
//
// All carry Incarnation and Term. Answers carry Echo, the asker's incarnation, and
// Granted; LeaderHeartbeat carries Seq. The types are documented one by one.
//
// A machine is owned by one goroutine. It never fails: durable data that it
// cannot read leave it halted, see [protocol.View].Fault.
package blazingmq

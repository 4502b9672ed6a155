// Package raft is the leader election of Raft (Ongaro, Ousterhout: In Search of
// an Understandable Consensus Algorithm, 2014, section 5.2; Ongaro: Consensus:
// Bridging Theory and Practice, 2014, chapter 3), without its log.
//
// # The idea
//
// Time is cut into terms, and every participant has one durable vote in each.
// Who hears no leader for a random time stands: it enters the next term, votes
// for itself and asks all others. A majority makes it the leader of that term,
// and there is one at most, for two majorities share a voter. A leader says so
// every Config.Heartbeat, which starts everybody's time anew. Whoever hears of a
// higher term enters it, and a leader or a candidate that does is one no more.
//
// # Options
//
//   - Config.PreVote (the thesis, 9.6): who would stand asks first, and enters the
//     next term only if a majority would vote for it. A voter would not while it
//     has heard a leader within the least election timeout. So one who comes back
//     from behind a partition has not raised its term, and disturbs nobody.
//   - Config.CheckQuorum (the thesis, 6.2 and 4.2.3; etcd's option of that name):
//     a leader that a majority has not answered for an election timeout steps
//     down, and a voter that has heard a leader within the least election timeout
//     does not look at a request for its vote, whatever its term.
//   - Config.Position: a word that stands for the end of the log. With
//     RequirePosition nobody votes for one who is behind it (5.4.1).
//
// # What it promises
//
// No two are elected in one term, and the token, which is the term, rises from
// each leader to the next that is elected after it by a majority that overlaps
// its own: a resource that refuses lower tokens is safe. That holds whatever the
// network, the clocks and the processes do, as long as disks keep what they said
// to be durable. Voters are ids: a participant whose disk was wiped may vote a
// second time in a term, and then two may be elected in it.
//
// # What it does not
//
// There is no lease. A leader that is cut off leads on in its own view until it
// hears of a higher term, or, with CheckQuorum, for less than two election
// timeouts more, while another leads. The hint of a closed connection is not
// used: failover takes a full timeout. As for who stays leader:
//
//   - Plain: one who comes back with a higher term deposes the leader, and one
//     with a partial view does so again and again.
//   - PreVote alone: a leader that has lost its majority goes on, and all who hear
//     it help nobody else. If it can still be heard by too many, there is no
//     working leader until it can be reached again.
//   - CheckQuorum alone: a vote request disturbs nobody, but the one that sent it
//     is in a higher term. It refuses the leader's heartbeats, the leader learns
//     of that term from the answer and steps down: otherwise the two could never
//     come together again (etcd-io/etcd pull request 5468). PreVote makes that
//     rare: only who has won a pre-vote and lost the vote is stranded above.
//
// A participant that lies about its term can depose everybody, and with MaxTerm
// ends all elections: senders must be trusted.
//
// # Messages
//
// One candidate and n participants, of which the old leader is dead, need
// 3n−4 messages to the first heartbeats: n−1 requests, n−2 answers, n−1
// heartbeats. With PreVote it is 5n−7, for n−1 requests and n−2 answers more.
//
// # What was added
//
// Work that has been stopped takes time to return. Until the driver says Joined
// a deposed leader votes and follows, in the role Fencing, and does not stand.
// A boot counter, Message.Incarnation, is durable before anything is sent, and
// keeps answers to the pre-votes of an earlier life apart; answers to requests
// for a vote need only their term, because a candidate's own vote is durable
// before it asks. One who resigns sits the longest timeout out, so that another
// wins. A voter that has not been told its position does not vote where
// positions are required: in Raft, the log is there from the start.
//
// A machine is owned by one goroutine. It fails only if it cannot read its
// ballot: then it halts, and View.Fault says why. A step allocates nothing. The
// memory of a machine beside the shared Config.Members is a bit for each member.
package raft

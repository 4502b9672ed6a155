// Package raft is the leader election of Raft (Ongaro, Ousterhout: In Search of
// an Understandable Consensus Algorithm, 2014, section 5.2; Ongaro: Consensus:
// Bridging Theory and Practice, 2014, chapter 3), without its log.
//
// # The idea
//
// Time is divided into terms, and every participant has one durable vote in each. A participant
// that hears no leader for a random time stands: it enters the next term, votes for itself and asks
// all others. A majority makes it the leader of that term. A term has at most one leader, because
// two majorities share a voter. A leader sends a heartbeat every Config.Heartbeat, which restarts
// the others' timers. A participant that learns of a higher term enters it, and a leader or a
// candidate steps down.
//
// # Options
//
//   - Config.PreVote (the thesis, 9.6): a participant asks before it stands, and enters the next
//     term only if a majority would vote for it. A voter that has heard a leader within the least
//     election timeout refuses. So a participant that returns from behind a partition has not
//     raised its term, and disturbs no leader.
//   - Config.CheckQuorum (the thesis, 6.2 and 4.2.3; etcd's option of that name): a leader that a
//     majority has not answered for an election timeout steps down, and a voter that has heard a
//     leader within the least election timeout ignores a vote request, whatever its term.
//   - Config.Position: a text that stands for the end of the log. With RequirePosition no voter
//     votes for a candidate that is behind it (5.4.1).
//
// # What it promises
//
// No two participants are elected in one term, and the token, which is the term, rises from each
// leader to the next that is elected after it by a majority that overlaps its own: a resource that
// refuses lower tokens is safe. That holds for any behaviour of the network, the clocks and the
// processes, as long as disks keep what they reported as durable. Voters are ids: a participant
// whose disk was wiped may vote a second time in a term, and then two may be elected in it.
//
// # What it does not
//
// There is no lease. A leader that is cut off leads on in its own view until it learns of a higher
// term, or, with CheckQuorum, for less than two election timeouts more, while another leads. The
// hint of a closed connection is not used: failover takes a full timeout. The stability of a leader
// depends on the options:
//
//   - Plain: a participant that returns with a higher term deposes the leader, and one with a
//     partial view does so again and again.
//   - PreVote alone: a leader that has lost its majority goes on, and the participants that hear it
//     refuse all candidates. If too many can still hear it, there is no working leader until its
//     links are restored.
//   - CheckQuorum alone: a vote request disturbs no leader, but its sender is in a higher term. It
//     refuses the leader's heartbeats, the leader learns that term from the answer and steps down:
//     otherwise the two could never agree again (etcd-io/etcd pull request 5468). PreVote makes
//     that rare: only a participant that has won a pre-vote and lost the vote is in a higher term.
//
// A participant that lies about its term can depose any leader, and with protocol.MaxCount it ends all
// elections: senders must be trusted.
//
// # Messages
//
// One candidate and n participants, of which the old leader is dead, need 3n−4 messages up to the
// first heartbeats: n−1 requests, n−2 answers, n−1 heartbeats. With PreVote it is 5n−7, for another
// n−1 requests and n−2 answers.
//
// # What was added
//
// Work that has been stopped takes time to return. Until the driver gives the command Joined, a
// deposed leader votes and follows, in the role Fencing, and does not stand. A boot counter,
// Message.Incarnation, is durable before anything is sent, and distinguishes answers to the
// pre-votes of an earlier incarnation; answers to vote requests need only their term, because a
// candidate's own vote is durable before it asks. A participant that resigns waits for the longest
// timeout, so that another wins. A voter that has not been told its position does not vote where
// positions are required: in Raft, the log is there from the start.
//
// A machine is owned by one goroutine. It fails only if it cannot read its ballot: then it halts,
// and View.Fault says why. A step allocates nothing. Apart from the shared Config.Members, a
// machine's memory grows by one bit a member.
package raft

package raft

import "github.com/electd/elect/internal/protocol"

// The messages. All carry Incarnation and Term of the sender; Term is its own,
// except in a pre-vote, where it is the one that the sender would stand in.
const (
	// PreVote asks whether the receiver would vote for the sender: Round, Position.
	// It changes nothing.
	PreVote protocol.MessageType = "pre-vote"
	// PreVoteReply answers it: Echo and Round of the question, Granted or Reason.
	PreVoteReply protocol.MessageType = "pre-vote-reply"
	// Vote asks for the vote in Term (RequestVote): Position.
	Vote protocol.MessageType = "vote"
	// VoteReply answers it: Granted, the vote in Term is the receiver's, or Reason.
	VoteReply protocol.MessageType = "vote-reply"
	// Heartbeat says that the sender leads in Term (AppendEntries without entries).
	Heartbeat protocol.MessageType = "heartbeat"
	// HeartbeatReply answers it: Granted, the sender follows; if not, its Term is higher.
	HeartbeatReply protocol.MessageType = "heartbeat-reply"
)

// The reasons of a refused vote, in replies.
const (
	OldTerm        protocol.Reason = "old-term"        // the term is not above the voter's
	LeaderHeard    protocol.Reason = "leader-heard"    // a leader was heard lately
	Voted          protocol.Reason = "voted"           // the voter has voted for another in this term
	BehindPosition protocol.Reason = "position-behind" // the candidate's position is behind the voter's
	Unplaced       protocol.Reason = "not-located"     // the voter was not told its position yet
)

// The reasons of a Stop.
const (
	HigherTerm protocol.Reason = "higher-term"      // another participant has a higher term
	QuorumLost protocol.Reason = "quorum-lost"      // a majority has not answered in time (CheckQuorum)
	Resigned                   = protocol.Recalled  // it was asked to
	Withdrawn                  = protocol.Withdrawn // it is no candidate any more
	Unhealthy                  = protocol.Unhealthy // its owner says so
)

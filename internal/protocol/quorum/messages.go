package quorum

import "github.com/electd/elect/internal/protocol"

// The messages. All but the witness's release carry Dir, Incarnation, Term, Membership, Priority
// and Position of the sender. Term is the sender's own, with two exceptions: in a pre-vote, the
// term that the sender would stand in; in a leader's messages, the term that it leads in.
const (
	// Heartbeat is sent by a leader: Seq, Promise (0: none is asked for), Ranking, Metadata;
	// Unhealthy: the rate of the receiver's clock differs too much from the sender's.
	Heartbeat protocol.MessageType = "heartbeat"
	// HeartbeatAck: Echo and Seq of the heartbeat; Granted: Promise as granted, Residual to others
	// than this leader's incarnation, Unhealthy (the sender would not stand), Held, Clock, Jumps.
	// Not Granted: the heartbeat is rejected; Reason and Term say why.
	HeartbeatAck protocol.MessageType = "heartbeat-ack"
	// PreVote: Round, Reason (the cause of the election). It changes nothing.
	PreVote protocol.MessageType = "pre-vote"
	// PreVoteReply: Echo and Round of the pre-vote; Granted, or Reason, Leader and RetryAfter.
	PreVoteReply protocol.MessageType = "pre-vote-reply"
	// Vote: Round, Reason; Handover, if the sender follows a TransferNow.
	Vote protocol.MessageType = "vote"
	// VoteReply: as a PreVoteReply; if Granted also Residual and PrevTerm.
	VoteReply protocol.MessageType = "vote-reply"
	// Release: a leader's work has returned. Term and Seq are the last that it sent; Ranking lists
	// its successors.
	Release protocol.MessageType = "release"
	// TransferNow: Handover. A leader's work has returned, and the receiver is its successor. It is
	// a Release too.
	TransferNow protocol.MessageType = "transfer-now"
	// News: the membership, from a voter that hears no leader and does not stand. It may be the
	// only voter with the newest one.
	News protocol.MessageType = "news"
	// WitnessRelease: Dir and Echo.
	WitnessRelease = protocol.WitnessRelease
)

// The reasons of a refusal, in replies.
const (
	OldTerm        protocol.Reason = "old-term"        // the term is not above the voter's
	OldConfig      protocol.Reason = "old-membership"  // the voter knows a newer membership
	NotVoter       protocol.Reason = "not-a-voter"     // one of the two is not a voter
	Sticky         protocol.Reason = "leader-heard"    // another leader was heard lately
	Voted          protocol.Reason = "voted"           // the voter has voted for another candidate in this term
	Working        protocol.Reason = "work-may-run"    // the voter leads, or its work has not returned
	Restarted      protocol.Reason = "restarted"       // the voter has just started
	BadDisk        protocol.Reason = "disk"            // the voter cannot save
	NeverLeads     protocol.Reason = "never-leads"     // the candidate is configured never to lead
	BehindPosition protocol.Reason = "position-behind" // the voter is ahead of the candidate
)

// The causes of an election, in pre-votes and votes.
const (
	Timeout    protocol.Reason = "timeout"     // no leader was heard
	Closed     protocol.Reason = "closed"      // the leader closed its last connection
	Released   protocol.Reason = "released"    // the leader, or its witness, released
	Behind     protocol.Reason = "stranded"    // a voter is in a higher term (R5)
	Again      protocol.Reason = "next-round"  // the previous round failed
	HandedOver protocol.Reason = "handed-over" // the leader named this voter as its successor
)

// The reasons why a term ended, in the order Stop.
const (
	Lapsed                      = protocol.Lapsed    // the lease ran out
	QuorumLost  protocol.Reason = "quorum-lost"      // no quorum answered in time (R8)
	Superseded  protocol.Reason = "superseded"       // another leads a higher term (R6)
	Overtaken   protocol.Reason = "overtaken"        // another may have led in between (R5)
	Resigned                    = protocol.Recalled  // it was asked to
	Withdrawn                   = protocol.Withdrawn // it is no candidate any more
	Transferred protocol.Reason = "transferred"      // it was asked to, in favour of another
	Outranked   protocol.Reason = "outranked"        // a voter of a higher priority takes over
	Paused                      = protocol.Paused    // it is not to lead for now
	Unhealthy                   = protocol.Unhealthy // its owner says so
	DiskFailed  protocol.Reason = "disk-failed"      // it cannot save
	ClockJump                   = protocol.ClockJump // the machine slept, or a clock was set
	ClocksApart protocol.Reason = "clocks-apart"     // no quorum has clocks that run alike (R17)
)

package quorum

import "github.com/electd/elect/internal/protocol"

// The messages. All carry Dir, Incarnation, Term, Membership, Priority and
// Position of the sender, but the witness's release. Term is the sender's own,
// except in a pre-vote, where it is the term that the sender would stand in, and
// in what a leader sends, where it is the term that it leads in.
const (
	// Heartbeat: a leader's. Seq, Promise (0: none is asked for), Ranking, Metadata;
	// Unhealthy: the receiver's clock does not run like the sender's.
	Heartbeat protocol.MessageType = "heartbeat"
	// HeartbeatAck: Echo and Seq of the heartbeat; Granted: Promise as granted,
	// Residual to others than this leader's incarnation, Unhealthy (the sender
	// would not stand), Held, Clock, Jumps. Not Granted: it is rejected; Reason, and Term says why.
	HeartbeatAck protocol.MessageType = "heartbeat-ack"
	// PreVote: Round, Reason (what started it). It changes nothing.
	PreVote protocol.MessageType = "pre-vote"
	// PreVoteReply: Echo and Round of the question; Granted, or Reason, Leader
	// and RetryAfter.
	PreVoteReply protocol.MessageType = "pre-vote-reply"
	// Vote: Round, Reason; Handover, if the sender follows a TransferNow.
	Vote protocol.MessageType = "vote"
	// VoteReply: as a PreVoteReply; if Granted also Residual and PrevTerm.
	VoteReply protocol.MessageType = "vote-reply"
	// Release: a leader's work has returned. Term and Seq are the last that it
	// sent; Ranking, its successors.
	Release protocol.MessageType = "release"
	// TransferNow: Handover. A leader's work has returned, and the receiver is to
	// follow it. It is a Release too.
	TransferNow protocol.MessageType = "transfer-now"
	// News: the membership, from a voter that hears no leader and does not stand.
	// It alone may have the newest one.
	News protocol.MessageType = "news"
	// WitnessRelease: all that the sender with Dir did in the incarnation Echo,
	// and in those before it, is dead for ever. A keeper sends it on behalf of
	// that node. A keeper knows of earlier lives if its own life has led, because
	// that waited for theirs, or if a life cannot begin before the works of those
	// before it have ended; one that knows of its own only must not send it.
	WitnessRelease protocol.MessageType = "witness-release"
)

// Why something was refused, in replies.
const (
	OldTerm        protocol.Reason = "old-term"        // the term is not above the voter's
	OldConfig      protocol.Reason = "old-membership"  // the voter knows a newer membership
	NotVoter       protocol.Reason = "not-a-voter"     // one of the two is none
	Sticky         protocol.Reason = "leader-heard"    // another leader was heard lately
	Voted          protocol.Reason = "voted"           // the vote of this term is another's
	Working        protocol.Reason = "work-may-run"    // the voter leads, or its work has not returned
	Restarted      protocol.Reason = "restarted"       // the voter has just started
	BadDisk        protocol.Reason = "disk"            // the voter cannot save
	NeverLeads     protocol.Reason = "never-leads"     // the candidate says so itself
	BehindPosition protocol.Reason = "position-behind" // the voter is ahead of the candidate
)

// What started an election, in pre-votes and votes.
const (
	Timeout    protocol.Reason = "timeout"     // no leader was heard
	Closed     protocol.Reason = "closed"      // the leader closed its last connection
	Released   protocol.Reason = "released"    // the leader, or its witness, let go
	Behind     protocol.Reason = "stranded"    // a voter is in a higher term (R5)
	Again      protocol.Reason = "next-round"  // the round before failed
	HandedOver protocol.Reason = "handed-over" // the leader named this one as its successor
)

// Why a term ended, in the order Stop.
const (
	Lapsed                      = protocol.Lapsed    // the lease ran out
	QuorumLost  protocol.Reason = "quorum-lost"      // no quorum answered in time (R8)
	Superseded  protocol.Reason = "superseded"       // another leads a higher term (R6)
	Overtaken   protocol.Reason = "overtaken"        // another may have led in between (R5)
	Resigned    protocol.Reason = "resigned"         // it was asked to
	Withdrawn                   = protocol.Withdrawn // it is no candidate any more
	Transferred protocol.Reason = "transferred"      // it was asked to, in favour of another
	Outranked   protocol.Reason = "outranked"        // a voter of a higher priority takes over
	Paused                      = protocol.Paused    // it is not to lead for now
	Unhealthy                   = protocol.Unhealthy // its owner says so
	DiskFailed  protocol.Reason = "disk-failed"      // it cannot save
	ClockJump                   = protocol.ClockJump // the machine slept, or a clock was set
	ClocksApart protocol.Reason = "clocks-apart"     // no quorum has clocks that run alike (R17)
)

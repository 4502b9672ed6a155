package blazingmq

import "github.com/electd/elect/internal/protocol"

// The message types, named as in BlazingMQ's code. Every message carries Incarnation and Term. Term
// is the sender's, unless the type says otherwise. All answers carry in Echo the incarnation that
// they answer.
const (
	// ScoutingRequest asks whether the receiver would support an election in
	// Term. The sender has not raised its own term.
	ScoutingRequest protocol.MessageType = "scouting-request"
	// ScoutingResponse is the answer: Granted is Yes.
	ScoutingResponse protocol.MessageType = "scouting-response"
	// ElectionProposal asks for support in Term.
	ElectionProposal protocol.MessageType = "election-proposal"
	// ElectionResponse supports the receiver in Term if Granted. A follower also sends it unasked
	// to a leader that it did not vote for. Only the naive elector refuses; the others do not
	// answer.
	ElectionResponse protocol.MessageType = "election-response"
	// LeaderHeartbeat says that its sender leads in Term. (Term, Seq) is its
	// leader sequence number.
	LeaderHeartbeat protocol.MessageType = "leader-heartbeat"
	// HeartbeatResponse tells a leader that its term is over: the sender's is
	// higher. The article calls it InvalidHeartbeat.
	HeartbeatResponse protocol.MessageType = "heartbeat-response"
	// LeadershipCession says that its sender has stopped leading, so that the others do not wait
	// for its heartbeats.
	LeadershipCession protocol.MessageType = "leadership-cession"
)

// The reasons of a Stop.
const (
	Superseded protocol.Reason = "superseded" // a higher term was heard of
	LostQuorum protocol.Reason = "lost-quorum"
	Resigned                   = protocol.Recalled
	Withdrawn                  = protocol.Withdrawn
	Unhealthy                  = protocol.Unhealthy
)

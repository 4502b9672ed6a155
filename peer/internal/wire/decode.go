package wire

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire/wirepb"
)

// Decode reads the payload of a frame and keeps no reference to it. It never panics, and its use of memory is in
// proportion to the payload. Texts for people that are too long are cut, as [Append] does.
//
// If the sender of a Hello has no version in common with this build, Decode returns the Hello with its Version and
// Oldest only, and a *VersionError.
func Decode(payload []byte) (Frame, error) {
	if len(payload) > MaxFrame {
		return Frame{}, &TooLarge{Size: len(payload), Max: MaxFrame}
	}
	if h, ok := versions(payload); ok {
		if _, err := h.Speaks(); err != nil {
			return Frame{Hello: &h}, err
		}
	}
	var p wirepb.Frame
	if err := proto.Unmarshal(payload, &p); err != nil {
		// The space after "proto:" in protobuf's errors differs from build to build, on purpose.
		return Frame{}, fmt.Errorf("frame: %s", strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
	}
	f, err := decode(&p)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

// versions reads version and oldest of a Hello, whatever else the frame contains. These two fields have the same
// numbers in every version of the protocol.
func versions(payload []byte) (h Hello, ok bool) {
	for hello := range fields(payload, 1, protowire.BytesType) {
		body, _ := protowire.ConsumeBytes(hello)
		ok = true
		for v := range fields(body, 1, protowire.VarintType) {
			h.Version = varint(v)
		}
		for v := range fields(body, 2, protowire.VarintType) {
			h.Oldest = varint(v)
		}
	}
	// Version 0 does not exist: the check of fields refuses it.
	return h, ok && h.Version != 0 && h.Oldest != 0 && h.Oldest <= h.Version
}

// varint reads an integer that protowire has found to be whole. One beyond 32 bits stands for an unknown version.
func varint(b []byte) uint32 {
	v, _ := protowire.ConsumeVarint(b)
	return uint32(min(v, math.MaxUint32))
}

// fields yields the values of the fields with that number and type, up to the first field that is not well formed.
func fields(b []byte, number protowire.Number, kind protowire.Type) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n, t, tag := protowire.ConsumeTag(b)
			if tag < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(n, t, b[tag:])
			if size < 0 {
				return
			}
			if n == number && t == kind && !yield(b[tag:tag+size]) {
				return
			}
			b = b[tag+size:]
		}
	}
}

func decode(p *wirepb.Frame) (f Frame, err error) {
	switch k := p.Kind.(type) {
	case *wirepb.Frame_Hello:
		f.Hello, err = decodeHello(k.Hello)
	case *wirepb.Frame_Welcome:
		f.Welcome = &Welcome{Number: k.Welcome.GetNumber(), Program: cut(k.Welcome.GetProgram(), maxName)}
		f.Welcome.Membership, err = decodeMembership("welcome.membership", k.Welcome.GetMembership())
	case *wirepb.Frame_Refusal:
		r := k.Refusal
		f.Refusal = &Refusal{Code: Code(r.GetCode()), Says: cut(r.GetSays(), maxText), Final: r.GetFinal(), Number: r.GetNumber()}
	case *wirepb.Frame_Letter:
		f.Letter, err = decodeLetter(k.Letter)
	case *wirepb.Frame_Request:
		q := k.Request
		f.Request = &Request{Call: q.GetCall(), Verb: q.GetVerb(), Token: q.GetToken(), Body: q.GetBody(), Election: q.GetElection()}
	case *wirepb.Frame_Response:
		r := k.Response
		f.Response = &Response{Call: r.GetCall(), More: r.GetMore(), Body: r.GetBody(), Code: r.GetCode(), Error: cut(r.GetError(), maxText)}
	case *wirepb.Frame_Enter:
		f.Enter, err = decodeEnter(k.Enter)
	case *wirepb.Frame_Leave:
		f.Leave = &Leave{Number: k.Leave.GetNumber()}
	default:
		err = errKinds
	}
	return f, err
}

func decodeHello(p *wirepb.Hello) (*Hello, error) {
	h := &Hello{
		Version: p.GetVersion(), Oldest: p.GetOldest(), Cluster: p.GetCluster(), ID: protocol.NodeID(p.GetId()),
		Starts: p.GetStarts(), Life: p.GetLife(), Program: cut(p.GetProgram(), maxName),
	}
	switch c := p.GetCaller(); c {
	case wirepb.Caller_CALLER_NODE:
		h.Caller = Node
	case wirepb.Caller_CALLER_WITNESS:
		h.Caller = WitnessOf
	case wirepb.Caller_CALLER_CLIENT:
		h.Caller = ClientOf
	default:
		return nil, fmt.Errorf("hello.caller: %d; want node (1), witness (2) or client (3)", c)
	}
	return h, decodeDir("hello.dir", &h.Dir, p.GetDir())
}

func decodeEnter(p *wirepb.Enter) (*Enter, error) {
	e := &Enter{
		Number: p.GetNumber(), Election: p.GetElection(), Incarnation: p.GetIncarnation(), Era: p.GetEra(), Promise: time.Duration(p.GetPromise()),
		Join: p.GetJoin(), Held: protocol.ConfigID{Term: p.GetHeld().GetTerm(), Version: p.GetHeld().GetVersion()}, Protocol: p.GetProtocol(),
		Answer: p.GetAnswer(),
	}
	var err error
	if e.Voters, err = decodeIDs("enter.voters", p.GetVoters(), protocol.MaxVoters); err != nil {
		return nil, err
	}
	return e, decodeDir("enter.dir", &e.Dir, p.GetDir())
}

func decodeLetter(p *wirepb.Letter) (*Letter, error) {
	b := p.GetMessage()
	l := &Letter{Number: p.GetNumber(), Since: p.GetSinceNs(), Token: p.GetToken(), Message: protocol.Message{
		Type: protocol.MessageType(b.GetType()), Incarnation: b.GetIncarnation(), Term: b.GetTerm(),
		Echo: b.GetEcho(), Round: b.GetRound(), Seq: b.GetSeq(),
		Promise: time.Duration(b.GetPromiseNs()), Residual: time.Duration(b.GetResidualNs()),
		PrevTerm: b.GetPrevTerm(), RetryAfter: time.Duration(b.GetRetryAfterNs()), Clock: time.Duration(b.GetClockNs()), Jumps: b.GetJumps(),
		Granted: b.GetGranted(), Unhealthy: b.GetUnhealthy(), Reason: protocol.Reason(b.GetReason()),
		Metadata: b.GetMetadata(), Body: b.GetBody(), Priority: int(b.GetPriority()), Position: b.GetPosition(),
		Held: protocol.ConfigID{Term: b.GetHeld().GetTerm(), Version: b.GetHeld().GetVersion()},
	}}
	l.Next.unknown(p.ProtoReflect().GetUnknown())
	m := &l.Message
	if k := b.GetLeader(); k != nil {
		m.Leader = protocol.Leadership{ID: protocol.NodeID(k.GetId()), Incarnation: k.GetIncarnation(), Term: k.GetTerm()}
	}
	var err error
	if k := b.GetHandover(); k != nil {
		if m.Handover, err = decodeHandover(k); err != nil {
			return nil, err
		}
	}
	if m.Ranking, err = decodeIDs("letter.message.ranking", b.GetRanking(), protocol.MaxVoters); err != nil {
		return nil, err
	}
	if m.Membership, err = decodeMembership("letter.message.membership", b.GetMembership()); err != nil {
		return nil, err
	}
	return l, decodeDir("letter.message.dir", &m.Dir, b.GetDir())
}

func decodeMembership(field string, p *wirepb.Membership) (*protocol.Membership, error) {
	if p == nil {
		return nil, nil
	}
	m := &protocol.Membership{ConfigTerm: p.GetConfigTerm(), Version: p.GetVersion()}
	if n := len(p.GetVoters()); n > protocol.MaxVoters {
		return nil, fmt.Errorf("%s.voters: %d of them; want at most %d", field, n, protocol.MaxVoters)
	}
	m.Voters = make([]protocol.Voter, len(p.GetVoters()))
	for i, v := range p.GetVoters() {
		m.Voters[i].ID = protocol.NodeID(v.GetId())
		if err := decodeDir(field+".voters.dir", &m.Voters[i].Dir, v.GetDir()); err != nil {
			return nil, err
		}
	}
	var err error
	if m.Observers, err = decodeIDs(field+".observers", p.GetObservers(), protocol.MaxObservers); err != nil {
		return m, err
	}
	if n, most := len(p.GetAddresses()), len(m.Voters)+len(m.Observers); n > most {
		return m, fmt.Errorf("%s.addresses: %d of them for %d participants; want one for each at most", field, n, most)
	}
	for _, a := range p.GetAddresses() {
		m.Addresses = append(m.Addresses, protocol.Address{ID: protocol.NodeID(a.GetId()), Addr: a.GetAddr()})
	}
	return m, nil
}

func decodeHandover(p *wirepb.Handover) (*protocol.Handover, error) {
	h := &protocol.Handover{
		Incarnation: p.GetIncarnation(), Term: p.GetTerm(), Seq: p.GetSeq(), Target: protocol.NodeID(p.GetTarget()),
		Leader: protocol.Voter{ID: protocol.NodeID(p.GetLeader().GetId())},
	}
	return h, decodeDir("letter.message.handover.leader.dir", &h.Leader.Dir, p.GetLeader().GetDir())
}

func decodeIDs(field string, texts []string, most int) ([]protocol.NodeID, error) {
	if len(texts) > most {
		return nil, fmt.Errorf("%s: %d of them; want at most %d", field, len(texts), most)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	ids := make([]protocol.NodeID, len(texts))
	for i, text := range texts {
		ids[i] = protocol.NodeID(text)
	}
	return ids, nil
}

func decodeDir(field string, d *protocol.DirID, b []byte) error {
	if len(b) != 0 && len(b) != len(d) {
		return fmt.Errorf("%s: %d bytes; want %d, or none", field, len(b), len(d))
	}
	copy(d[:], b)
	return nil
}

package wire

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire/wirepb"
)

const prefixSize = 4 // of the length before a payload

// Append appends one frame with its length before it. It refuses what [Decode] would refuse, and then returns dst as
// it was.
func Append(dst []byte, f *Frame) ([]byte, error) {
	if err := f.check(); err != nil {
		return dst, err
	}
	start := len(dst)
	out := append(dst, make([]byte, prefixSize)...)
	if f.Letter != nil {
		out = appendLetter(out, f.Letter)
	} else {
		var err error
		if out, err = (proto.MarshalOptions{}).MarshalAppend(out, encode(f)); err != nil {
			return dst, err
		}
	}
	size := len(out) - start - prefixSize
	if size > MaxFrame {
		return dst, &TooLarge{Size: size, Max: MaxFrame}
	}
	binary.BigEndian.PutUint32(out[start:], uint32(size))
	return out, nil
}

// encode encodes every frame but letters.
func encode(f *Frame) *wirepb.Frame {
	switch {
	case f.Hello != nil:
		h := f.Hello
		return &wirepb.Frame{Kind: &wirepb.Frame_Hello{Hello: &wirepb.Hello{
			Version: h.Version, Oldest: h.Oldest, Caller: encodeCaller(h.Caller), Cluster: h.Cluster,
			Id: string(h.ID), Dir: encodeDir(&h.Dir), Starts: h.Starts, Life: h.Life, Program: cut(h.Program, maxName),
		}}}
	case f.Enter != nil:
		e := f.Enter
		return &wirepb.Frame{Kind: &wirepb.Frame_Enter{Enter: &wirepb.Enter{
			Number: e.Number, Election: e.Election, Dir: encodeDir(&e.Dir), Incarnation: e.Incarnation, Voters: encodeIDs(e.Voters),
			Era: e.Era, Promise: int64(e.Promise), Join: e.Join, Held: encodeConfig(e.Held), Protocol: e.Protocol, Answer: e.Answer,
		}}}
	case f.Leave != nil:
		return &wirepb.Frame{Kind: &wirepb.Frame_Leave{Leave: &wirepb.Leave{Number: f.Leave.Number}}}
	case f.Welcome != nil:
		w := f.Welcome
		return &wirepb.Frame{Kind: &wirepb.Frame_Welcome{Welcome: &wirepb.Welcome{
			Number: w.Number, Membership: encodeMembership(w.Membership), Program: cut(w.Program, maxName),
		}}}
	case f.Refusal != nil:
		r := f.Refusal
		return &wirepb.Frame{Kind: &wirepb.Frame_Refusal{Refusal: &wirepb.Refusal{
			Code: string(r.Code), Says: cut(r.Says, maxText), Final: r.Final, Number: r.Number,
		}}}
	case f.Request != nil:
		q := f.Request
		return &wirepb.Frame{Kind: &wirepb.Frame_Request{Request: &wirepb.Request{
			Call: q.Call, Verb: q.Verb, Token: q.Token, Body: q.Body, Election: q.Election,
		}}}
	default:
		r := f.Response
		return &wirepb.Frame{Kind: &wirepb.Frame_Response{Response: &wirepb.Response{
			Call: r.Call, More: r.More, Body: r.Body, Code: r.Code, Error: cut(r.Error, maxText),
		}}}
	}
}

// members is a membership in one allocation.
type members struct {
	membership wirepb.Membership
	voters     [protocol.MaxVoters]wirepb.Voter
	list       [protocol.MaxVoters]*wirepb.Voter
}

func encodeMembership(m *protocol.Membership) *wirepb.Membership {
	if m == nil {
		return nil
	}
	p := new(members)
	p.membership.ConfigTerm, p.membership.Version = m.ConfigTerm, m.Version
	for i := range m.Voters {
		p.voters[i].Id, p.voters[i].Dir = string(m.Voters[i].ID), encodeDir(&m.Voters[i].Dir)
		p.list[i] = &p.voters[i]
	}
	p.membership.Voters, p.membership.Observers = p.list[:len(m.Voters)], encodeIDs(m.Observers)
	for i := range m.Addresses {
		p.membership.Addresses = append(p.membership.Addresses, &wirepb.Address{Id: string(m.Addresses[i].ID), Addr: m.Addresses[i].Addr})
	}
	return &p.membership
}

func encodeConfig(c protocol.ConfigID) *wirepb.ConfigID {
	if c == (protocol.ConfigID{}) {
		return nil
	}
	return &wirepb.ConfigID{Term: c.Term, Version: c.Version}
}

func encodeIDs(ids []protocol.NodeID) []string {
	if len(ids) == 0 {
		return nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}

func encodeDir(d *protocol.DirID) []byte {
	if *d == (protocol.DirID{}) {
		return nil
	}
	return d[:]
}

func encodeCaller(c Caller) wirepb.Caller {
	switch c {
	case Node:
		return wirepb.Caller_CALLER_NODE
	case WitnessOf:
		return wirepb.Caller_CALLER_WITNESS
	case ClientOf:
		return wirepb.Caller_CALLER_CLIENT
	}
	return wirepb.Caller_CALLER_UNSPECIFIED
}

// cut makes a text for people fit: valid UTF-8 of at most most bytes.
func cut(text string, most int) string {
	if len(text) <= most && utf8.ValidString(text) {
		return text
	}
	const rest = "…"
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	end := most - len(rest)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + rest
}

var errKinds = errors.New("frame: want exactly one of hello, welcome, refusal, letter, request, response, enter and leave")

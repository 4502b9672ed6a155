package raft

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// MaxTerm is the greatest term: a token's count has 48 bits.
const MaxTerm = 1<<48 - 1

// Ballot is a participant's durable state.
type Ballot struct {
	// Term is the highest term that it has seen.
	Term uint64
	// VotedFor has its vote in Term; empty for none.
	VotedFor protocol.NodeID
	// Incarnation counts the boots, from 1.
	Incarnation uint64
}

// format is the first byte of a ballot.
const format = 1

// Append appends the ballot in its canonical encoding.
func (b Ballot) Append(dst []byte) []byte { return b.append(append(dst, format)) }

func (b *Ballot) append(dst []byte) []byte {
	dst = protocol.AppendUint(dst, b.Term)
	dst = protocol.AppendString(dst, b.VotedFor)
	return protocol.AppendUint(dst, b.Incarnation)
}

// DecodeBallot reads what Append wrote, and nothing else: a ballot that it accepts encodes to the
// same bytes. The caller checks for corruption.
func DecodeBallot(data []byte) (Ballot, error) {
	if len(data) == 0 || data[0] != format {
		return Ballot{}, fmt.Errorf("raft: ballot: of %d bytes, the first is not %d: not a ballot of this version", len(data), format)
	}
	d := protocol.NewDecoder(data[1:])
	b := readBallot(d)
	if err := d.Done(); err != nil {
		return Ballot{}, fmt.Errorf("raft: ballot: %w", err)
	}
	return b, nil
}

func readBallot(d *protocol.Decoder) Ballot {
	b := Ballot{Term: d.Uint(), VotedFor: protocol.NodeID(d.String()), Incarnation: d.Uint()}
	switch {
	case b.Term > MaxTerm:
		d.Fail(fmt.Errorf("term %d; want at most %d", b.Term, uint64(MaxTerm)))
	case b.Incarnation == 0:
		d.Fail(errors.New("incarnation 0; the first is 1"))
	case b.VotedFor != "":
		if _, err := protocol.ParseNodeID(string(b.VotedFor)); err != nil {
			d.Fail(fmt.Errorf("its vote: %w", err))
		}
	}
	return b
}

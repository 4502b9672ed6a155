package raft

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// Ballot is a participant's durable state.
type Ballot struct {
	// Term is the highest term that it has seen.
	Term uint64
	// VotedFor has its vote in Term; empty is nobody.
	VotedFor protocol.NodeID
	// Incarnation counts the boots, from 1.
	Incarnation uint64
}

// format is the first byte of a ballot.
const format = 1

// Append appends the ballot in its canonical encoding.
func (b Ballot) Append(dst []byte) []byte {
	c := protocol.Appending(dst)
	c.Format(format, "a ballot")
	b.state(&c)
	return c.Appended()
}

// DecodeBallot reads what Append wrote, and nothing else: a ballot that it
// accepts encodes to the same bytes. The caller checks the checksum.
func DecodeBallot(data []byte) (b Ballot, err error) {
	c := protocol.Loading(data)
	c.Format(format, "a ballot")
	b.state(&c)
	if err := c.Done("raft: ballot"); err != nil {
		return Ballot{}, err
	}
	return b, nil
}

func (b *Ballot) state(c *protocol.Coder) {
	c.Uints(&b.Term)
	protocol.Strings(c, &b.VotedFor)
	c.Uints(&b.Incarnation)
	if !c.Loads() {
		return
	}
	switch {
	case b.Term > protocol.MaxCount:
		c.Fail(fmt.Errorf("term %d; want at most %d", b.Term, uint64(protocol.MaxCount)))
	case b.Incarnation == 0:
		c.Fail(errors.New("incarnation 0; the first is 1"))
	case b.VotedFor != "":
		if _, err := protocol.ParseNodeID(string(b.VotedFor)); err != nil {
			c.Fail(fmt.Errorf("its vote: %w", err))
		}
	}
}

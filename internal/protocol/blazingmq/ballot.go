package blazingmq

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// Ballot is what a participant has durably. Nothing in it is a vote.
type Ballot struct {
	// Term is that of the leader that the participant followed last, or its own if it led: what a broker finds in its
	// ledger when it starts. With Config.Durable it is the highest term of any message.
	Term uint64
	// Incarnation counts the boots.
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
	if err := c.Done("blazingmq: ballot"); err != nil {
		return Ballot{}, err
	}
	return b, nil
}

func (b *Ballot) state(c *protocol.Coder) {
	c.Uints(&b.Term, &b.Incarnation)
	if !c.Loads() {
		return
	}
	switch {
	case b.Term > protocol.MaxCount:
		c.Fail(fmt.Errorf("term %d; want at most %d", b.Term, uint64(protocol.MaxCount)))
	case b.Incarnation == 0:
		c.Fail(errors.New("incarnation 0; the first is 1"))
	}
}

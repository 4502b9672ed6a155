package blazingmq

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// MaxTerm is the greatest term: a token's count has 48 bits.
const MaxTerm = 1<<48 - 1

// Ballot is what a participant has durably. Nothing in it is a vote.
type Ballot struct {
	// Term is that of the last leader that the participant followed, or the last in which it led:
	// what a broker finds in its ledger when it starts. With Config.Durable it is the highest term
	// of any message or save.
	Term uint64
	// Incarnation counts the boots.
	Incarnation uint64
}

// format is the first byte of a ballot.
const format = 1

// Append appends the ballot in its canonical encoding.
func (b Ballot) Append(dst []byte) []byte {
	return protocol.AppendUint(protocol.AppendUint(append(dst, format), b.Term), b.Incarnation)
}

// DecodeBallot reads what Append wrote, and nothing else: a ballot that it accepts encodes to the
// same bytes. The caller checks for corruption.
func DecodeBallot(data []byte) (Ballot, error) {
	if len(data) == 0 || data[0] != format {
		return Ballot{}, fmt.Errorf("blazingmq: ballot: of %d bytes, the first is not %d: not a ballot of this version", len(data), format)
	}
	d := protocol.NewDecoder(data[1:])
	b := readBallot(d)
	if err := d.Done(); err != nil {
		return Ballot{}, fmt.Errorf("blazingmq: ballot: %w", err)
	}
	return b, nil
}

func readBallot(d *protocol.Decoder) Ballot {
	b := Ballot{Term: d.Uint(), Incarnation: d.Uint()}
	switch {
	case b.Term > MaxTerm:
		d.Fail(fmt.Errorf("term %d; want at most %d", b.Term, uint64(MaxTerm)))
	case b.Incarnation == 0:
		d.Fail(errors.New("incarnation 0; the first is 1"))
	}
	return b
}

package bully

import (
	"fmt"

	"github.com/electd/elect/protocol"
)

// MaxEpoch is the greatest epoch: a token's count has 48 bits.
const MaxEpoch = 1<<48 - 1

// Ballot is a participant's durable state.
type Ballot struct {
	// Epoch is the highest that it has led in or heard of.
	Epoch uint64
	// Incarnation is one higher with each boot. On an empty disk the first is
	// random, of up to 48 bits, not 1.
	Incarnation uint64
}

// format is the first byte of a ballot.
const format = 1

// Append appends the ballot in its canonical encoding.
func (b Ballot) Append(dst []byte) []byte {
	return protocol.AppendUint(protocol.AppendUint(append(dst, format), b.Epoch), b.Incarnation)
}

// DecodeBallot reads what Append wrote, and nothing else: a ballot that it
// accepts encodes to the same bytes. The checksum is the business of whoever
// stored it.
func DecodeBallot(data []byte) (Ballot, error) {
	if len(data) == 0 || data[0] != format {
		return Ballot{}, fmt.Errorf("bully: ballot: of %d bytes, the first is not %d: not a ballot of this version", len(data), format)
	}
	d := protocol.NewDecoder(data[1:])
	b := Ballot{Epoch: d.Uint(), Incarnation: d.Uint()}
	switch {
	case b.Epoch > MaxEpoch:
		d.Fail(fmt.Errorf("epoch %d; want at most %d", b.Epoch, uint64(MaxEpoch)))
	case b.Incarnation == 0:
		d.Fail(fmt.Errorf("incarnation 0; the first is 1"))
	}
	if err := d.Done(); err != nil {
		return Ballot{}, fmt.Errorf("bully: ballot: %w", err)
	}
	return b, nil
}

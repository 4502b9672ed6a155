// Package epoch is what bully and ring share beyond the textbooks: the number of a tenure, which is
// the token; the number of an incarnation, so that an answer finds the incarnation that asked; and
// the saves of both.
//
// A [Record] belongs to one machine, and to the goroutine that owns it. Nothing here allocates.
// Only an unreadable ballot or state is an error.
package epoch

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// Max is the greatest epoch: a token's count has 48 bits.
const Max = 1<<48 - 1

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
func (b Ballot) Append(dst []byte) []byte { return b.append(append(dst, format)) }

func (b Ballot) append(dst []byte) []byte {
	return protocol.AppendUint(protocol.AppendUint(dst, b.Epoch), b.Incarnation)
}

// Decode reads what Append wrote, and nothing else: a ballot that it accepts encodes to the same
// bytes. The caller checks for corruption. Errors begin with the protocol's name.
func Decode(name string, data []byte) (Ballot, error) {
	if len(data) == 0 || data[0] != format {
		return Ballot{}, fmt.Errorf("%s: ballot: of %d bytes, the first is not %d: not a ballot of this version", name, len(data), format)
	}
	d := protocol.NewDecoder(data[1:])
	b := read(d)
	if b.Incarnation == 0 {
		d.Fail(errors.New("incarnation 0; the first is 1"))
	}
	if err := d.Done(); err != nil {
		return Ballot{}, fmt.Errorf("%s: ballot: %w", name, err)
	}
	return b, nil
}

func read(d *protocol.Decoder) Ballot {
	b := Ballot{Epoch: d.Uint(), Incarnation: d.Uint()}
	if b.Epoch > Max {
		d.Fail(fmt.Errorf("epoch %d; want at most %d", b.Epoch, uint64(Max)))
	}
	return b
}

// Package epoch is what the bully and the ring share that the books do not give
// them: the number of a tenure, so that there is a token at all; the number of an
// incarnation, so that an answer finds the incarnation that asked; the saves of both;
// and the default times.
//
// A [Record] belongs to one machine, and so to the owner of that machine. Nothing here
// allocates. Only a ballot or a state that cannot be read is an error.
package epoch

import (
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The default times of both protocols, and the longest.
const (
	Heartbeat = 100 * time.Millisecond
	Silence   = time.Second
	Answer    = 250 * time.Millisecond
	Longest   = time.Hour
)

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
	c := protocol.Appending(dst)
	c.Format(format, "a ballot")
	b.state(&c)
	return c.Appended()
}

// Decode reads what Append wrote, and nothing else: a ballot that it accepts
// encodes to the same bytes. The caller checks the checksum. Errors begin with the
// protocol's name.
func Decode(name string, data []byte) (b Ballot, err error) {
	c := protocol.Loading(data)
	c.Format(format, "a ballot")
	if b.state(&c); b.Incarnation == 0 {
		c.Fail(errors.New("incarnation 0; the first is 1"))
	}
	if err := c.Done(name + ": ballot"); err != nil {
		return Ballot{}, err
	}
	return b, nil
}

func (b *Ballot) state(c *protocol.Coder) {
	if c.Uints(&b.Epoch, &b.Incarnation); b.Epoch > protocol.MaxCount {
		c.Fail(fmt.Errorf("epoch %d; want at most %d", b.Epoch, uint64(protocol.MaxCount)))
	}
}

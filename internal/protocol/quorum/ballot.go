package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// MaxTerm is the greatest term.
const MaxTerm = protocol.MaxCount

// Ballot is a voter's durable state: all that it must remember across a restart to keep its votes
// and promises. It is never deleted on close.
type Ballot struct {
	// Term is the highest term that the voter has voted in or followed.
	Term uint64
	// VotedFor has the vote in Term; the zero Voter is nobody.
	VotedFor protocol.Voter
	// Membership is the newest that the voter knows.
	Membership *protocol.Membership
	// MaxPromise bounds every promise that the voter gave, or claimed as a leader, and that may
	// still be live. It does not shrink before its old value has elapsed.
	MaxPromise time.Duration
	// Incarnation counts the starts of the voter.
	Incarnation uint64
}

// format is the first byte of a ballot.
const format = 2

// Append appends the ballot in its canonical encoding.
func (b Ballot) Append(dst []byte) []byte {
	c := protocol.Appending(dst)
	c.Format(format, "a ballot")
	b.state(&c)
	return c.Appended()
}

// DecodeBallot reads what Append wrote, and nothing else: a ballot that it accepts encodes to the
// same bytes. The caller checks the checksum.
func DecodeBallot(data []byte) (b Ballot, err error) {
	c := protocol.Loading(data)
	c.Format(format, "a ballot")
	b.state(&c)
	if err := c.Done("ballot"); err != nil {
		return Ballot{}, err
	}
	return b, nil
}

// state codes the ballot. It leaves the zero Ballot if what it loads is not a valid one.
func (b *Ballot) state(c *protocol.Coder) {
	c.Uints(&b.Term)
	c.Voter(&b.VotedFor)
	c.Membership(&b.Membership)
	c.Durations(&b.MaxPromise)
	if c.Uints(&b.Incarnation); !c.Loads() {
		return
	}
	if err := b.validate(); err != nil {
		c.Fail(err)
		*b = Ballot{}
	}
}

func (b *Ballot) validate() error {
	switch {
	case b.Membership == nil:
		return errors.New("no membership")
	case b.Term > MaxTerm:
		return fmt.Errorf("term %d; want at most %d", b.Term, uint64(MaxTerm))
	case b.MaxPromise < 0 || b.MaxPromise > LongestPromise:
		return fmt.Errorf("a promise of %v; want 0 to %v", b.MaxPromise, LongestPromise)
	case b.Incarnation == 0:
		return errors.New("incarnation 0; the first is 1")
	}
	return b.Membership.Validate()
}

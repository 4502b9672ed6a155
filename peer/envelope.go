package peer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// envelope is what a data directory keeps of a classic protocol, whose ballots hold no membership: the protocol of
// the ballot, and the founding. It binds the directory to the protocol, as the identity binds it to the election,
// because the ballot of one protocol means nothing to another.
type envelope struct {
	protocol   string
	membership *protocol.Membership // never nil
	ballot     []byte               // of the machine
}

// envelopeMark is how an envelope begins. No ballot of package quorum begins so: its first byte is the number of its
// format.
const envelopeMark = "classic\x01"

func (e *envelope) append(dst []byte) []byte {
	dst = protocol.AppendString(append(dst, envelopeMark...), e.protocol)
	return protocol.AppendString(protocol.AppendMembership(dst, e.membership), e.ballot)
}

// openEnvelope reads exactly what append writes: everything that it accepts encodes to the same bytes.
func openEnvelope(kept []byte) (envelope, error) {
	body, found := bytes.CutPrefix(kept, []byte(envelopeMark))
	if !found {
		return envelope{}, fmt.Errorf("of %d bytes, the first %d are not those of a classic protocol's ballot of this version", len(kept), len(envelopeMark))
	}
	d := protocol.NewDecoder(body)
	e := envelope{protocol: d.String(), membership: d.Membership(), ballot: d.Bytes()}
	if err := d.Done(); err != nil {
		return envelope{}, err
	}
	if e.membership == nil {
		return envelope{}, errors.New("it does not say who takes part")
	}
	if err := e.membership.Validate(); err != nil {
		return envelope{}, err
	}
	return e, nil
}

// otherProtocol refuses a data directory of another protocol.
func otherProtocol(is, want string) error {
	return fmt.Errorf("this data directory is one of protocol=%s, and this node is of protocol=%s; want protocol=%s, or another data directory. "+
		"To change the protocol of an election, stop all voters, empty their directories, and start them with a higher era", is, want, is)
}

func (k *classic) read(kept []byte) (*protocol.Membership, []byte, error) {
	e, err := openEnvelope(kept)
	if err != nil {
		if _, wrong := quorum.DecodeBallot(kept); wrong == nil {
			return nil, nil, otherProtocol(quorum.Name, k.name)
		}
		return nil, nil, fmt.Errorf("ballot: %w", err)
	}
	if e.protocol != k.name {
		return nil, nil, otherProtocol(e.protocol, k.name)
	}
	if err := k.boots(e.ballot); err != nil {
		return nil, nil, fmt.Errorf("ballot of %s: %w", k.name, err)
	}
	return e.membership, e.ballot, nil
}

func (k *classic) write(dst []byte, ms *protocol.Membership, data []byte) []byte {
	return (&envelope{protocol: k.name, membership: ms, ballot: data}).append(dst)
}

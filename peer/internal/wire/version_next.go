//go:build chaosnext

package wire

import "google.golang.org/protobuf/encoding/protowire"

// The versions of the peers' protocol that this build speaks: one more than exist. Tests make such builds, to roll an
// election from one version to the other and back.
const (
	Version uint32 = 2 // the greatest
	Oldest  uint32 = 1 // the least
)

// letterNumber is a field number that wire.proto does not use, and will not soon: it counts from 5 on.
const letterNumber = 1000

// Next is what version 2 adds to a letter.
type Next struct {
	// Number counts the letters of one direction of a connection, from 1. 0 is none: the sender speaks version 1.
	Number uint64
}

func (n Next) append(b []byte) []byte { return appendUint(b, letterNumber, n.Number) }

// take reads a field of a letter that version 1 does not have, and reports whether version 2 has it.
func (n *Next) take(field protowire.Number, v uint64) bool {
	if field != letterNumber {
		return false
	}
	n.Number = v
	return true
}

// unknown reads the fields that the generated code did not know.
func (n *Next) unknown(b []byte) {
	for v := range fields(b, letterNumber, protowire.VarintType) {
		n.Number, _ = protowire.ConsumeVarint(v)
	}
}

//go:build !chaosnext

package wire

import "google.golang.org/protobuf/encoding/protowire"

// The versions of the peers' protocol that this build speaks.
const (
	Version uint32 = 1 // the greatest
	Oldest  uint32 = 1 // the least
)

// Next is empty: this is the newest version.
type Next struct{}

func (Next) append(b []byte) []byte              { return b }
func (*Next) take(protowire.Number, uint64) bool { return false }
func (*Next) unknown([]byte)                     {}

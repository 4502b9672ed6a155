//go:build !chaosnext

package link

import "github.com/electd/elect/peer/internal/wire"

// next is empty: there is no further version of the protocol.
type next struct{}

func (next) stamp(_ *conn, f *wire.Frame) *wire.Frame { return f }
func (next) check(*conn, *wire.Letter) error          { return nil }

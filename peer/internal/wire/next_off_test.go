//go:build !chaosnext

package wire_test

import "github.com/electd/elect/peer/internal/wire"

func next(uint64) (n wire.Next) { return n }

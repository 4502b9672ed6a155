//go:build chaosnext

package link

import (
	"fmt"

	"github.com/electd/elect/peer/internal/wire"
)

// next is what version 2 of the protocol needs for a connection: its letters are numbered, so that none can be
// missing in the middle. With a node of version 1 no numbers are sent or expected.
type next struct {
	sent uint64 // owned by the goroutine that writes: push, or the writer while it is busy
	got  uint64 // owned by the reader
}

// stamp numbers a letter before it is written.
func (n *next) stamp(c *conn, f *wire.Frame) *wire.Frame {
	if f.Letter == nil || c.speaks < 2 {
		return f
	}
	n.sent++
	l := *f.Letter
	l.Next.Number = n.sent
	return &wire.Frame{Letter: &l}
}

// check returns an error for a letter that is not the next one.
func (n *next) check(c *conn, l *wire.Letter) error {
	if c.speaks < 2 {
		if l.Next.Number != 0 {
			return fmt.Errorf("a letter with the number %d; the connection speaks version %d, which has none", l.Next.Number, c.speaks)
		}
		return nil
	}
	if n.got++; l.Next.Number != n.got {
		return fmt.Errorf("a letter with the number %d; want %d", l.Next.Number, n.got)
	}
	return nil
}

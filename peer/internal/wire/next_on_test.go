//go:build chaosnext

package wire_test

import (
	"bytes"
	"testing"

	"github.com/electd/elect/peer/internal/wire"
)

func next(number uint64) wire.Next { return wire.Next{Number: number} }

// TestNumberOfALetter: the number that version 2 adds arrives on both ways of
// reading a letter, by hand and by the generated code.
func TestNumberOfALetter(t *testing.T) {
	t.Parallel()
	f := heartbeat()
	f.Letter.Next.Number = 300
	frame := encode(t, f)
	byHand, err := wire.NewReader(bytes.NewReader(frame), wire.MaxFrame).Next()
	if err != nil || byHand.Letter == nil || byHand.Letter.Next.Number != 300 {
		t.Errorf("by hand: %+v, %v; want number 300", byHand.Letter, err)
	}
	generated, err := wire.Decode(frame[4:])
	if err != nil || generated.Letter == nil || generated.Letter.Next.Number != 300 {
		t.Errorf("by the generated code: %+v, %v; want number 300", generated.Letter, err)
	}
}

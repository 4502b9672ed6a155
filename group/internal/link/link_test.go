package link

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// TestSlowReaderOfRenewals: a connection is closed whose other end asks for more answers than it reads.
func TestSlowReaderOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := New(a, time.Hour)
		go func() { _ = c.Run(wire.NewReader(a), func(wire.Packet) {}) }()
		for n := range uint64(100_000) {
			c.Send(wire.Packet{Message: &machine.Message{Type: machine.Answer, Seq: n + 1}})
		}
		if err := c.Err(); !errors.Is(err, ErrSlow) {
			t.Errorf("100,000 answers wait to be written: %v", err)
		}
		c.Close(ErrClosed)
	})
}

// TestManyEntries: what is said of more keys than one message may have arrives in several.
func TestManyEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		near, far := New(a, time.Hour), New(b, time.Hour)
		got := make(chan int, 1000)
		reader := wire.NewReader(b)
		reader.Open()
		go func() { _ = near.Run(wire.NewReader(a), func(wire.Packet) {}) }()
		go func() { _ = far.Run(reader, func(p wire.Packet) { got <- len(p.Side.Entries) }) }()
		all := make([]wire.Entry, 300_000)
		for i := range all {
			all[i] = wire.Entry{Key: "a key", Member: "m1", Metadata: make([]byte, 200)}
		}
		near.Send(wire.Packet{Side: &wire.Side{Kind: wire.States, Entries: all}})
		for n := 0; n < len(all); {
			select {
			case more := <-got:
				n += more
			case <-near.Done():
				t.Fatalf("%d of %d entries have arrived: %v, %v", n, len(all), near.Err(), far.Err())
			}
		}
		near.Close(ErrClosed)
	})
}

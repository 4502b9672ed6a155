package wire_test

import (
	"bytes"
	"testing"

	"github.com/electd/elect/peer/internal/wire"
)

// repeat is a stream of one frame without end.
type repeat struct {
	frame []byte
	rest  []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = r.frame
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkAppendHeartbeat(b *testing.B) {
	f := heartbeat()
	buf := encode(b, f)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = wire.Append(buf[:0], f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadHeartbeat(b *testing.B) {
	frame := encode(b, heartbeat())
	r := wire.NewReader(&repeat{frame: bytes.Clone(frame)}, wire.MaxFrame)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

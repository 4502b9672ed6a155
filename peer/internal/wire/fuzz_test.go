package wire_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/electd/elect/peer/internal/wire"
)

// FuzzDecode: what is accepted encodes to something that decodes equal, and fits
// where it was.
func FuzzDecode(f *testing.F) {
	for _, frame := range append(whole(), small()...) {
		f.Add(encode(f, frame)[4:])
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		kept := bytes.Clone(payload)
		first, err := wire.Decode(payload)
		if !bytes.Equal(kept, payload) {
			t.Fatal("Decode wrote to its payload")
		}
		if err != nil {
			if v, ok := errors.AsType[*wire.VersionError](err); ok && first.Hello != nil {
				want := wire.Frame{Hello: &wire.Hello{Version: v.Version, Oldest: v.Oldest}}
				if !reflect.DeepEqual(first, want) {
					t.Fatalf("of another version: %+v", first.Hello)
				}
			} else if !reflect.ValueOf(first).IsZero() {
				t.Fatalf("an error and a frame: %+v, %v", first, err)
			}
			return
		}
		again, err := wire.Append(nil, &first)
		if err != nil {
			t.Fatalf("accepted, and cannot be sent: %v: %+v", err, first)
		}
		second, err := wire.Decode(again[4:])
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("first %+v, then %+v, %v", first, second, err)
		}
		twice, err := wire.Append(nil, &second)
		if err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("encodes to % x, then to % x, %v", again, twice, err)
		}
	})
}

// FuzzReader: a stream of whatever bytes ends, with the frames that Decode finds
// in it.
func FuzzReader(f *testing.F) {
	var all []byte
	for _, frame := range append(whole(), small()...) {
		all = append(all, encode(f, frame)...)
		f.Add(encode(f, frame), uint32(wire.MaxHello))
	}
	f.Add(all, uint32(wire.MaxFrame))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0}, uint32(wire.MaxFrame))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0}, uint32(0))
	f.Fuzz(func(t *testing.T, stream []byte, most uint32) {
		most %= wire.MaxFrame + 1
		r := wire.NewReader(bytes.NewReader(stream), int(most))
		for rest := stream; ; {
			got, err := r.Next()
			if _, ok := errors.AsType[*wire.TooLarge](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				if errors.Is(err, io.EOF) && len(rest) != 0 {
					t.Fatalf("the end, and %d bytes left", len(rest))
				}
				return
			}
			size := int(uint32(rest[0])<<24 | uint32(rest[1])<<16 | uint32(rest[2])<<8 | uint32(rest[3]))
			if size > int(most) {
				t.Fatalf("a frame of %d bytes was read; at most %d", size, most)
			}
			want, wantErr := wire.Decode(rest[4 : 4+size])
			if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("Next() = %+v, %v; Decode says %+v, %v", got, err, want, wantErr)
			}
			rest = rest[4+size:]
		}
	})
}

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A slot, integers in big-endian order:
//
//	 0  "elecball"
//	 8  format, 4 bytes
//	12  length of the data, 4 bytes
//	16  number, 8 bytes; each save has a greater one
//	24  CRC-32C of bytes 0 to 24 and the data, 4 bytes
//	28  4 zeros
//	32  the data; what follows means nothing
const (
	// SlotSize is the size of a slot, in bytes: a multiple of the page and of any
	// disk's sector, so that the slots share neither.
	SlotSize = 16 << 10
	// MaxBallot is the greatest length of a ballot, in bytes. A ballot of quorum with 9 voters and 100 observers, all
	// with ids of 64 bytes and without addresses, has 8,146.
	MaxBallot = SlotSize - slotHead

	slotHead = 32
	sector   = 512 // the least unit of a write
	magic    = "elecball"
)

// slot is the content of a slot.
type slot struct {
	number uint64
	data   []byte
}

// appendSlot appends the slot, with zeros up to a whole number of sectors.
func appendSlot(dst []byte, s slot) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, format)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.data)))
	dst = binary.BigEndian.AppendUint64(dst, s.number)
	dst = binary.BigEndian.AppendUint32(dst, castagnoli(dst[start:], s.data))
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, s.data...)
	if rest := (len(dst) - start) % sector; rest > 0 {
		var zeros [sector]byte
		dst = append(dst, zeros[rest:]...)
	}
	return dst
}

var (
	errBlank  = errors.New("it was never written")
	errFormat = errors.New("its format is of another version of this program")
)

// decodeSlot reads a slot. Its data points into src.
func decodeSlot(src []byte) (slot, error) {
	switch {
	case len(bytes.TrimLeft(src, "\x00")) == 0:
		return slot{}, errBlank
	case len(src) < slotHead:
		return slot{}, fmt.Errorf("%d bytes; want at least %d", len(src), slotHead)
	case string(src[:8]) != magic:
		return slot{}, fmt.Errorf("it begins with %q; want %q", src[:8], magic)
	}
	length := binary.BigEndian.Uint32(src[12:])
	s := slot{number: binary.BigEndian.Uint64(src[16:])}
	if length == 0 || uint64(length) > uint64(min(len(src)-slotHead, MaxBallot)) {
		return slot{}, fmt.Errorf("%d bytes of data; want 1 to %d", length, min(len(src)-slotHead, MaxBallot))
	}
	s.data = src[slotHead : slotHead+int(length)]
	if got, want := binary.BigEndian.Uint32(src[24:]), castagnoli(src[:24], s.data); got != want || string(src[28:slotHead]) != "\x00\x00\x00\x00" {
		return slot{}, fmt.Errorf("its checksum is %08x; want %08x", got, want)
	}
	if f := binary.BigEndian.Uint32(src[8:]); f != format {
		return slot{}, fmt.Errorf("%w: %d; this one reads %d", errFormat, f, format)
	}
	if s.number == 0 {
		return slot{}, errors.New("its number is 0; the first is 1")
	}
	return s, nil
}

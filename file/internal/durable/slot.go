package durable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
)

// A slot is one sector. The two lie a page apart, so that also a disk with 4 KiB
// sectors cannot damage both in one torn write.
//
//	0   8  magic
//	8   4  version, little endian like all that follows
//	12  4  which slot this is, so that a misplaced write is noticed
//	16  8  era
//	24  8  count
//	32  8  1 in the slots of a new file, else 0
//	40  …  zero
//	504 8  CRC-64 (ECMA) of all before it
const (
	slots    = 2
	slotSize = 512
	slotGap  = 4096
	sumAt    = slotSize - 8

	magic   = "electctr"
	version = 1
)

var errSlot = errors.New("slot is damaged")

// value is the content of a slot. Unlike a token it may have a count of 0.
type value struct {
	era, count uint64

	// unnamed means that the file was just made. If both slots are unnamed, the file's name may not be on the disk yet.
	unnamed bool
}

func (v value) less(o value) bool {
	return cmp.Or(cmp.Compare(v.era, o.era), cmp.Compare(v.count, o.count)) < 0
}

// next returns the value that follows v in an era that is not before v's.
func (v value) next(era uint64) value {
	if v.era == era {
		return value{era: era, count: v.count + 1}
	}
	return value{era: era, count: 1}
}

func later(v, o value) value {
	if v.less(o) {
		return o
	}
	return v
}

func offset(slot int) int64 { return int64(slot) * slotGap }

func encode(slot int, v value) [slotSize]byte {
	var b [slotSize]byte
	copy(b[:], magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], uint32(slot))
	binary.LittleEndian.PutUint64(b[16:], v.era)
	binary.LittleEndian.PutUint64(b[24:], v.count)
	if v.unnamed {
		b[32] = 1
	}
	binary.LittleEndian.PutUint64(b[sumAt:], sum(b[:sumAt]))
	return b
}

// decode reads what encode wrote for that slot. It returns errSlot for anything damaged, and ErrVersion for an intact
// slot of another version: a leap over that one would be a guess.
func decode(slot int, b []byte) (value, error) {
	if len(b) != slotSize || string(b[:8]) != magic || binary.LittleEndian.Uint64(b[sumAt:]) != sum(b[:sumAt]) {
		return value{}, errSlot
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return value{}, fmt.Errorf("%w: version %d; want %d", ErrVersion, v, version)
	}
	v := value{binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]), b[32] == 1}
	if want := encode(slot, v); !bytes.Equal(b, want[:]) {
		return value{}, errSlot
	}
	return v, nil
}

func sum(b []byte) uint64 { return crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)) }

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The canonical encoding of states and of durable data: integers as eight bytes in big-endian
// order, strings preceded by their length. It favours simplicity over size.

// AppendUint appends an integer.
func AppendUint(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendInstant appends an instant.
func AppendInstant(dst []byte, i Instant) []byte { return AppendUint(dst, uint64(i)) }

// AppendDuration appends a duration.
func AppendDuration(dst []byte, d time.Duration) []byte { return AppendUint(dst, uint64(d)) }

// AppendBool appends one byte.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendString appends a string and its length.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	return append(AppendUint(dst, uint64(len(s))), s...)
}

// AppendVoter appends a voter.
func AppendVoter(dst []byte, v Voter) []byte {
	return append(AppendString(dst, v.ID), v.Dir[:]...)
}

// AppendMembership appends a membership; nil is allowed.
func AppendMembership(dst []byte, m *Membership) []byte {
	dst = AppendBool(dst, m != nil)
	if m == nil {
		return dst
	}
	dst = AppendUint(AppendUint(dst, m.ConfigTerm), m.Version)
	dst = AppendUint(dst, uint64(len(m.Voters)))
	for _, v := range m.Voters {
		dst = AppendVoter(dst, v)
	}
	dst = AppendUint(dst, uint64(len(m.Observers)))
	for _, id := range m.Observers {
		dst = AppendString(dst, id)
	}
	dst = AppendUint(dst, uint64(len(m.Addresses)))
	for _, a := range m.Addresses {
		dst = AppendString(AppendString(dst, a.ID), a.Addr)
	}
	return dst
}

// Decoder reads what the Append functions wrote. After the first error it returns zeros, and Done
// returns that error. It never reads beyond its input and allocates no more than the length of its
// input.
type Decoder struct {
	src []byte
	off int
	err error
}

// NewDecoder returns a decoder of src, which it does not change.
func NewDecoder(src []byte) *Decoder { return &Decoder{src: src} }

// Fail sets the decoder's error, with the offset, unless one is set already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = fmt.Errorf("at byte %d of %d: %w", d.off, len(d.src), err)
	}
}

var errShort = errors.New("unexpected end")

func (d *Decoder) take(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.src)-d.off) {
		d.Fail(errShort)
		return nil
	}
	b := d.src[d.off : d.off+int(n)]
	d.off += int(n)
	return b
}

// Uint reads an integer.
func (d *Decoder) Uint() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Instant reads an instant.
func (d *Decoder) Instant() Instant { return Instant(d.Uint()) }

// Duration reads a duration.
func (d *Decoder) Duration() time.Duration { return time.Duration(d.Uint()) }

// Bool reads one byte, 0 or 1.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	if b == nil {
		return false
	}
	if b[0] > 1 {
		d.Fail(fmt.Errorf("a bool of %d; want 0 or 1", b[0]))
	}
	return b[0] == 1
}

// String reads a string.
func (d *Decoder) String() string { return string(d.take(d.Uint())) }

// Bytes reads a string as a copy of its bytes; nil if it is empty.
func (d *Decoder) Bytes() []byte { return append([]byte(nil), d.take(d.Uint())...) }

// Len reads the number of items that follow, each at least least bytes long.
func (d *Decoder) Len(least int) int {
	n := d.Uint()
	if d.err == nil && n > uint64(len(d.src)-d.off)/uint64(max(least, 1)) {
		d.Fail(fmt.Errorf("%d items announced; want fewer, by the length of the input", n))
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// Voter reads a voter.
func (d *Decoder) Voter() (v Voter) {
	v.ID = NodeID(d.String())
	copy(v.Dir[:], d.take(uint64(len(v.Dir))))
	return v
}

// Membership reads a membership, which may be nil.
func (d *Decoder) Membership() *Membership {
	if !d.Bool() {
		return nil
	}
	m := &Membership{ConfigTerm: d.Uint(), Version: d.Uint()}
	for range d.Len(24) {
		m.Voters = append(m.Voters, d.Voter())
	}
	for range d.Len(8) {
		m.Observers = append(m.Observers, NodeID(d.String()))
	}
	for range d.Len(16) {
		m.Addresses = append(m.Addresses, Address{NodeID(d.String()), d.String()})
	}
	return m
}

// Done returns the first error, or an error if not all of the input was read.
func (d *Decoder) Done() error {
	if d.err == nil && d.off != len(d.src) {
		d.Fail(fmt.Errorf("%d bytes after the end", len(d.src)-d.off))
	}
	return d.err
}

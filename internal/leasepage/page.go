// Package leasepage has the lease page: 64 bytes of shared memory in which a leader's supervisor says until when
// leadership is proven, and which any process of the machine can read without asking anybody. Package agent/lease is
// for readers, and documents the format.
//
// A page has one writer at a time, and any number of readers in any number of processes. The writer uses pwrite(2) and
// not a mapping: a reader that truncates the file cannot hurt it.
package leasepage

import (
	"encoding/binary"
	"fmt"
)

// Env is the variable with the path of a page.
const Env = "ELECT_LEASE"

// The format. Numbers are little-endian.
const (
	Size  = 64
	Magic = "electpg1" // the last byte is the version

	Sequence = 8  // uint64: odd while the page is written
	Token    = 16 // uint64
	Until    = 24 // int64: nanoseconds of CLOCK_BOOTTIME; 0: over
)

// State is what a page says.
type State struct {
	Token uint64
	Until int64
}

// Check returns an error if b does not begin as a lease page.
func Check(b []byte) error {
	if len(b) < Size || string(b[:len(Magic)]) != Magic {
		return fmt.Errorf("it is no lease page; want %d bytes that begin with %q", Size, Magic)
	}
	return nil
}

// encode is a page as it is before its first change.
func encode(s State) []byte {
	b := make([]byte, Size)
	copy(b, Magic)
	binary.LittleEndian.PutUint64(b[Token:], s.Token)
	binary.LittleEndian.PutUint64(b[Until:], uint64(s.Until))
	return b
}

// Package stamp makes the smallest program that can report when it began to run: its first instructions read the
// clock, and it writes that time. With it as the command of elect run, a takeover is measured up to the work's first
// instruction, without the start of a runtime.
//
// On linux/amd64 [Build] emits the program itself, about 300 bytes of ELF. On other systems the caller runs [Main] in
// a process of its own, and the figure includes the start of Go's runtime: see [Native].
//
// The package keeps no state. A program that cannot write its record, or cannot
// get its memory, exits with 1.
package stamp

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Size of a record: seconds and nanoseconds of the clock, and the process id, 64 bits each in the order of the
// machine. A program with memory writes a second record, with [ready] set in the id, when all of it was touched. A
// program of BuildLast writes one with [over] set at its end.
const Size = 24

const (
	ready = 1 << 63
	over  = 1 << 62
)

// Record is a record of the program.
type Record struct {
	At    time.Duration // on the clock of [Now]
	PID   int
	Ready bool // its memory is allocated; the program's second record
	Over  bool // it is ending after SIGTERM; its last record
}

// Read reads the next record.
func Read(r io.Reader) (Record, error) {
	var b [Size]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Record{}, err
	}
	second, nano, id := binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
	if nano >= uint64(time.Second) || second > 1<<32 {
		return Record{}, fmt.Errorf("%x is not a record of the time; the command wrote something else", b)
	}
	return Record{
		At:    time.Duration(second)*time.Second + time.Duration(nano),
		PID:   int(id &^ (ready | over)),
		Ready: id&ready != 0,
		Over:  id&over != 0,
	}, nil
}

// appendTo appends r in the form that Read reads.
func (r Record) appendTo(dst []byte) []byte {
	dst = binary.NativeEndian.AppendUint64(dst, uint64(r.At/time.Second))
	dst = binary.NativeEndian.AppendUint64(dst, uint64(r.At%time.Second))
	id := uint64(r.PID)
	if r.Ready {
		id |= ready
	}
	if r.Over {
		id |= over
	}
	return binary.NativeEndian.AppendUint64(dst, id)
}

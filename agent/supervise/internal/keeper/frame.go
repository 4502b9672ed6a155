package keeper

import (
	"encoding/binary"
	"fmt"
)

// Parent and keeper talk in frames, over a socket to the keeper and a pipe from it: four bytes of length, big endian,
// that count what follows; one byte of kind; the payload. Frames other than the specification are shorter than
// PIPE_BUF, so that a write that does not wait writes all of it or nothing.

type Kind byte

const (
	// From the parent.
	KindSpec     Kind = 'S' // what to run: Spec
	KindSignal   Kind = 's' // a signal's number, for the command's group
	KindDeadline Kind = 'd' // the deadline, ns on the shared clock
	KindUnproven Kind = 'u' // the lease is lost before its end: for the lease page
	KindWithdraw Kind = 'w' // take the addresses away: the term has ended
	KindStop     Kind = 't' // TERM, then KILL after the grace
	KindKill     Kind = 'k' // sweep now
	KindAbort    Kind = 'a' // sweep now and leave the locks alone: Start has failed
	KindContinue Kind = 'c' // SIGCONT to the command's group

	// From the program under the keeper.
	KindLead   Kind = 'l' // a leadership begins: Lead; files may come with it
	KindExtend Kind = 'e' // its new deadline: Lead
	KindDone   Kind = 'o' // it is over: Lead

	// From the keeper to that program.
	KindTaken Kind = 'T' // the answer to KindLead: an errno, 0 if it is guarded

	// From the keeper.
	KindStarted  Kind = 'P' // the command's pid
	KindFailed   Kind = 'F' // an errno
	KindBlind    Kind = 'B' // text: why the keeper could not find the family in /proc
	KindEnding   Kind = 'E' // a Reason: the stop or the sweep begins
	KindSweeping Kind = 'W' // the sweep begins
	KindExited   Kind = 'X' // the command's wait status
	KindPaused   Kind = 'Z' // the command was stopped by this signal
	KindNote     Kind = 'N' // text for the log
	KindOverrun  Kind = 'O' // when some of the family was alive although the lease had ended
	KindGone     Kind = 'G' // when the family was dead: the keeper is about to free the locks
)

// MaxFrame bounds a frame. Linux takes at most 6 MiB of arguments and
// environment together.
const MaxFrame = 16 << 20

// AppendFrame appends a whole frame to dst.
func AppendFrame(dst []byte, k Kind, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(payload)))
	dst = append(dst, byte(k))
	return append(dst, payload...)
}

// AppendNumber appends a frame whose payload is one number.
func AppendNumber(dst []byte, k Kind, n int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return AppendFrame(dst, k, b[:])
}

// Number reads what AppendNumber wrote.
func Number(payload []byte) (int64, error) {
	if len(payload) != 8 {
		return 0, fmt.Errorf("supervise: frame with %d bytes where 8 belong", len(payload))
	}
	return int64(binary.BigEndian.Uint64(payload)), nil
}

// Decoder splits a stream of bytes into frames.
type Decoder struct {
	buf []byte // what has been read and not yet returned
}

// Room returns space to read into. The caller reports with Took how much of it was filled.
func (d *Decoder) Room() []byte {
	const chunk = 4 << 10
	want := chunk
	if len(d.buf) >= 4 {
		want = max(chunk, min(4+int(binary.BigEndian.Uint32(d.buf)), MaxFrame+4)-len(d.buf))
		want = min(want, 64<<10) // as much as a pipe holds; a length alone must not make it allocate
	}
	if cap(d.buf)-len(d.buf) < want {
		grown := make([]byte, len(d.buf), max(2*cap(d.buf), len(d.buf)+want))
		copy(grown, d.buf)
		d.buf = grown
	}
	return d.buf[len(d.buf) : len(d.buf)+want]
}

func (d *Decoder) Took(n int) { d.buf = d.buf[:len(d.buf)+n] }

// Next returns the next whole frame, or ok false if more must be read first.
// The payload is valid until Room is called.
func (d *Decoder) Next() (k Kind, payload []byte, ok bool, err error) {
	if len(d.buf) < 4 {
		return 0, nil, false, nil
	}
	n := binary.BigEndian.Uint32(d.buf)
	if n < 1 || n > MaxFrame {
		return 0, nil, false, fmt.Errorf("supervise: frame of %d bytes, allowed are 1 to %d", n, MaxFrame)
	}
	if uint32(len(d.buf)-4) < n {
		return 0, nil, false, nil
	}
	frame := d.buf[4 : 4+n]
	d.buf = d.buf[4+n:]
	return Kind(frame[0]), frame[1:], true, nil
}

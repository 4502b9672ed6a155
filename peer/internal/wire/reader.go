package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Reader reads frames from a connection.
type Reader struct {
	r   *bufio.Reader
	max int
	buf []byte

	prefix [prefixSize]byte
	known  memory
}

// keep is how much memory a Reader keeps between two frames, in bytes.
const keep = 16 << 10

// NewReader reads from r frames of at most most bytes.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 4<<10), max: most}
}

// SetMax sets the greatest length of a frame, in bytes, from the next one on.
func (r *Reader) SetMax(most int) { r.max = most }

// Next reads one frame. It returns io.EOF if the stream ends between two frames, io.ErrUnexpectedEOF if it ends
// within one, *TooLarge for a frame that is too long, and otherwise an error that says what is wrong with an
// unreadable frame. After *TooLarge nothing more can be read. The other errors, except those of the stream, concern
// one frame. Letters may share what is immutable in them: an equal membership is the same one.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.prefix[:]); err != nil {
		return Frame{}, err
	}
	size := int(binary.BigEndian.Uint32(r.prefix[:]))
	if size > r.max || size < 0 {
		return Frame{}, &TooLarge{Size: size, Max: r.max}
	}
	if cap(r.buf) < size || cap(r.buf) > max(size, keep) {
		r.buf = make([]byte, size, max(size, 512))
	}
	r.buf = r.buf[:size]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	if l, ok := r.known.letter(r.buf); ok {
		return Frame{Letter: l}, nil
	}
	return Decode(r.buf)
}

package wire

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/electd/elect/internal/protocol/group"
)

// Write writes a packet at once.
func Write(to io.Writer, p *Packet) error {
	write := func(frame []byte) error { _, err := to.Write(frame); return err }
	_, err := Frames(nil, Append(nil, p), write, func() error { return nil })
	return err
}

// Frames cuts what [Append] wrote into frames, and passes each to write, with its length in front. Between two of them
// it calls between. frame is memory that may be used; what has grown of it is returned.
func Frames(frame, whole []byte, write func([]byte) error, between func() error) ([]byte, error) {
	if len(whole) <= MaxFrame {
		frame = binary.BigEndian.AppendUint32(frame[:0], uint32(len(whole)))
		frame = append(frame, whole...)
		return frame, write(frame)
	}
	if len(whole) > MaxWhole {
		return frame, malformed("a message of %d bytes; want at most %d", len(whole), MaxWhole)
	}
	for len(whole) > 0 {
		n, kind := min(len(whole), MaxFrame-1), byte(kindPiece)
		if n == len(whole) {
			kind = kindLast
		}
		frame = binary.BigEndian.AppendUint32(frame[:0], uint32(n+1))
		frame = append(frame, kind)
		frame = append(frame, whole[:n]...)
		if err := write(frame); err != nil {
			return frame, err
		}
		if whole = whole[n:]; len(whole) > 0 {
			if err := between(); err != nil {
				return frame, err
			}
		}
	}
	return frame, nil
}

// Split returns a message as several of the same meaning, if it has lists that are large because of the states in
// them: a holder has as many bytes of state to hand over as it has keys times MaxState.
func Split(m *group.Message) []*group.Message {
	const large = 4 << 20
	total := 0
	for i := range m.Held {
		total += len(m.Held[i].State)
	}
	if total <= large || m.Type == group.Report {
		return []*group.Message{m}
	}
	var all []*group.Message
	for rest := m.Held; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size+len(rest[n].State) <= large) {
			size += len(rest[n].State)
			n++
		}
		part := *m
		part.Held, rest = slices.Clip(rest[:n]), rest[n:]
		all = append(all, &part)
	}
	return all
}

// Reader reads packets from a connection.
type Reader struct {
	r      io.Reader
	most   int // of a frame
	whole  int // of what was cut into pieces
	head   [4]byte
	frame  []byte
	pieces []byte // so far
}

// NewReader returns a reader that takes no more than frames of [MaxHello] until [Reader.Open] is called.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, most: MaxHello, whole: MaxWhole} }

// Open lets frames have their full size.
func (r *Reader) Open() { r.most = MaxFrame }

// Limit lets what was cut into pieces have that size at most, instead of [MaxWhole].
func (r *Reader) Limit(whole int) { r.whole = whole }

// Next returns the next packet. After an error that matches [ErrFormat] nothing can be read any more.
func (r *Reader) Next() (Packet, error) {
	for {
		kind, body, err := r.next()
		if err != nil {
			return Packet{}, err
		}
		if kind != kindPiece && kind != kindLast {
			p, err := Decode(body)
			if err == nil && len(r.pieces) > 0 && !p.Urgent() {
				err = malformed("a message between the pieces of another")
			}
			return p, err
		}
		if r.most < MaxFrame || len(r.pieces)+len(body)-1 > r.whole {
			return Packet{}, malformed("a message of more than %d bytes", r.whole)
		}
		r.pieces = append(r.pieces, body[1:]...)
		if kind == kindLast {
			p, err := Decode(r.pieces)
			r.pieces = nil // as rare as large
			return p, err
		}
	}
}

// next reads one frame. The body, with its kind, is valid until the next call.
func (r *Reader) next() (kind byte, body []byte, err error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(r.head[:])
	if n == 0 || n > uint32(r.most) {
		return 0, nil, malformed("a frame of %d bytes; want 1 to %d", n, r.most)
	}
	if cap(r.frame) < int(n) {
		r.frame = make([]byte, n)
	}
	body = r.frame[:n]
	if _, err := io.ReadFull(r.r, body); err != nil {
		return 0, nil, err
	}
	return body[0], body, nil
}

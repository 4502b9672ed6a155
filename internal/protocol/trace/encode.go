package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/electd/elect/internal/protocol"
)

// Writer is an io.Writer; this package does no I/O of its own, and so does not
// import io.
type Writer interface {
	Write(p []byte) (n int, err error)
}

// Encoder writes a trace, one line with one Write. It holds no more than a line
// in memory, and refuses what a [Decoder] would refuse.
type Encoder struct {
	w     Writer
	order order
	line  int
	buf   bytes.Buffer
	json  *json.Encoder
}

// NewEncoder writes the header.
func NewEncoder(w Writer, h *Header) (*Encoder, error) {
	e := &Encoder{w: w}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	if err := h.Validate(); err != nil {
		return nil, onLine(1, err)
	}
	e.order = newOrder(h)
	return e, e.write(h)
}

// Event writes an event, and keeps no reference to it.
func (e *Encoder) Event(ev *Event) error {
	if err := e.order.next(ev); err != nil {
		return onLine(e.line+1, err)
	}
	return e.write(ev)
}

func (e *Encoder) write(v any) error {
	e.line++
	e.buf.Reset()
	if err := e.json.Encode(v); err != nil {
		return onLine(e.line, err)
	}
	if most := longest(e.line, e.order.group); e.buf.Len() > most {
		return onLine(e.line, fmt.Errorf("%d bytes; want at most %d", e.buf.Len(), most))
	}
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return fmt.Errorf("line %d: %w", e.line, err)
	}
	return nil
}

// Digest stands for effects in a trace that must be small: FNV-1a, 64 bits, of their JSON, as 16
// hexadecimal digits.
func Digest(fx *protocol.Effects) (string, error) {
	text, err := canonical(fx)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	h.Write(text)
	return fmt.Sprintf("%016x", h.Sum64()), nil
}

// canonical is the JSON by which two values are compared.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// format is the version of the texts' form.
const format = 1

// maxText is the greatest length of a text that is read: the longest metadata that package driver
// allows, with each byte written as six, and what else there is.
const maxText = 32 << 10

// content is the text of an entry, as JSON.
type content struct {
	Format   int               `json:"elect"`
	ID       string            `json:"id"`
	Nonce    string            `json:"nonce"`
	Metadata map[string]string `json:"metadata,omitempty"`

	nonce protocol.Nonce
}

func encode(id string, nonce protocol.Nonce, metadata map[string]string) (string, error) {
	text, err := json.Marshal(content{Format: format, ID: id, Nonce: nonce.String(), Metadata: metadata})
	return string(text), err // of strings and numbers it never fails
}

// decode reads the text of an entry. One of another program has no nonce; its id is its text, if
// that can be an id.
func decode(e *Entry) *content {
	c := &content{}
	if err := strictly(e.Text, c); err == nil && c.Format == format && driver.CheckID(c.ID) == nil && driver.CheckMetadata(c.Metadata) == nil {
		if c.nonce, err = drive.ParseNonce(c.Nonce); err == nil {
			return c
		}
	}
	c = &content{ID: e.Text}
	if driver.CheckID(c.ID) != nil {
		c.ID = "foreign-" + strconv.FormatUint(e.Session, 16)
	}
	return c
}

// entry is an entry as the machine has it.
func (c *content) entry(e *Entry) protocol.Entry {
	return protocol.Entry{Order: e.Order, Session: e.Session, Holder: protocol.NodeID(c.ID), Nonce: c.nonce}
}

// mark is the text of the queue's mark, as JSON.
type mark struct {
	Format int       `json:"elect"`
	Order  uint64    `json:"order"`
	Held   bool      `json:"held"`
	Hold   string    `json:"hold,omitempty"`
	Since  time.Time `json:"since,omitzero"` // of the tenure, by the holder's wall clock, for people

	hold time.Duration
}

func encodeMark(m protocol.QueueMark, since time.Time) string {
	out := mark{Format: format, Order: m.Order, Held: m.Held}
	if m.Held {
		out.Hold, out.Since = m.Hold.String(), since.UTC().Truncate(time.Millisecond)
	}
	text, _ := json.Marshal(out) // of these it never fails
	return string(text)
}

// decodeMark reads a mark. What it does not know is an error. No text is no mark.
func decodeMark(text string) (m mark, err error) {
	if text == "" {
		return m, nil
	}
	if err := strictly(text, &m); err != nil {
		return mark{}, err
	}
	if m.Hold != "" {
		m.hold, err = time.ParseDuration(m.Hold)
	}
	switch {
	case err != nil:
	case m.Format != format:
		err = fmt.Errorf("it has format %d; want %d", m.Format, format)
	case m.Order == 0 || m.hold < 0 || m.Held != (m.hold > 0):
		err = errors.New("its order and hold do not fit together")
	}
	if err != nil {
		return mark{}, err
	}
	return m, nil
}

// mark is the mark as the machine has it.
func (m *mark) mark() protocol.QueueMark {
	return protocol.QueueMark{Order: m.Order, Held: m.Held, Hold: m.hold}
}

// strictly reads one JSON value, and nothing after it.
func strictly(text string, into any) error {
	if len(text) > maxText {
		return fmt.Errorf("it has %d bytes; want at most %d", len(text), maxText)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after it")
	}
	return nil
}

package queue

import (
	"maps"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// TestText: what is written is what is read.
func TestText(t *testing.T) {
	nonce, metadata := protocol.Nonce{1, 1<<64 - 1}, map[string]string{"addr": "10.0.0.3:80", "<": "&"}
	text, err := encode("web-3:4711", nonce, metadata)
	if err != nil {
		t.Fatal(err)
	}
	e := &Entry{Order: 7, Session: 9, Text: text}
	c := decode(e)
	if got, want := c.entry(e), (protocol.Entry{Order: 7, Session: 9, Holder: "web-3:4711", Nonce: nonce}); got != want || !maps.Equal(c.Metadata, metadata) {
		t.Errorf("%s is read as %+v, %v; want %+v", text, got, c.Metadata, want)
	}
	for _, m := range []protocol.QueueMark{{Order: 7, Held: true, Hold: 1500 * time.Millisecond}, {Order: 7}} {
		got, err := decodeMark(encodeMark(m, time.Unix(1, 0)))
		if err != nil || got.mark() != m {
			t.Errorf("%+v is read as %+v, %v", m, got.mark(), err)
		}
	}
}

func FuzzText(f *testing.F) {
	text, err := encode("a", protocol.Nonce{1, 2}, map[string]string{"k": "v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(encodeMark(protocol.QueueMark{Order: 7, Held: true, Hold: time.Second}, time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, text string) {
		e := &Entry{Order: 1, Session: 255, Text: text}
		c := decode(e)
		if err := driver.CheckID(c.ID); err != nil {
			t.Errorf("%q has the id %q: %v", text, c.ID, err)
		}
		if c.nonce != (protocol.Nonce{}) {
			again, err := encode(c.ID, c.nonce, c.Metadata)
			if got := decode(&Entry{Order: 1, Session: 255, Text: again}); err != nil || got.entry(e) != c.entry(e) {
				t.Errorf("%q is %+v, and written again %+v, %v", text, c, got, err)
			}
		}
		if m, err := decodeMark(text); err == nil && text != "" {
			if again, err := decodeMark(encodeMark(m.mark(), m.Since)); err != nil || again.mark() != m.mark() {
				t.Errorf("%q is %+v, and written again %+v, %v", text, m, again, err)
			}
		}
	})
}

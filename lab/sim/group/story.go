package group

import (
	"fmt"
	"strings"

	machine "github.com/electd/elect/internal/protocol/group"
)

// tellMessage writes a message into the story.
func (w *World) tellMessage(from, to *node, m *machine.Message) {
	if w.out == nil && w.watch == nil {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "> %s %s number %d T %d", to.ID, m.Type, m.Number, m.Tenure)
	if m.Seq != 0 {
		fmt.Fprintf(&text, " seq %d", m.Seq)
	}
	if m.Session != (machine.Session{}) {
		fmt.Fprintf(&text, " of %v", m.Session)
	}
	if m.Admitted {
		text.WriteString(" admitted")
	}
	if m.Acked != 0 {
		fmt.Fprintf(&text, " acked %d", m.Acked)
	}
	if m.Registry != nil {
		fmt.Fprintf(&text, " registry %d.%d %v", m.Registry.Tenure, m.Registry.Version, m.Registry.Sessions)
	}
	for _, h := range m.Held {
		fmt.Fprintf(&text, " %s(%v)", h.Key, h.Token)
		if len(h.State) > 0 {
			fmt.Fprintf(&text, " with a state %x", h.State)
		}
	}
	for _, h := range m.Overruns {
		fmt.Fprintf(&text, " overrun %s(%v)", h.Key, h.Token)
	}
	if m.Text != "" {
		text.WriteString(" " + m.Text)
	}
	w.tell(from, "%s", text.String())
}

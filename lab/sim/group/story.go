package group

import (
	"fmt"

	machine "github.com/electd/elect/internal/protocol/group"
)

// tellMessage writes a message into the story.
func (w *World) tellMessage(from, to *node, m *machine.Message) {
	if w.out == nil && w.watch == nil {
		return
	}
	text := fmt.Sprintf("> %s %s number %d T %d", to.ID, m.Type, m.Number, m.Tenure)
	if m.Seq != 0 {
		text += fmt.Sprintf(" seq %d", m.Seq)
	}
	if m.Session != (machine.Session{}) {
		text += fmt.Sprintf(" of %v", m.Session)
	}
	if m.Admitted {
		text += " admitted"
	}
	if m.Acked != 0 {
		text += fmt.Sprintf(" acked %d", m.Acked)
	}
	if m.Registry != nil {
		text += fmt.Sprintf(" registry %d.%d %v", m.Registry.Tenure, m.Registry.Version, m.Registry.Sessions)
	}
	for _, h := range m.Held {
		text += fmt.Sprintf(" %s(%v)", h.Key, h.Token)
	}
	for _, h := range m.Overruns {
		text += fmt.Sprintf(" overrun %s(%v)", h.Key, h.Token)
	}
	if m.Text != "" {
		text += " " + m.Text
	}
	w.tell(from, "%s", text)
}

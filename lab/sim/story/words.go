package story

import (
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// seconds is a time as text; the fourth digit is 0.1 ms.
func seconds(at int64) string { return fmt.Sprintf("%.4f s", float64(at)/float64(time.Second)) }

// short is a duration as text.
func short(d time.Duration) string {
	switch {
	case d >= time.Second || d <= -time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond || d <= -time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// message is a message in a few words: vote(term 7, granted).
func message(m *protocol.Message) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if m.Term > 0 {
		add("term %d", m.Term)
	}
	if m.Seq > 0 {
		add("seq %d", m.Seq)
	}
	if m.Granted {
		add("granted")
	}
	if m.Reason != "" {
		add("%s", m.Reason)
	}
	if m.Promise > 0 {
		add("promise %s", short(m.Promise))
	}
	if m.Residual > 0 {
		add("residual %s", short(m.Residual))
	}
	if h := m.Handover; h != nil {
		add("%s hands over to %s", h.Leader.ID, h.Target)
	}
	if ms := m.Membership; ms != nil && ms.Version > 1 {
		add("membership %s", ms.ID())
	}
	if len(parts) == 0 {
		return string(m.Type)
	}
	return fmt.Sprintf("%s(%s)", m.Type, strings.Join(parts, ", "))
}

// voters are those of a membership, and its observers.
func voters(ms *protocol.Membership) string {
	var ids []string
	for _, v := range ms.Voters {
		ids = append(ids, string(v.ID))
	}
	text := strings.Join(ids, ", ")
	if len(ms.Observers) > 0 {
		ids = ids[:0]
		for _, id := range ms.Observers {
			ids = append(ids, string(id))
		}
		text += " (observers: " + strings.Join(ids, ", ") + ")"
	}
	return text
}

// input is what a node was told.
func (t *teller) input(e *trace.Event, at int64) string {
	in, id := e.Input, e.Node
	switch in.Kind {
	case protocol.Boot:
		how := "with an empty disk"
		if in.Durable != nil {
			how = "from its disk"
		}
		return fmt.Sprintf("%s boots %s", id, how)
	case protocol.Receive:
		text := fmt.Sprintf("%s → %s %s", in.From, id, message(&in.Message))
		if sent, ok := t.sent[e.Cause]; ok && e.Cause != 0 {
			text += " after " + short(time.Duration(at-sent))
		}
		return text
	case protocol.Fire:
		return fmt.Sprintf("%s: its time has come", id)
	case protocol.Saved:
		if in.Failed {
			return fmt.Sprintf("%s could not save %d", id, in.Number)
		}
		return fmt.Sprintf("%s has saved %d", id, in.Number)
	case protocol.Replied:
		what := fmt.Sprintf("ask %d", in.Answer.Number)
		if op, ok := t.asked[asked{id, e.Life, in.Answer.Number}]; ok {
			what = op.String()
		}
		return fmt.Sprintf("store → %s %s: %s", id, what, in.Answer.Status)
	case protocol.PeerClosed:
		return fmt.Sprintf("%s sees the connection of %s closed", id, in.From)
	case protocol.Do:
		switch in.Command.Verb {
		case protocol.Joined:
			return fmt.Sprintf("%s: its work has returned (token %d)", id, in.Command.Token)
		case protocol.Sicken:
			return fmt.Sprintf("%s is unhealthy", id)
		case protocol.Recover:
			return fmt.Sprintf("%s is healthy again", id)
		case protocol.Transfer:
			if in.Command.Target == "" {
				return fmt.Sprintf("%s is told to hand over", id)
			}
			return fmt.Sprintf("%s is told to hand over to %s", id, in.Command.Target)
		case protocol.Locate:
			return fmt.Sprintf("%s is at position %q", id, in.Command.Position)
		case protocol.Reconfigure:
			if ms := in.Command.Membership; ms != nil {
				return fmt.Sprintf("%s is told to make %s the voters", id, voters(ms))
			}
		}
		return fmt.Sprintf("%s is told to %s", id, in.Command.Verb)
	}
	return fmt.Sprintf("%s: %s", id, in.Kind)
}

// outcome is the result of a step: what changed, and the effects.
func outcome(l *lane, was *protocol.View, e *trace.Event) []string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	is, fx := e.View, e.Effects
	if is.Role != was.Role && is.Role != protocol.Leader || is.Term > was.Term && !is.Elected {
		text := is.Role.String()
		if is.Term > 0 {
			text += fmt.Sprintf(" in term %d", is.Term)
		}
		parts = append(parts, text)
	}
	if is.Leader != was.Leader && is.Leader.ID != "" && is.Leader.ID != e.Node {
		add("follows %s", is.Leader.ID)
	}
	if is.Elected && (!was.Elected || was.Token != is.Token) {
		add("elected with token %d", is.Token)
		if !is.Active && is.NotBefore > e.Input.Now.Boot && is.NotBefore != protocol.Never {
			add("may be active from %s", seconds(l.Time(is.NotBefore)))
		}
	}
	switch end, ends := l.until(); {
	case !is.Active:
	case !was.Active || was.Token != is.Token:
		if ends {
			add("ACTIVE, proven until %s", seconds(end))
		} else {
			add("ACTIVE")
		}
	case is.LeaseEnd > was.LeaseEnd && ends:
		add("proven until %s", seconds(end))
	}
	if is.Fault != was.Fault && is.Fault != "" {
		add("halts: %s", is.Fault)
	}
	if fx == nil {
		return parts
	}
	for _, o := range fx.Orders {
		if o.Kind == protocol.CatchUp {
			add("is behind %s, which is at %q", o.From, o.Position)
		}
		if o.Kind == protocol.Stop {
			text := fmt.Sprintf("stops its work (token %d)", o.Token)
			if o.Reason != "" {
				text += ": " + string(o.Reason)
			}
			parts = append(parts, text)
		}
	}
	if n := len(fx.Saves); n > 0 {
		add("saves %d", fx.Saves[n-1].Number)
	}
	for i := 0; i < len(fx.Sends); {
		text := message(&fx.Sends[i].Message)
		to := []string{string(fx.Sends[i].To)}
		j := i + 1
		for ; j < len(fx.Sends) && message(&fx.Sends[j].Message) == text; j++ {
			to = append(to, string(fx.Sends[j].To))
		}
		if fx.Sends[i].After > 0 {
			text += fmt.Sprintf(" once %d is saved", fx.Sends[i].After)
		}
		add("sends %s to %s", text, strings.Join(to, ", "))
		i = j
	}
	for i := range fx.Asks {
		add("asks: %s", fx.Asks[i].Op)
	}
	return parts
}

// words are the whole line of an event.
func (t *teller) words(l *lane, was *protocol.View, e *trace.Event, at int64) string {
	switch e.Kind {
	case trace.Step:
		text := t.input(e, at)
		if e.Panic != "" {
			return text + "; PANIC: " + e.Panic
		}
		if parts := outcome(l, was, e); len(parts) > 0 {
			text += "; " + strings.Join(parts, "; ")
		}
		if e.Says != "" {
			text += "; " + e.Says
		}
		return text
	case trace.State:
		return because(fmt.Sprintf("the recording of %s begins, as %s in term %d", e.Node, e.View.Role, e.View.Term), e.Says)
	case trace.Turn:
		return because(e.Turn.String(), e.Says)
	case trace.Lost:
		return because(fmt.Sprintf("%s → %s %s lost", e.Node, e.Send.To, message(&e.Send.Message)), e.Says)
	case trace.Down:
		return because(fmt.Sprintf("%s is down", e.Node), e.Says)
	case trace.Freeze:
		return because(fmt.Sprintf("%s is frozen", e.Node), e.Says)
	case trace.Thaw:
		return because(fmt.Sprintf("%s runs again", e.Node), e.Says)
	case trace.Fault:
		return "FAULT " + e.Says
	case trace.Heal:
		return "healed: " + e.Says
	case trace.Violation:
		return because("VIOLATION "+e.Invariant, of(e))
	case trace.End:
		return because("the end", e.Says)
	}
	if e.Says == "" {
		return string(e.Kind)
	}
	return e.Says
}

// of is the text of a violation, with its node.
func of(e *trace.Event) string {
	if e.Node != "" {
		return string(e.Node) + ": " + e.Says
	}
	return e.Says
}

func because(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}

// Moment is what [Words] has to know beside the event.
type Moment struct {
	Was   protocol.View // of the event's node, before it
	Sent  int64         // of a message: when it was sent, on the clock of the event's At; less than 0 is unknown
	Asked protocol.Op   // of an answer of a store: what was asked; 0 is unknown
}

// Words puts one event of a simulated or shared clock into words, as a story does.
func Words(e *trace.Event, m Moment) string {
	l := &lane{id: e.Node, up: map[uint64]bool{e.Life: true}}
	l.Sampled(e.At, e.Reading())
	if e.View != nil {
		l.view = *e.View
	}
	t := &teller{}
	if m.Sent >= 0 {
		t.sent = map[uint64]int64{e.Cause: m.Sent}
	}
	if e.Input != nil && m.Asked != 0 {
		t.asked = map[asked]protocol.Op{{e.Node, e.Life, e.Input.Answer.Number}: m.Asked}
	}
	return t.words(l, &m.Was, e, e.At)
}

// Message is a message in a few words.
func Message(m *protocol.Message) string { return message(m) }

package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// Bounds of the fields of a frame. Texts are counted in bytes.
const (
	// MaxMetadata holds any JSON form of driver.MaxMetadata: each byte may become six, and each entry has quotation
	// marks.
	MaxMetadata = 40 << 10
	// MaxBody is the longest Body of a message.
	MaxBody = 64 << 10
	// MaxTime is the longest time in a message. It is far above what any protocol promises, and small enough to be added
	// to any instant.
	MaxTime = 30 * 24 * time.Hour

	maxName = 128     // a cluster, an election, a program's version
	maxWord = 64      // a type, a reason, a code, a verb
	maxText = 1 << 10 // text for people
)

// check names the field that is out of range. Both sides of a connection use it.
func (f *Frame) check() error {
	n := 0
	for _, set := range [...]bool{f.Hello != nil, f.Welcome != nil, f.Refusal != nil, f.Letter != nil, f.Request != nil, f.Response != nil, f.Enter != nil, f.Leave != nil} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return errKinds
	case f.Hello != nil:
		return f.Hello.check()
	case f.Welcome != nil:
		return f.Welcome.check()
	case f.Refusal != nil:
		return word("refusal.code", string(f.Refusal.Code), 1)
	case f.Letter != nil:
		return f.Letter.check()
	case f.Request != nil:
		return f.Request.check()
	case f.Enter != nil:
		return f.Enter.check()
	case f.Leave != nil:
		return numbered("leave.number", f.Leave.Number)
	}
	return word("response.code", f.Response.Code, 0)
}

func (h *Hello) check() error {
	if h.Version == 0 || h.Oldest == 0 || h.Oldest > h.Version {
		return fmt.Errorf("hello.version: %d, oldest %d; want 1 ≤ oldest ≤ version", h.Version, h.Oldest)
	}
	if err := name("hello.cluster", h.Cluster); err != nil {
		return err
	}
	switch h.Caller {
	case Node, WitnessOf:
		if _, err := protocol.ParseNodeID(string(h.ID)); err != nil {
			return fmt.Errorf("hello.id: %w", err)
		}
	case ClientOf:
		if h.ID != "" {
			return fmt.Errorf("hello.id: %.70q; want none of a client", h.ID)
		}
	default:
		return fmt.Errorf("hello.caller: %.70q; want node, witness or client", h.Caller)
	}
	return nil
}

func (e *Enter) check() error {
	if err := numbered("enter.number", e.Number); err != nil {
		return err
	}
	if err := name("enter.election", e.Election); err != nil {
		return err
	}
	if e.Era > fence.MaxEra {
		return fmt.Errorf("enter.era: %d; want 0 to %d", e.Era, uint64(fence.MaxEra))
	}
	if e.Promise < 0 || e.Promise > MaxTime {
		return fmt.Errorf("enter.promise: %v; want 0 to %v", e.Promise, MaxTime)
	}
	if err := word("enter.protocol", e.Protocol, 0); err != nil {
		return err
	}
	if err := ids("enter.voters", e.Voters, protocol.MaxVoters); err != nil {
		return err
	}
	for i, id := range e.Voters {
		if i > 0 && e.Voters[i-1].Compare(id) >= 0 {
			return fmt.Errorf("enter.voters: %s after %s; want each once, ordered by id", id, e.Voters[i-1])
		}
	}
	return nil
}

// name checks the name of a cluster or of an election.
func name(field, text string) error {
	if len(text) == 0 || len(text) > maxName || !utf8.ValidString(text) {
		return fmt.Errorf("%s: %d bytes; want 1 to %d of UTF-8", field, len(text), maxName)
	}
	return nil
}

func numbered(field string, n uint32) error {
	if n == 0 {
		return fmt.Errorf("%s: 0; want 1 to %d", field, uint32(math.MaxUint32))
	}
	return nil
}

func (w *Welcome) check() error { return membership("welcome.membership", w.Membership) }

func (l *Letter) check() error {
	if err := l.checkOwn(); err != nil {
		return err
	}
	return membership("letter.message.membership", l.Message.Membership)
}

// checkOwn checks everything but the membership.
func (l *Letter) checkOwn() error {
	m := &l.Message
	if err := numbered("letter.number", l.Number); err != nil {
		return err
	}
	if l.Since < 0 {
		return fmt.Errorf("letter.since_ns: %d; want 0 or more", l.Since)
	}
	if l.Token > fence.MaxCount {
		return fmt.Errorf("letter.token: %d; want 0 to %d", l.Token, uint64(fence.MaxCount))
	}
	if err := word("letter.message.type", string(m.Type), 1); err != nil {
		return err
	}
	if err := word("letter.message.reason", string(m.Reason), 0); err != nil {
		return err
	}
	for _, t := range [...]struct {
		field string
		span  time.Duration
	}{{"promise_ns", m.Promise}, {"residual_ns", m.Residual}, {"retry_after_ns", m.RetryAfter}} {
		if t.span < 0 || t.span > MaxTime {
			return fmt.Errorf("letter.message.%s: %d; want 0 to %d", t.field, t.span.Nanoseconds(), MaxTime.Nanoseconds())
		}
	}
	if m.Clock < 0 {
		return fmt.Errorf("letter.message.clock_ns: %d; want 0 to %d", m.Clock.Nanoseconds(), int64(math.MaxInt64))
	}
	if m.Leader.ID != "" {
		if _, err := protocol.ParseNodeID(string(m.Leader.ID)); err != nil {
			return fmt.Errorf("letter.message.leader: %w", err)
		}
	}
	if m.Priority < protocol.NeverLead || m.Priority > protocol.MaxPriority {
		return fmt.Errorf("letter.message.priority: %d; want %d to %d", m.Priority, protocol.NeverLead, protocol.MaxPriority)
	}
	if err := long("letter.message.position", m.Position, protocol.MaxPosition); err != nil {
		return err
	}
	if h := m.Handover; h != nil {
		if _, err := protocol.ParseNodeID(string(h.Leader.ID)); err != nil {
			return fmt.Errorf("letter.message.handover.leader: %w", err)
		}
		if h.Target != "" {
			if _, err := protocol.ParseNodeID(string(h.Target)); err != nil {
				return fmt.Errorf("letter.message.handover.target: %w", err)
			}
		}
	}
	if err := ids("letter.message.ranking", m.Ranking, protocol.MaxVoters); err != nil {
		return err
	}
	if err := long("letter.message.metadata", m.Metadata, MaxMetadata); err != nil {
		return err
	}
	return long("letter.message.body", m.Body, MaxBody)
}

func (q *Request) check() error {
	if q.Token > uint64(fence.MaxToken) {
		return fmt.Errorf("request.token: %d; want 0 to %d", q.Token, uint64(fence.MaxToken))
	}
	if err := long("request.election", q.Election, maxName); err != nil {
		return err
	}
	return word("request.verb", q.Verb, 1)
}

func membership(field string, m *protocol.Membership) error {
	if m == nil {
		return nil
	}
	if n := len(m.Observers); n > protocol.MaxObservers {
		return fmt.Errorf("%s.observers: %d of them; want at most %d", field, n, protocol.MaxObservers)
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	for _, a := range m.Addresses {
		if !utf8.ValidString(a.Addr) {
			return fmt.Errorf("%s.addresses: that of %s is %.70q; want UTF-8", field, a.ID, a.Addr)
		}
	}
	return nil
}

func ids(field string, all []protocol.NodeID, most int) error {
	if len(all) > most {
		return fmt.Errorf("%s: %d of them; want at most %d", field, len(all), most)
	}
	for _, id := range all {
		if _, err := protocol.ParseNodeID(string(id)); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// word checks a short name. The sender decides which characters it has, but they must be printable.
func word(field, text string, least int) error {
	if len(text) < least || len(text) > maxWord {
		return fmt.Errorf("%s: %d bytes; want %d to %d", field, len(text), least, maxWord)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("%s: %q; want printing ASCII without spaces", field, text)
	}
	return nil
}

func long(field, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) {
		return fmt.Errorf("%s: %d bytes; want at most %d of UTF-8", field, len(text), most)
	}
	return nil
}

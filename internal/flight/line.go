package flight

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// lines encodes an ordinary step by hand, byte for byte as [trace.Encoder] does. Nearly all steps are ordinary, and
// reflection, for the line and again for the digest, took an eighth of an idle node's CPU time.
type lines struct {
	line    []byte
	sent    []byte               // the effects whose digest is kept
	member  *protocol.Membership // immutable, and nearly always the same
	members []byte               // its JSON
}

// step is the line of a step whose input is a message or the time, and that at most sends something. It is valid
// until the next call. It returns false if the encoder has to write the line.
func (l *lines) step(n, life uint64, node protocol.NodeID, in *protocol.Input, fx *protocol.Effects, v *protocol.View) ([]byte, bool) {
	if !ordinary(in, fx) || in.Kind == protocol.Receive && in.Message.Type == "" || in.Kind == protocol.Fire && in.Message.Type != "" {
		return nil, false
	}
	w := writing{b: l.line[:0], l: l}
	w.raw(`{"n":`)
	w.number(n)
	w.text(`,"node":`, string(node))
	w.uint(`,"life":`, life)
	w.raw(`,"kind":"step","input":{"kind":"`)
	w.raw(in.Kind.String())
	w.raw(`","now":`)
	w.reading(in.Now)
	w.uint(`,"rand":`, in.Rand)
	w.text(`,"from":`, string(in.From))
	if in.Kind == protocol.Receive {
		w.raw(`,"message":`)
		w.message(&in.Message)
	}
	w.raw(`}`)
	if len(fx.Sends) > 0 {
		digest, ok := l.digest(fx.Sends)
		w.odd = w.odd || !ok
		w.raw(`,"digest":"`)
		w.b = hex.AppendEncode(w.b, digest[:])
		w.raw(`"`)
	}
	w.raw(`,"view":`)
	w.view(v)
	w.raw("}\n")
	l.line = w.b
	return w.b, !w.odd && len(w.b) <= trace.MaxLine
}

// digest is [trace.Digest] of effects that only send: FNV-1a of their JSON.
func (l *lines) digest(sends []protocol.Send) (sum [8]byte, ok bool) {
	w := writing{b: l.sent[:0], l: l}
	w.raw(`{"sends":[`)
	for i := range sends {
		if i > 0 {
			w.raw(`,`)
		}
		w.raw(`{"to":`)
		w.quote(string(sends[i].To))
		w.uint(`,"after":`, sends[i].After)
		w.raw(`,"message":`)
		w.message(&sends[i].Message)
		w.raw(`}`)
	}
	w.raw("]}\n")
	l.sent = w.b
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for _, c := range w.b {
		h = (h ^ uint64(c)) * prime
	}
	binary.BigEndian.PutUint64(sum[:], h)
	return sum, !w.odd
}

// membership is the JSON of a membership.
func (l *lines) membership(m *protocol.Membership) ([]byte, bool) {
	if m != l.member {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if e.Encode(m) != nil {
			return nil, false
		}
		l.member, l.members = m, bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	return l.members, true
}

// writing is JSON being written. A value that it cannot write makes it odd.
type writing struct {
	b   []byte
	l   *lines
	odd bool
}

func (w *writing) raw(text string) { w.b = append(w.b, text...) }

func (w *writing) number(v uint64) { w.b = strconv.AppendUint(w.b, v, 10) }

// quote writes text in quotation marks. Ordinary text needs no other escapes.
func (w *writing) quote(text string) {
	w.b = append(w.b, '"')
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' {
			w.odd = true
		}
		if c == '"' || c == '\\' {
			w.b = append(w.b, '\\')
		}
		w.b = append(w.b, c)
	}
	w.b = append(w.b, '"')
}

// The fields below are omitted if they are zero.

func (w *writing) text(name, text string) {
	if text != "" {
		w.raw(name)
		w.quote(text)
	}
}

func (w *writing) uint(name string, v uint64) {
	if v != 0 {
		w.raw(name)
		w.number(v)
	}
}

func (w *writing) int(name string, v int64) {
	if v != 0 {
		w.raw(name)
		w.b = strconv.AppendInt(w.b, v, 10)
	}
}

func (w *writing) bool(name string, v bool) {
	if v {
		w.raw(name)
		w.raw("true")
	}
}

func (w *writing) reading(r protocol.Reading) {
	w.raw(`{"boot":`)
	w.b = strconv.AppendInt(w.b, int64(r.Boot), 10)
	w.raw(`,"mono":`)
	w.b = strconv.AppendInt(w.b, int64(r.Mono), 10)
	w.raw(`}`)
}

func (w *writing) leadership(l *protocol.Leadership) {
	if *l == (protocol.Leadership{}) {
		return
	}
	w.raw(`,"leader":{`)
	start := len(w.b)
	w.text(`,"id":`, string(l.ID))
	w.uint(`,"incarnation":`, l.Incarnation)
	w.uint(`,"term":`, l.Term)
	w.b = append(w.b[:start], w.b[start+1:]...) // the first comma
	w.raw(`}`)
}

func (w *writing) message(m *protocol.Message) {
	w.raw(`{"type":`)
	w.quote(string(m.Type))
	if m.Dir != (protocol.DirID{}) {
		w.raw(`,"dir":"`)
		w.b = hex.AppendEncode(w.b, m.Dir[:])
		w.raw(`"`)
	}
	w.uint(`,"incarnation":`, m.Incarnation)
	w.uint(`,"term":`, m.Term)
	if m.Membership != nil {
		w.raw(`,"membership":`)
		text, ok := w.l.membership(m.Membership)
		w.odd = w.odd || !ok
		w.b = append(w.b, text...)
	}
	w.uint(`,"echo":`, m.Echo)
	w.uint(`,"round":`, m.Round)
	w.uint(`,"seq":`, m.Seq)
	w.int(`,"promise":`, int64(m.Promise))
	w.int(`,"residual":`, int64(m.Residual))
	w.uint(`,"prev_term":`, m.PrevTerm)
	w.int(`,"retry_after":`, int64(m.RetryAfter))
	w.int(`,"clock":`, int64(m.Clock))
	w.uint(`,"jumps":`, m.Jumps)
	w.bool(`,"granted":`, m.Granted)
	w.bool(`,"unhealthy":`, m.Unhealthy)
	w.text(`,"reason":`, string(m.Reason))
	w.int(`,"priority":`, int64(m.Priority))
	w.text(`,"position":`, m.Position)
	if m.Held != (protocol.ConfigID{}) {
		w.raw(`,"held":{"term":`)
		w.number(m.Held.Term)
		w.raw(`,"version":`)
		w.number(m.Held.Version)
		w.raw(`}`)
	}
	w.odd = w.odd || m.Handover != nil // in a transfer
	w.leadership(&m.Leader)
	if m.Ranking != nil {
		w.raw(`,"ranking":[`)
		for i, id := range m.Ranking {
			if i > 0 {
				w.raw(`,`)
			}
			w.quote(string(id))
		}
		w.raw(`]`)
	}
	w.text(`,"metadata":`, m.Metadata)
	w.text(`,"body":`, m.Body)
	w.raw(`}`)
}

func (w *writing) view(v *protocol.View) {
	w.raw(`{"role":"`)
	w.raw(v.Role.String())
	w.raw(`"`)
	w.uint(`,"term":`, v.Term)
	w.leadership(&v.Leader)
	w.uint(`,"token":`, v.Token)
	w.bool(`,"elected":`, v.Elected)
	w.bool(`,"active":`, v.Active)
	w.int(`,"lease_end":`, int64(v.LeaseEnd))
	if v.Read != (protocol.Reading{}) {
		w.raw(`,"read":`)
		w.reading(v.Read)
	}
	w.int(`,"not_before":`, int64(v.NotBefore))
	w.uint(`,"confirmed":`, v.Confirmed)
	w.text(`,"fault":`, v.Fault)
	w.raw(`}`)
}

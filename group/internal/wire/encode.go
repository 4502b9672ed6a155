package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol/group"
)

// The kinds of frames.
const (
	kindHello   = 1
	kindWelcome = 2
	kindMessage = 3
	kindSide    = 4
	kindPiece   = 5 // more pieces follow
	kindLast    = 6 // the last piece
)

// types are the message types in the order of their numbers, from 1, which never change.
func types() []group.MessageType {
	return []group.MessageType{
		group.Greet, group.Refuse, group.Report, group.Poll, group.Released, group.Ended, group.Wish, group.Tell,
		group.Goodbye, group.Answer, group.Assign, group.Revoke, group.Enrol, group.Admit, group.Over,
	}
}

// What a message has beside its type, as bits.
const (
	hasSession = 1 << iota
	hasNumber
	hasTenure
	hasSeq
	hasAcked
	isAdmitted
	hasPromise
	hasRegistry
	hasHeld
	hasOverruns
	hasWants
	hasUnwants
	hasTraits
	hasText
	hasMembers
	hasCover
	isMisfit
	allBits = 1<<iota - 1
)

// What a list of keys has beside them, as bits.
const (
	withToken = 1 << iota
	withState
	withPriority
	allLists = 1<<iota - 1
)

// Append appends what frames of a packet carry: a kind and a body.
func Append(b []byte, p *Packet) []byte {
	switch {
	case p.Hello != nil:
		h := p.Hello
		b = append(b, kindHello)
		b = uints(b, h.Version)
		b = text(b, h.Group)
		b = text(b, h.ID)
		b = uints(b, h.Keys, h.Digest, h.Bits)
		b = boolean(b, h.Control)
		b = boolean(b, h.Admitted)
		return text(b, h.Addr)
	case p.Welcome != nil:
		b = append(b, kindWelcome)
		b = uints(b, p.Welcome.Version)
		b = text(b, p.Welcome.ID)
		b = text(b, p.Welcome.Process)
		b = text(b, p.Welcome.Refused)
		return boolean(b, p.Welcome.Misfit)
	case p.Side != nil:
		return appendSide(append(b, kindSide), p.Side)
	}
	return appendMessage(append(b, kindMessage), p.Message)
}

func uints(b []byte, all ...uint64) []byte {
	for _, v := range all {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func text[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func boolean(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendSide(b []byte, s *Side) []byte {
	b = append(b, byte(s.Kind))
	b = uints(b, s.Call)
	b = text(b, s.Method)
	b = text(b, s.Code)
	b = text(b, s.Body)
	b = uints(b, uint64(len(s.Entries)))
	for i := range s.Entries {
		e := &s.Entries[i]
		b = text(b, e.Key)
		b = text(b, e.Member)
		b = uints(b, e.Token.Tenure, e.Token.N, uint64(e.Since))
		b = text(b, e.Metadata)
		b = uints(b, math.Float64bits(e.Load))
	}
	return b
}

func bit(has bool, b uint64) uint64 {
	if has {
		return b
	}
	return 0
}

func appendMessage(b []byte, m *group.Message) []byte {
	b = append(b, byte(slices.Index(types(), m.Type)+1))
	has := bit(m.Session != group.Session{}, hasSession) | bit(m.Number != 0, hasNumber) | bit(m.Tenure != 0, hasTenure) |
		bit(m.Seq != 0, hasSeq) | bit(m.Acked != 0, hasAcked) | bit(m.Admitted, isAdmitted) | bit(m.Promise != 0, hasPromise) |
		bit(m.Registry != nil, hasRegistry) | bit(len(m.Held) > 0, hasHeld) | bit(len(m.Overruns) > 0, hasOverruns) |
		bit(len(m.Wants) > 0, hasWants) | bit(len(m.Unwants) > 0, hasUnwants) | bit(m.Traits != group.Traits{}, hasTraits) |
		bit(m.Text != "", hasText) | bit(m.Members != 0, hasMembers) | bit(m.Cover != 0, hasCover) | bit(m.Misfit, isMisfit)
	b = uints(b, has)
	if has&hasSession != 0 {
		b = session(b, m.Session)
	}
	for _, f := range []struct {
		bit, value uint64
	}{{hasNumber, m.Number}, {hasTenure, m.Tenure}, {hasSeq, m.Seq}, {hasAcked, m.Acked}, {hasPromise, uint64(m.Promise)}, {hasMembers, m.Members}, {hasCover, uint64(m.Cover)}} {
		if has&f.bit != 0 {
			b = uints(b, f.value)
		}
	}
	if m.Registry != nil {
		b = uints(b, m.Registry.Tenure, m.Registry.Version, uint64(len(m.Registry.Sessions)))
		for _, s := range m.Registry.Sessions {
			b = session(b, s)
		}
	}
	if has&hasHeld != 0 {
		b = held(b, m.Held)
	}
	if has&hasOverruns != 0 {
		b = held(b, m.Overruns)
	}
	if has&hasWants != 0 {
		b = wants(b, m.Wants)
	}
	if has&hasUnwants != 0 {
		b = unwants(b, m.Unwants)
	}
	if has&hasTraits != 0 {
		b = binary.AppendVarint(b, int64(m.Traits.Weight))
		b = text(b, m.Traits.Zone)
		b = boolean(b, m.Traits.Draining)
		b = uints(b, uint64(m.Traits.Back))
	}
	if has&hasText != 0 {
		b = text(b, m.Text)
	}
	return b
}

func session(b []byte, s group.Session) []byte {
	b = text(b, s.Member)
	b = binary.BigEndian.AppendUint64(b, s.Process[0])
	b = binary.BigEndian.AppendUint64(b, s.Process[1])
	return uints(b, s.Epoch)
}

// sorted returns a list in the order of its keys: itself, if it is. key takes no pointer: what it points to would be on
// the heap at each comparison.
func sorted[T any](all []T, key func(T) string) []T {
	compare := func(a, b T) int { return strings.Compare(key(a), key(b)) }
	if slices.IsSortedFunc(all, compare) {
		return all
	}
	all = slices.Clone(all)
	slices.SortFunc(all, compare)
	return all
}

// front appends a key as what it has of the one before, and the rest.
func front(b []byte, last, key string) []byte {
	n := 0
	for n < len(last) && n < len(key) && last[n] == key[n] {
		n++
	}
	return text(uints(b, uint64(n)), key[n:])
}

func held(b []byte, all []group.Held) []byte {
	all = sorted(all, func(h group.Held) string { return string(h.Key) })
	with := uint64(withToken)
	if slices.ContainsFunc(all, func(h group.Held) bool { return h.State != nil }) {
		with |= withState
	}
	b = uints(b, with, uint64(len(all)))
	last, tenure := "", uint64(0)
	for i := range all {
		h := &all[i]
		b = front(b, last, string(h.Key))
		b = binary.AppendVarint(b, int64(h.Token.Tenure-tenure))
		b = uints(b, h.Token.N)
		last, tenure = string(h.Key), h.Token.Tenure
		if with&withState != 0 {
			b = uints(b, bit(h.State != nil, 1)) // none is not the same as an empty one
			if h.State != nil {
				b = text(b, h.State)
			}
		}
	}
	return b
}

func wants(b []byte, all []group.Want) []byte {
	all = sorted(all, func(w group.Want) string { return string(w.Key) })
	with := bit(slices.ContainsFunc(all, func(w group.Want) bool { return w.Priority != 0 }), withPriority)
	b = uints(b, with, uint64(len(all)))
	last := ""
	for i := range all {
		b = front(b, last, string(all[i].Key))
		last = string(all[i].Key)
		if with != 0 {
			b = binary.AppendVarint(b, int64(all[i].Priority))
		}
	}
	return b
}

func unwants(b []byte, all []group.Key) []byte {
	all = sorted(all, func(k group.Key) string { return string(k) })
	b = uints(b, 0, uint64(len(all)))
	last := ""
	for _, k := range all {
		b = front(b, last, string(k))
		last = string(k)
	}
	return b
}

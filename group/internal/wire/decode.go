package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
)

// ErrFormat is matched by every error about what was received.
var ErrFormat = errors.New("not the format of a group's connection")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// Decode reads what [Append] writes. The packet shares no memory with b.
func Decode(b []byte) (p Packet, err error) {
	if len(b) == 0 {
		return p, malformed("an empty frame")
	}
	d := &decoder{b: b[1:]}
	switch b[0] {
	case kindHello:
		h := &Hello{Version: d.uint()}
		if h.Version != Version { // the rest may look otherwise
			return Packet{Hello: h}, d.err
		}
		h.Group, h.ID = d.text(maxKey), d.text(maxKey)
		h.Keys, h.Digest, h.Bits = d.uint(), d.uint(), d.uint()
		h.Control, h.Admitted = d.boolean(), d.boolean()
		h.Addr = d.text(maxAddr)
		p.Hello = h
	case kindWelcome:
		w := &Welcome{Version: d.uint()}
		if w.Version != Version {
			return Packet{Welcome: w}, d.err
		}
		w.ID, w.Process, w.Refused = d.text(maxKey), d.text(maxKey), d.text(MaxHello)
		w.Misfit = d.boolean()
		p.Welcome = w
	case kindMessage:
		p.Message = d.message()
	case kindSide:
		p.Side = d.side()
	default:
		return p, malformed("a frame of kind %d", b[0])
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return Packet{}, d.err
	}
	return p, nil
}

// decoder reads a body. After the first error all it returns is zero.
type decoder struct {
	b      []byte
	err    error
	spread int // bytes of keys so far
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = malformed(format, args...)
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many things follow, each of which has some bytes.
func (d *decoder) count(most uint64, least int) int {
	n := d.uint()
	if n > most || n > uint64(len(d.b)/least) {
		d.fail("a list of %d in %d bytes; want at most %d", n, len(d.b), most)
		return 0
	}
	return int(n)
}

// bytes returns a part of the body.
func (d *decoder) bytes(most uint64) []byte {
	n := d.uint()
	if n > most || n > uint64(len(d.b)) {
		d.fail("%d bytes of %d; want at most %d", n, len(d.b), most)
		return nil
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) text(most uint64) string { return string(d.bytes(most)) }

func (d *decoder) boolean() bool {
	if len(d.b) == 0 || d.b[0] > 1 {
		d.fail("a byte that is neither 0 nor 1")
		return false
	}
	v := d.b[0] == 1
	d.b = d.b[1:]
	return v
}

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail("a number is cut off")
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) duration() time.Duration {
	v := d.uint()
	if v > math.MaxInt64 {
		d.fail("a time of %d ns", v)
		return 0
	}
	return time.Duration(v)
}

func (d *decoder) side() *Side {
	s := &Side{}
	if len(d.b) == 0 || d.b[0] == 0 || d.b[0] > byte(Places) {
		d.fail("a message of no kind")
		return s
	}
	s.Kind = SideKind(d.b[0])
	d.b = d.b[1:]
	s.Call = d.uint()
	s.Method, s.Code = d.text(maxKey), d.text(maxKey)
	if body := d.bytes(MaxWhole); len(body) > 0 {
		s.Body = append([]byte(nil), body...)
	}
	n := d.count(maxEntries, 7)
	if n > 0 {
		s.Entries = make([]Entry, n)
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		e.Key, e.Member = d.text(maxKey), d.text(maxKey)
		e.Token.Tenure, e.Token.N, e.Since = d.uint(), d.uint(), int64(d.uint())
		if m := d.bytes(maxText); len(m) > 0 {
			e.Metadata = append([]byte(nil), m...)
		}
		e.Load = math.Float64frombits(d.uint())
		if d.err != nil {
			return s
		}
	}
	return s
}

func (d *decoder) message() *group.Message {
	m := &group.Message{}
	all := types()
	if len(d.b) == 0 || d.b[0] == 0 || int(d.b[0]) > len(all) {
		d.fail("a message of no type")
		return m
	}
	m.Type = all[d.b[0]-1]
	d.b = d.b[1:]
	has := d.uint()
	if has > allBits {
		d.fail("a message with fields that are not known")
	}
	if has&hasSession != 0 {
		m.Session = d.session()
	}
	for _, f := range []struct {
		bit uint64
		to  *uint64
	}{{hasNumber, &m.Number}, {hasTenure, &m.Tenure}, {hasSeq, &m.Seq}, {hasAcked, &m.Acked}} {
		if has&f.bit != 0 {
			*f.to = d.uint()
		}
	}
	m.Admitted, m.Misfit = has&isAdmitted != 0, has&isMisfit != 0
	if has&hasPromise != 0 {
		m.Promise = d.duration()
	}
	if has&hasMembers != 0 {
		m.Members = d.uint()
	}
	if has&hasCover != 0 {
		m.Cover = d.duration()
	}
	if has&hasRegistry != 0 {
		m.Registry = &group.Registry{Tenure: d.uint(), Version: d.uint()}
		if n := d.count(maxSessions, 18); n > 0 {
			m.Registry.Sessions = make([]group.Session, n)
		}
		for i := range m.Registry.Sessions {
			m.Registry.Sessions[i] = d.session()
		}
	}
	if has&hasHeld != 0 {
		m.Held = d.held()
	}
	if has&hasOverruns != 0 {
		m.Overruns = d.held()
	}
	if has&hasWants != 0 {
		m.Wants = d.wants()
	}
	if has&hasUnwants != 0 {
		m.Unwants = d.unwants()
	}
	if has&hasTraits != 0 {
		m.Traits.Weight = int(d.int())
		m.Traits.Zone = d.text(maxKey)
		m.Traits.Draining = d.boolean()
		m.Traits.Back = d.duration()
	}
	if has&hasText != 0 {
		m.Text = d.text(maxText)
	}
	return m
}

func (d *decoder) session() (s group.Session) {
	s.Member = protocol.NodeID(d.text(maxKey))
	s.Process = protocol.Nonce{d.fixed(), d.fixed()}
	s.Epoch = d.uint()
	return s
}

// keys collects the keys of one list, which share one string.
type keys struct {
	spread []byte
	ends   []int
}

func (k *keys) last() []byte {
	if len(k.ends) == 0 {
		return nil
	}
	begin := 0
	if len(k.ends) > 1 {
		begin = k.ends[len(k.ends)-2]
	}
	return k.spread[begin:]
}

// key reads one more.
func (d *decoder) key(k *keys) {
	shared, rest, last := d.uint(), d.bytes(maxKey), k.last()
	n := int(min(shared, maxKey)) + len(rest)
	if shared > uint64(len(last)) || n == 0 || n > maxKey {
		d.fail("a key of %d bytes that shares %d with one of %d", n, shared, len(last))
		return
	}
	if d.spread += n; d.spread > maxSpread {
		d.fail("keys of more than %d bytes", maxSpread)
		return
	}
	k.spread = append(k.spread, last[:shared]...)
	k.spread = append(k.spread, rest...)
	k.ends = append(k.ends, len(k.spread))
}

// list reads a list of keys. rest reads what is beside one, and key says where that is to be.
func list[T any](d *decoder, least int, rest func(item *T, with uint64), key func(item *T) *group.Key) []T {
	with := d.uint()
	if with > allLists {
		d.fail("a list with what is not known")
	}
	n := d.count(maxKeys, least)
	if n == 0 {
		d.fail("an empty list")
		return nil
	}
	all, k := make([]T, n), keys{spread: make([]byte, 0, 8*n), ends: make([]int, 0, n)}
	for i := range all {
		if d.key(&k); d.err == nil {
			rest(&all[i], with)
		}
		if d.err != nil {
			return nil
		}
	}
	text, begin := string(k.spread), 0
	for i, end := range k.ends {
		*key(&all[i]), begin = group.Key(text[begin:end]), end
	}
	return all
}

func (d *decoder) held() []group.Held {
	tenure := uint64(0)
	return list(d, 4, func(h *group.Held, with uint64) {
		tenure += uint64(d.int())
		h.Token = group.Token{Tenure: tenure, N: d.uint()}
		if with&withState != 0 && d.uint() != 0 {
			h.State = append([]byte{}, d.bytes(group.MaxState)...)
		}
	}, func(h *group.Held) *group.Key { return &h.Key })
}

func (d *decoder) wants() []group.Want {
	return list(d, 2, func(w *group.Want, with uint64) {
		if with&withPriority != 0 {
			w.Priority = int(d.int())
		}
	}, func(w *group.Want) *group.Key { return &w.Key })
}

func (d *decoder) unwants() []group.Key {
	return list(d, 2, func(*group.Key, uint64) {}, func(k *group.Key) *group.Key { return k })
}

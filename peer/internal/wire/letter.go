package wire

import (
	"bytes"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire/wirepb"
)

// Nearly all that nodes send is letters, several a heartbeat. This code writes and reads them by hand, as wire.proto
// defines them. The generated code, which allocates more, took a third of the CPU time of an idle node. Unusual
// letters are left to the generated code, which has the last word.

// The numbers of fields in wire.proto.
const (
	frameLetter = 4

	letterOf      = 1
	letterMessage = 2
	letterSince   = 3
	letterToken   = 4

	messageType        = 1
	messageDir         = 2
	messageIncarnation = 3
	messageTerm        = 4
	messageMembership  = 5
	messageEcho        = 6
	messageRound       = 7
	messageSeq         = 8
	messagePromise     = 9
	messageResidual    = 10
	messagePrevTerm    = 11
	messageRetryAfter  = 12
	messageGranted     = 13
	messageUnhealthy   = 14
	messageReason      = 15
	messageLeader      = 16
	messageRanking     = 17
	messageMetadata    = 18
	messageBody        = 19
	messagePriority    = 20
	messagePosition    = 21
	messageHeld        = 22
	messageHandover    = 23
	messageClock       = 24
	messageJumps       = 25

	membershipConfigTerm = 1
	membershipVersion    = 2
	membershipVoters     = 3
	membershipObservers  = 4
	membershipAddresses  = 5

	addressID   = 1
	addressAddr = 2

	configTerm    = 1
	configVersion = 2

	handoverLeader      = 1
	handoverIncarnation = 2
	handoverTerm        = 3
	handoverSeq         = 4
	handoverTarget      = 5

	voterID  = 1
	voterDir = 2

	leadershipID          = 1
	leadershipIncarnation = 2
	leadershipTerm        = 3
)

// appendLetter appends the payload of a frame with a letter that was checked.
func appendLetter(b []byte, l *Letter) []byte {
	b, frame := open(b, frameLetter)
	b = appendUint(b, letterOf, uint64(l.Number))
	b, message := open(b, letterMessage)
	b = appendMessage(b, &l.Message)
	b = shut(b, message)
	b = appendUint(b, letterSince, uint64(l.Since))
	b = appendUint(b, letterToken, l.Token)
	b = l.Next.append(b)
	return shut(b, frame)
}

func appendMessage(b []byte, m *protocol.Message) []byte {
	b = appendText(b, messageType, m.Type)
	b = appendDir(b, messageDir, &m.Dir)
	b = appendUint(b, messageIncarnation, m.Incarnation)
	b = appendUint(b, messageTerm, m.Term)
	if m.Membership != nil {
		var start int
		b, start = open(b, messageMembership)
		b = appendMembership(b, m.Membership)
		b = shut(b, start)
	}
	b = appendUint(b, messageEcho, m.Echo)
	b = appendUint(b, messageRound, m.Round)
	b = appendUint(b, messageSeq, m.Seq)
	b = appendUint(b, messagePromise, uint64(m.Promise))
	b = appendUint(b, messageResidual, uint64(m.Residual))
	b = appendUint(b, messagePrevTerm, m.PrevTerm)
	b = appendUint(b, messageRetryAfter, uint64(m.RetryAfter))
	b = appendBool(b, messageGranted, m.Granted)
	b = appendBool(b, messageUnhealthy, m.Unhealthy)
	b = appendText(b, messageReason, m.Reason)
	if m.Leader != (protocol.Leadership{}) {
		var start int
		b, start = open(b, messageLeader)
		b = appendText(b, leadershipID, m.Leader.ID)
		b = appendUint(b, leadershipIncarnation, m.Leader.Incarnation)
		b = appendUint(b, leadershipTerm, m.Leader.Term)
		b = shut(b, start)
	}
	for _, id := range m.Ranking {
		b = protowire.AppendString(protowire.AppendTag(b, messageRanking, protowire.BytesType), string(id))
	}
	b = appendText(b, messageMetadata, m.Metadata)
	b = appendText(b, messageBody, m.Body)
	b = appendUint(b, messagePriority, protowire.EncodeZigZag(int64(m.Priority)))
	b = appendText(b, messagePosition, m.Position)
	if m.Held != (protocol.ConfigID{}) {
		var start int
		b, start = open(b, messageHeld)
		b = appendUint(b, configTerm, m.Held.Term)
		b = appendUint(b, configVersion, m.Held.Version)
		b = shut(b, start)
	}
	if h := m.Handover; h != nil {
		var start int
		b, start = open(b, messageHandover)
		b = appendVoter(b, handoverLeader, &h.Leader)
		b = appendUint(b, handoverIncarnation, h.Incarnation)
		b = appendUint(b, handoverTerm, h.Term)
		b = appendUint(b, handoverSeq, h.Seq)
		b = appendText(b, handoverTarget, h.Target)
		b = shut(b, start)
	}
	b = appendUint(b, messageClock, uint64(m.Clock))
	b = appendUint(b, messageJumps, m.Jumps)
	return b
}

func appendMembership(b []byte, m *protocol.Membership) []byte {
	b = appendUint(b, membershipConfigTerm, m.ConfigTerm)
	b = appendUint(b, membershipVersion, m.Version)
	for i := range m.Voters {
		b = appendVoter(b, membershipVoters, &m.Voters[i])
	}
	for _, id := range m.Observers {
		b = protowire.AppendString(protowire.AppendTag(b, membershipObservers, protowire.BytesType), string(id))
	}
	for i := range m.Addresses {
		var start int
		b, start = open(b, membershipAddresses)
		b = appendText(b, addressID, m.Addresses[i].ID)
		b = appendText(b, addressAddr, m.Addresses[i].Addr)
		b = shut(b, start)
	}
	return b
}

func appendVoter(b []byte, field protowire.Number, v *protocol.Voter) []byte {
	b, start := open(b, field)
	b = appendText(b, voterID, v.ID)
	b = appendDir(b, voterDir, &v.Dir)
	return shut(b, start)
}

// open begins a field whose length is known only at its end, where shut fills it in.
func open(b []byte, field protowire.Number) ([]byte, int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

func shut(b []byte, start int) []byte {
	size := len(b) - start
	more := protowire.SizeVarint(uint64(size)) - 1
	if more > 0 {
		var room [9]byte
		b = append(b, room[:more]...)
		copy(b[start+more:], b[start:start+size])
	}
	protowire.AppendVarint(b[:start-1], uint64(size))
	return b
}

func appendUint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	if v {
		return appendUint(b, field, 1)
	}
	return b
}

func appendText[S ~string](b []byte, field protowire.Number, text S) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), string(text))
}

func appendDir(b []byte, field protowire.Number, d *protocol.DirID) []byte {
	if *d == (protocol.DirID{}) {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), d[:])
}

// known holds the parts of a connection's last letter about one election that rarely change: equal ones are not made
// and checked again. Memberships and rankings are immutable, so letters may share them.
type known struct {
	members  []byte // as received
	ranks    []byte
	member   *protocol.Membership
	ranking  []protocol.NodeID
	kind     string
	reason   string
	leader   string
	metadata string
	body     string
	position string
}

// memory holds what is known of each election on a connection.
type memory struct {
	number uint32 // of the latest letter
	known  *known // what is known under that number
	all    map[uint32]*known
}

// maxKnown bounds the elections in a memory; beyond that it is cleared.
const maxKnown = 1024

// of returns what is known of the election with that number.
func (m *memory) of(number uint32) *known {
	if m.known != nil && m.number == number {
		return m.known
	}
	k := m.all[number]
	if k == nil {
		if m.all == nil || len(m.all) >= maxKnown {
			m.all = make(map[uint32]*known)
		}
		k = new(known)
		m.all[number] = k
	}
	m.number, m.known = number, k
	return k
}

// letter reads the payload of a frame if it is a letter as appendLetter writes it: fields in order, each once, and
// all valid. It returns false for anything else.
func (m *memory) letter(payload []byte) (*Letter, bool) {
	s := scan{b: payload}
	if len(payload) > MaxFrame || !s.next() || s.field != frameLetter || !s.block || s.off < len(payload) {
		return nil, false
	}
	l := new(Letter)
	s = scan{b: s.bytes}
	for s.next() {
		switch {
		case s.field == letterOf && !s.block:
			l.Number = uint32(s.number) // 32 bits, as in the generated code
		case s.field == letterMessage && s.block:
			if !m.of(l.Number).message(s.bytes, &l.Message) {
				return nil, false
			}
		case s.field == letterSince && !s.block:
			l.Since = int64(s.number)
		case s.field == letterToken && !s.block:
			l.Token = s.number
		case !s.block && l.Next.take(s.field, s.number):
		default:
			return nil, false
		}
	}
	if s.odd || l.checkOwn() != nil {
		return nil, false
	}
	return l, true
}

func (k *known) message(b []byte, m *protocol.Message) bool {
	s := scan{b: b}
	ok := true
	for ok && s.next() {
		if s.block {
			switch s.field {
			case messageType:
				ok = same(&k.kind, s.bytes)
				m.Type = protocol.MessageType(k.kind)
			case messageDir:
				ok = len(s.bytes) == len(m.Dir)
				copy(m.Dir[:], s.bytes)
			case messageMembership:
				ok = k.membership(s.bytes)
				m.Membership = k.member
			case messageReason:
				ok = same(&k.reason, s.bytes)
				m.Reason = protocol.Reason(k.reason)
			case messageLeader:
				ok = k.leadership(s.bytes, &m.Leader)
			case messageRanking:
				ok = k.rank(s.row(messageRanking))
				m.Ranking = k.ranking
			case messageMetadata:
				ok = same(&k.metadata, s.bytes)
				m.Metadata = k.metadata
			case messageBody:
				ok = same(&k.body, s.bytes)
				m.Body = k.body
			case messagePosition:
				ok = same(&k.position, s.bytes)
				m.Position = k.position
			case messageHeld:
				ok = held(s.bytes, &m.Held)
			case messageHandover:
				m.Handover, ok = handover(s.bytes)
			default:
				ok = false
			}
			continue
		}
		switch v := s.number; s.field {
		case messageIncarnation:
			m.Incarnation = v
		case messageTerm:
			m.Term = v
		case messageEcho:
			m.Echo = v
		case messageRound:
			m.Round = v
		case messageSeq:
			m.Seq = v
		case messagePromise:
			m.Promise = time.Duration(v)
		case messageResidual:
			m.Residual = time.Duration(v)
		case messagePrevTerm:
			m.PrevTerm = v
		case messageRetryAfter:
			m.RetryAfter = time.Duration(v)
		case messageGranted:
			m.Granted = v != 0
		case messageUnhealthy:
			m.Unhealthy = v != 0
		case messageClock:
			m.Clock = time.Duration(v)
		case messageJumps:
			m.Jumps = v
		case messagePriority:
			m.Priority = int(protowire.DecodeZigZag(v & math.MaxUint32)) // 32 bits, as in the generated code
		default:
			ok = false
		}
	}
	return ok && !s.odd
}

func (k *known) leadership(b []byte, l *protocol.Leadership) bool {
	s := scan{b: b}
	for s.next() {
		switch {
		case s.field == leadershipID && s.block:
			if !same(&k.leader, s.bytes) {
				return false
			}
			l.ID = protocol.NodeID(k.leader)
		case s.field == leadershipIncarnation && !s.block:
			l.Incarnation = s.number
		case s.field == leadershipTerm && !s.block:
			l.Term = s.number
		default:
			return false
		}
	}
	return !s.odd
}

func held(b []byte, c *protocol.ConfigID) bool {
	s := scan{b: b}
	for s.next() {
		switch {
		case s.field == configTerm && !s.block:
			c.Term = s.number
		case s.field == configVersion && !s.block:
			c.Version = s.number
		default:
			return false
		}
	}
	return !s.odd
}

// handover is rare, so the generated code decodes it.
func handover(b []byte) (*protocol.Handover, bool) {
	var p wirepb.Handover
	if proto.Unmarshal(b, &p) != nil {
		return nil, false
	}
	h, err := decodeHandover(&p)
	return h, err == nil
}

// membership sets k.member to what b encodes. If that has changed the generated code decodes it.
func (k *known) membership(b []byte) bool {
	if k.member != nil && bytes.Equal(b, k.members) {
		return true
	}
	var p wirepb.Membership
	if proto.Unmarshal(b, &p) != nil {
		return false
	}
	m, err := decodeMembership("", &p)
	if err != nil || membership("", m) != nil {
		return false
	}
	k.member, k.members = m, append(k.members[:0], b...)
	return true
}

// rank sets k.ranking to what a row of its fields encodes.
func (k *known) rank(row []byte) bool {
	if k.ranking != nil && bytes.Equal(row, k.ranks) {
		return true
	}
	var all []protocol.NodeID
	for s := (scan{b: row}); s.next(); s.last = 0 {
		if len(all) == protocol.MaxVoters || !utf8.Valid(s.bytes) {
			return false
		}
		all = append(all, protocol.NodeID(s.bytes))
	}
	k.ranking, k.ranks = all, append(k.ranks[:0], row...)
	return true
}

// same sets text to b, if that is a valid text.
func same(text *string, b []byte) bool {
	if *text == string(b) {
		return true
	}
	*text = string(b)
	return utf8.Valid(b)
}

// scan iterates over the fields of a message of protobuf.
type scan struct {
	b    []byte
	off  int              // after the field
	last protowire.Number // the numbers of fields rise
	odd  bool             // there is something that next does not read

	start  int // of the field
	field  protowire.Number
	block  bool // the value is in bytes; otherwise in number
	bytes  []byte
	number uint64
}

// next advances to the next field. It returns false at the end, for a field out of order, and for a type of field
// that the messages of letters do not have.
func (s *scan) next() bool {
	rest := s.b[s.off:]
	if len(rest) == 0 {
		return false
	}
	field, kind, n := protowire.ConsumeTag(rest)
	size := -1
	if n > 0 && field > s.last {
		switch kind {
		case protowire.VarintType:
			s.block = false
			s.number, size = protowire.ConsumeVarint(rest[n:])
		case protowire.BytesType:
			s.block = true
			s.bytes, size = protowire.ConsumeBytes(rest[n:])
		}
	}
	if size < 0 {
		s.odd = true
		return false
	}
	s.field, s.last = field, field
	s.start, s.off = s.off, s.off+n+size
	return true
}

// row is the field at which s stands, with its tag, and the following ones with the same number: a repeated field.
// Afterwards s stands at the last of them.
func (s *scan) row(field protowire.Number) []byte {
	start := s.start
	for {
		n, kind, _ := protowire.ConsumeTag(s.b[s.off:])
		if n != field || kind != protowire.BytesType {
			return s.b[start:s.off]
		}
		if s.last = 0; !s.next() {
			return s.b[start:s.off]
		}
	}
}

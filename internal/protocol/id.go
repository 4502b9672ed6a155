package protocol

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// NodeID names a participant: 1 to 64 letters, digits, '.', '_' or '-'.
type NodeID string

// ParseNodeID returns text as an id, or an error.
func ParseNodeID(text string) (NodeID, error) {
	if len(text) == 0 || len(text) > 64 {
		return "", fmt.Errorf("node id %q: %d bytes; want 1 to 64", text, len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}); i >= 0 {
		return "", fmt.Errorf("node id %q: want letters, digits, '.', '_' and '-' only", text)
	}
	return NodeID(text), nil
}

// String returns the id as it is written.
func (n NodeID) String() string { return string(n) }

// Compare orders ids: shorter before longer, then by bytes, so that n2 is
// before n10. It is the order of the protocols that elect by id.
func (n NodeID) Compare(o NodeID) int {
	return cmp.Or(cmp.Compare(len(n), len(o)), strings.Compare(string(n), string(o)))
}

// DirID is the identity of a participant's durable state, drawn when its data directory was made. A
// wiped disk gets another identity, and its participant is another voter.
type DirID [16]byte

// ParseDirID reads 32 hexadecimal digits.
func ParseDirID(text string) (DirID, error) {
	var d DirID
	if raw, err := hex.DecodeString(text); err != nil || len(raw) != len(d) {
		return d, fmt.Errorf("directory id %q: want %d hexadecimal digits", text, 2*len(d))
	} else {
		copy(d[:], raw)
	}
	return d, nil
}

// String returns the identity as hexadecimal digits.
func (d DirID) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d DirID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DirID) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDirID(string(text))
	return err
}

// Voter is a participant with its durable state: the recipient of a vote or a promise. The zero
// Voter is none.
type Voter struct {
	ID  NodeID `json:"id"`
	Dir DirID  `json:"dir"`
}

// String returns the id and the first digits of the directory's identity.
func (v Voter) String() string {
	if v == (Voter{}) {
		return "nobody"
	}
	return fmt.Sprintf("%s/%x", v.ID, v.Dir[:2])
}

// Membership lists the participants. Every message of a protocol that can change it carries it. It
// is immutable once in use: a change makes a new one.
type Membership struct {
	// ConfigTerm and Version order memberships, ConfigTerm first
	// (Schultz, Dardik, Tripakis: logless reconfiguration, 2021).
	ConfigTerm uint64 `json:"config_term"`
	Version    uint64 `json:"version"`
	// Voters, ordered by id, 1 to 9, and Observers, which never count.
	Voters    []Voter  `json:"voters"`
	Observers []NodeID `json:"observers,omitempty"`
	// Addresses are where participants are reached, at most one for each. They are for runtimes:
	// machines do not read them.
	Addresses []Address `json:"addresses,omitempty"`
}

// Address is where a participant is reached, as in "10.0.0.1:7400".
type Address struct {
	ID   NodeID `json:"id"`
	Addr string `json:"addr"`
}

// MaxAddress is the greatest length of an address, in bytes.
const MaxAddress = 320

// ConfigID identifies and orders the memberships of one election.
type ConfigID struct {
	Term    uint64 `json:"term"`
	Version uint64 `json:"version"`
}

// Compare orders by term, then by version.
func (c ConfigID) Compare(o ConfigID) int {
	return cmp.Or(cmp.Compare(c.Term, o.Term), cmp.Compare(c.Version, o.Version))
}

// String returns the term and the version, such as 7.3.
func (c ConfigID) String() string { return fmt.Sprintf("%d.%d", c.Term, c.Version) }

// MaxVoters is the greatest number of voters: more of them only make each election slower.
const MaxVoters = 9

// MaxObservers is the greatest number of observers: a leader tells each of them of every heartbeat.
const MaxObservers = 64

// Validate returns an error if the membership is invalid.
func (m *Membership) Validate() error {
	if n := len(m.Voters); n < 1 || n > MaxVoters {
		return fmt.Errorf("membership: %d voters; want 1 to %d", n, MaxVoters)
	}
	for i, v := range m.Voters {
		if _, err := ParseNodeID(string(v.ID)); err != nil {
			return fmt.Errorf("membership: %w", err)
		}
		if i > 0 && m.Voters[i-1].ID.Compare(v.ID) >= 0 {
			return fmt.Errorf("membership: voter %s after %s; want each once, ordered by id", v.ID, m.Voters[i-1].ID)
		}
	}
	for i, id := range m.Observers {
		if _, err := ParseNodeID(string(id)); err != nil {
			return fmt.Errorf("membership: %w", err)
		}
		if m.Index(id) >= 0 || slices.Index(m.Observers, id) != i {
			return fmt.Errorf("membership: observer %s is listed twice", id)
		}
	}
	for i, a := range m.Addresses {
		switch {
		case m.Index(a.ID) < 0 && !slices.Contains(m.Observers, a.ID):
			return fmt.Errorf("membership: an address of %s, which is neither voter nor observer", a.ID)
		case slices.IndexFunc(m.Addresses, func(o Address) bool { return o.ID == a.ID }) != i:
			return fmt.Errorf("membership: two addresses of %s", a.ID)
		case a.Addr == "" || len(a.Addr) > MaxAddress:
			return fmt.Errorf("membership: an address of %s with %d bytes; want 1 to %d", a.ID, len(a.Addr), MaxAddress)
		}
	}
	return nil
}

// ID is the key by which memberships are ordered.
func (m *Membership) ID() ConfigID { return ConfigID{m.ConfigTerm, m.Version} }

// Address is where a participant is reached, "" if unknown.
func (m *Membership) Address(id NodeID) string {
	for i := range m.Addresses {
		if m.Addresses[i].ID == id {
			return m.Addresses[i].Addr
		}
	}
	return ""
}

// Quorum is the number of voters in a majority.
func (m *Membership) Quorum() int { return len(m.Voters)/2 + 1 }

// Index is the place of the voter with that id, or -1.
func (m *Membership) Index(id NodeID) int {
	for i := range m.Voters {
		if m.Voters[i].ID == id {
			return i
		}
	}
	return -1
}

// Has reports whether v, with this directory, is a voter.
func (m *Membership) Has(v Voter) bool {
	i := m.Index(v.ID)
	return i >= 0 && m.Voters[i].Dir == v.Dir
}

// Compare orders two memberships by (ConfigTerm, Version).
func (m *Membership) Compare(o *Membership) int {
	return m.ID().Compare(o.ID())
}

// Overlap reports whether every majority of m's voters shares a voter with every
// majority of o's.
func (m *Membership) Overlap(o *Membership) bool {
	both := len(m.Voters)
	for i := range o.Voters {
		if !m.Has(o.Voters[i]) {
			both++
		}
	}
	return m.Quorum()+o.Quorum() > both
}

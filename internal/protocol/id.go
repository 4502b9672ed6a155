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

// ParseNodeID returns text as an id, or says what is wrong with it.
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

// DirID is the identity of a participant's durable state, drawn when its data
// directory was made. A wiped disk has another one, and is another voter.
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

// String is the identity as hexadecimal digits.
func (d DirID) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d DirID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DirID) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDirID(string(text))
	return err
}

// Voter is a participant with its durable state: who a vote or a promise is given to.
// The zero Voter is nobody.
type Voter struct {
	ID  NodeID `json:"id"`
	Dir DirID  `json:"dir"`
}

// String is the id and the first digits of the directory's.
func (v Voter) String() string {
	if v == (Voter{}) {
		return "nobody"
	}
	return fmt.Sprintf("%s/%x", v.ID, v.Dir[:2])
}

// Membership is who takes part. It travels in every message of protocols that
// can change it. It is immutable once it is in use: changing one means making
// another.
type Membership struct {
	// ConfigTerm and Version order memberships, ConfigTerm first
	// (Schultz, Dardik, Tripakis: logless reconfiguration, 2021).
	ConfigTerm uint64 `json:"config_term"`
	Version    uint64 `json:"version"`
	// Voters, ordered by id, 1 to 9, and Observers, who never count.
	Voters    []Voter  `json:"voters"`
	Observers []NodeID `json:"observers,omitempty"`
	// Addresses are where participants are reached, each at most once, for
	// runtimes: machines do not look at them.
	Addresses []Address `json:"addresses,omitempty"`
}

// Address is where a participant is reached, as in "10.0.0.1:7400".
type Address struct {
	ID   NodeID `json:"id"`
	Addr string `json:"addr"`
}

// MaxAddress is the greatest length of an address, in bytes.
const MaxAddress = 320

// ConfigID tells memberships of one election apart, and orders them.
type ConfigID struct {
	Term    uint64 `json:"term"`
	Version uint64 `json:"version"`
}

// Compare orders by term, then by version.
func (c ConfigID) Compare(o ConfigID) int {
	return cmp.Or(cmp.Compare(c.Term, o.Term), cmp.Compare(c.Version, o.Version))
}

// String is the term and the version, such as 7.3.
func (c ConfigID) String() string { return fmt.Sprintf("%d.%d", c.Term, c.Version) }

// MaxVoters is the greatest number of voters: beyond it each election only
// becomes slower.
const MaxVoters = 9

// Validate says what is wrong with the membership.
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
			return fmt.Errorf("membership: an address of %s, who is neither voter nor observer", a.ID)
		case slices.IndexFunc(m.Addresses, func(o Address) bool { return o.ID == a.ID }) != i:
			return fmt.Errorf("membership: two addresses of %s", a.ID)
		case a.Addr == "" || len(a.Addr) > MaxAddress:
			return fmt.Errorf("membership: an address of %s with %d bytes; want 1 to %d", a.ID, len(a.Addr), MaxAddress)
		}
	}
	return nil
}

// ID is what the membership is ordered by.
func (m *Membership) ID() ConfigID { return ConfigID{m.ConfigTerm, m.Version} }

// Address is where a participant is reached, "" if it is not known.
func (m *Membership) Address(id NodeID) string {
	for i := range m.Addresses {
		if m.Addresses[i].ID == id {
			return m.Addresses[i].Addr
		}
	}
	return ""
}

// Quorum is how many voters are a majority.
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

// Has reports whether v, with this very directory, is a voter.
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

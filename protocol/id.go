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
}

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
	return nil
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
	return cmp.Or(cmp.Compare(m.ConfigTerm, o.ConfigTerm), cmp.Compare(m.Version, o.Version))
}

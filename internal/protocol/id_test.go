package protocol_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

func TestParseNodeID(t *testing.T) {
	for _, text := range []string{"n1", "db-0.eu_west", strings.Repeat("x", 64)} {
		if id, err := protocol.ParseNodeID(text); err != nil || id.String() != text {
			t.Errorf("%q: %q, %v", text, id, err)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", 65), "a b", "a/b", "é", "a\x00"} {
		if _, err := protocol.ParseNodeID(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func ExampleNodeID_Compare() {
	ids := []protocol.NodeID{"n10", "n2", "n1"}
	slices.SortFunc(ids, protocol.NodeID.Compare)
	fmt.Println(ids)
	// Output: [n1 n2 n10]
}

func TestDirID(t *testing.T) {
	d, err := protocol.ParseDirID("000102030405060708090a0b0c0d0e0f")
	if err != nil || d.String() != "000102030405060708090a0b0c0d0e0f" {
		t.Errorf("%v, %v", d, err)
	}
	var again protocol.DirID
	if text, err := json.Marshal(d); err != nil || json.Unmarshal(text, &again) != nil || again != d {
		t.Errorf("%s is read back as %v (%v)", text, again, err)
	}
	for _, text := range []string{"", "00", "000102030405060708090a0b0c0d0e0f00", "x00102030405060708090a0b0c0d0e0f"} {
		if _, err := protocol.ParseDirID(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func voters(ids ...protocol.NodeID) (v []protocol.Voter) {
	for _, id := range ids {
		v = append(v, protocol.Voter{ID: id})
	}
	return v
}

func TestMembershipValidate(t *testing.T) {
	for _, c := range []struct {
		m    protocol.Membership
		says string // empty: valid
	}{
		{protocol.Membership{Voters: voters("n1")}, ""},
		{protocol.Membership{Voters: voters("n1", "n2", "n10"), Observers: []protocol.NodeID{"o1"}}, ""},
		{protocol.Membership{}, "0 voters"},
		{protocol.Membership{Voters: make([]protocol.Voter, 10)}, "10 voters"},
		{protocol.Membership{Voters: voters("n2", "n1")}, "voter n1 after n2"},
		{protocol.Membership{Voters: voters("n1", "n1")}, "voter n1 after n1"},
		{protocol.Membership{Voters: voters("n 1")}, "n 1"},
		{protocol.Membership{Voters: voters("n1"), Observers: []protocol.NodeID{"n1"}}, "observer n1 is listed twice"},
		{protocol.Membership{Voters: voters("n1"), Observers: []protocol.NodeID{"o1", "o1"}}, "observer o1 is listed twice"},
		{protocol.Membership{Voters: voters("n1"), Observers: []protocol.NodeID{""}}, "0 bytes"},
	} {
		err := c.m.Validate()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v; want %q", c.m, err, c.says)
		}
	}
}

func TestMembership(t *testing.T) {
	for n, quorum := range []int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 9: 5} {
		if m := (protocol.Membership{Voters: make([]protocol.Voter, n)}); n > 0 && quorum > 0 && m.Quorum() != quorum {
			t.Errorf("a quorum of %d is %d, want %d", n, m.Quorum(), quorum)
		}
	}
	m := protocol.Membership{Voters: []protocol.Voter{{ID: "n1", Dir: protocol.DirID{1}}, {ID: "n2"}}}
	if m.Index("n2") != 1 || m.Index("n3") != -1 {
		t.Error("Index is wrong")
	}
	if !m.Has(m.Voters[0]) || m.Has(protocol.Voter{ID: "n1"}) || m.Has(protocol.Voter{}) {
		t.Error("Has does not tell directories apart")
	}
	older := protocol.Membership{ConfigTerm: 1, Version: 9}
	newer := protocol.Membership{ConfigTerm: 2, Version: 1}
	if older.Compare(&newer) >= 0 || newer.Compare(&older) <= 0 || older.Compare(&older) != 0 {
		t.Error("memberships are not ordered by term, then version")
	}
}

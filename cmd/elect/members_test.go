package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer"
)

// node is what one of three voters says of itself.
func node(id, role string, token elect.Token, change func(*peer.NodeStatus)) peer.NodeResult {
	s := &peer.NodeStatus{
		ID: id, Role: role, Founded: true, Token: token, Active: token > 0, LeaseLeft: time.Duration(token) * 100 * time.Millisecond,
		Program: "v1", Leader: &elect.Leader{ID: "n2", Token: 7},
	}
	for _, o := range []string{"n1", "n2", "n3"} {
		if string(o) != id {
			s.Peers = append(s.Peers, peer.PeerStatus{ID: o, Connected: true, RTT: 210 * time.Microsecond, LastContact: 40 * time.Millisecond, Program: "v1"})
		}
	}
	if change != nil {
		change(s)
	}
	return peer.NodeResult{Peer: peer.Peer{ID: s.ID, Addr: id + ".example:7400"}, Status: s}
}

func silent(id string) peer.NodeResult {
	return peer.NodeResult{Peer: peer.Peer{ID: id, Addr: id + ".example:7400"}, Err: errors.New("connection refused")}
}

func TestMembers(t *testing.T) {
	without := func(cause string) func(*peer.NodeStatus) {
		return func(s *peer.NodeStatus) { s.Leader, s.Cause = nil, cause }
	}
	for name, c := range map[string]struct {
		results []peer.NodeResult
		code    int
		says    string   // on stderr
		rows    []string // of the table, columns apart by one space
	}{
		"all well": {
			[]peer.NodeResult{node("n1", "follower", 0, nil), node("n2", "leader", 7, nil), node("n3", "follower", 0, nil)}, exit.OK, "",
			[]string{
				"n1 voter follower - 210µs 40ms ago - v1 n1.example:7400 -",
				"n2 voter leader (token 7, lease 700ms) - - itself - v1 n2.example:7400 -",
				"n3 voter follower - 210µs 40ms ago - v1 n3.example:7400 -",
			},
		},
		"one is down": {
			[]peer.NodeResult{node("n1", "follower", 0, nil), node("n2", "leader", 7, func(s *peer.NodeStatus) {
				s.Peers[1] = peer.PeerStatus{ID: "n3", LastContact: -5, Error: "dial: refused"}
			}), silent("n3")}, exit.OK, "",
			[]string{
				"n2 voter leader (token 7, lease 700ms) - - itself - v1 n2.example:7400 no connection to n3: dial: refused",
				"n3 voter no answer - - - - - n3.example:7400 connection refused",
			},
		},
		"reached by the leader only": {
			[]peer.NodeResult{node("n1", "follower", 0, nil), node("n2", "leader", 7, nil), silent("n3")}, exit.OK, "",
			[]string{"n3 voter no answer - 210µs 40ms ago - v1 n3.example:7400 connection refused"},
		},
		"frozen": {
			[]peer.NodeResult{node("n1", "follower", 0, nil), node("n2", "leader", 7, func(s *peer.NodeStatus) { s.Peers[1].LastContact = 83 * time.Second }), silent("n3")}, exit.OK, "",
			[]string{"n3 voter no answer - 210µs 1m23s ago - v1 n3.example:7400 connection refused"},
		},
		"nobody leads": {
			[]peer.NodeResult{node("n1", "candidate", 0, without("")), node("n2", "follower", 0, without("")), silent("n3")}, exit.NoLeader, "", nil,
		},
		"founding": {
			[]peer.NodeResult{node("n1", "down", 0, func(s *peer.NodeStatus) {
				without("waiting for n3")(s)
				s.Founded, s.Peers = false, nil
			}), node("n2", "down", 0, without("waiting for n3")), silent("n3")}, exit.NoLeader, "waiting for n3",
			[]string{"n1 voter founding - - itself - v1 n1.example:7400 waiting for n3"},
		},
		"no majority": {
			[]peer.NodeResult{silent("n1"), node("n2", "leader", 7, nil), silent("n3")}, exit.Unavailable, "1 of 3 voters of nightly answer; want 2, a majority", nil,
		},
		"nobody": {[]peer.NodeResult{silent("n1"), silent("n2"), silent("n3")}, exit.Unavailable, "0 of 3 voters of nightly answer; want 2, a majority", nil},
		"who leads is not known any more": {
			[]peer.NodeResult{node("n1", "follower", 0, func(s *peer.NodeStatus) { s.Stale, s.Cause = true, "cut off" }), node("n3", "follower", 0, without("")), silent("n2")},
			exit.NoLeader, "", []string{"n1 voter follower - - itself - v1 n1.example:7400 cut off"},
		},
		"an observer, and one that only the leader knows": {
			[]peer.NodeResult{node("n1", "follower", 0, nil), node("n2", "leader", 7, func(s *peer.NodeStatus) {
				s.Observers = []string{"o1", "o2", "o3"}
				s.Peers = append(s.Peers, peer.PeerStatus{ID: "o2", Connected: true, RTT: time.Millisecond, LastContact: 0})
			}), silent("n3"), node("o1", "observer", 0, nil)}, exit.OK, "",
			[]string{"o1 observer observer - - - - v1 o1.example:7400 -", "o2 observer connected - 1ms 0s ago - - - -", "o3 observer ? - - - - - - it is not connected"},
		},
		"a membership of others than the URL's": {
			[]peer.NodeResult{node("n1", "follower", 0, func(s *peer.NodeStatus) { s.Membership = moved(1) }), node("n2", "leader", 7, func(s *peer.NodeStatus) {
				s.Membership, s.Priority, s.Position = moved(2), 200, "16/7"
				s.Membership.Settled = true
				s.Membership.Voters[1].Lag, s.Membership.Voters[1].Priority, s.Membership.Voters[1].Position = 30*time.Millisecond, -1, "16/5"
			}), silent("n3"), silent("n4"), node("o1", "observer", 0, func(s *peer.NodeStatus) { s.Membership = moved(2) }), node("n5", "down", 0, func(s *peer.NodeStatus) {
				s.Founded, s.Join, s.Cause = false, true, "n5 waits"
			})}, exit.Unavailable, "1 of 3 voters of nightly answer; want 2, a majority",
			[]string{
				"n2 voter leader (token 7, lease 700ms) 200 16/7 - itself - v1 n2.example:7400 -",
				"n3 voter no answer never 16/5 210µs 40ms ago 30ms v1 n3.example:7400 connection refused",
				"o1 observer observer - - - - - v1 o1.example:7400 -",
				"n1 stranger follower - - 210µs 40ms ago - v1 n1.example:7400 -",
				"n5 joining waiting - - - - - v1 n5.example:7400 n5 waits",
				"membership 7.2: the voters n2, n3, n4; observers o1; a majority is 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := membersOf(c.results, 3)
			m.Name = "nightly"
			err := m.verdict()
			code, tell := exit.Of(err)
			if code != c.code || tell != (c.says != "") || tell && err.Error() != c.says {
				t.Errorf("%d, %v; want %d, %q", code, err, c.code, c.says)
			}
			var table strings.Builder
			if err := m.write(&table); err != nil {
				t.Fatal(err)
			}
			for _, row := range c.rows {
				if !strings.Contains(rows(table.String()), "\n"+row+"\n") {
					t.Errorf("no row %q in:\n%s", row, rows(table.String()))
				}
			}
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{`"quorum":2`, `"answers":`, `"leader":`, `"seen_by":`, `"membership":`, `"members":[{"id":"n`, `","kind":"voter"`} {
				if !strings.Contains(string(raw), field) {
					t.Errorf("no %s in %s", field, raw)
				}
			}
		})
	}
}

// moved is a membership without n1.
func moved(count uint64) *peer.MembershipStatus {
	m := &peer.MembershipStatus{Term: 7, Count: count, Observers: []peer.ObserverStatus{{ID: "o1"}}}
	for _, id := range []string{"n2", "n3", "n4"} {
		m.Voters = append(m.Voters, peer.VoterStatus{ID: id, Lag: -1})
	}
	return m
}

// rows makes one space of many.
func rows(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString(cli.OneLine(line) + "\n")
	}
	return b.String()
}

package quorum

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// among is a membership of the voters with these numbers.
func among(places ...int) *protocol.Membership {
	ms := &protocol.Membership{}
	for _, i := range places {
		ms.Voters = append(ms.Voters, voter(i))
	}
	return ms
}

// TestObjection: each reason why a leader of three does not change the membership, and that a
// Reconfigure then changes nothing.
func TestObjection(t *testing.T) {
	wiped := among(0, 1, 2)
	wiped.Voters[2].Dir[5]++
	watched, moved := among(0, 1, 2), among(0, 1, 2)
	watched.Observers = []protocol.NodeID{"n9"}
	moved.Addresses = []protocol.Address{{ID: "n1", Addr: "there:1"}}
	unlisted := among(0, 1)
	unlisted.Addresses = []protocol.Address{{ID: "n3", Addr: "there:1"}}
	full := among(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	for _, c := range []struct {
		name   string
		next   *protocol.Membership
		change func(m *Machine)
		says   []string // empty: it is carried out
	}{
		{"add", among(0, 1, 2, 3), nil, nil},
		{"remove", among(0, 2), nil, nil},
		{"an observer", watched, nil, nil},
		{"an address", moved, nil, nil},
		{"nothing", nil, nil, []string{"no membership; want voters"}},
		{"nobody", among(), nil, []string{"0 voters; want 1 to 9"}},
		{"too many", full, nil, []string{"10 voters; want 1 to 9"}},
		{"in another order", among(1, 0, 2), nil, []string{"n1 after n2", "ordered by id"}},
		{"an address of a stranger", unlisted, nil, []string{"address of n3", "neither voter nor observer"}},
		{"the same", among(0, 1, 2), nil, []string{"it is the present membership"}},
		{"without the leader", among(1, 2), nil, []string{"n1 leads", "transfer leadership first"}},
		{"two removed", among(0), nil, []string{"{n1,n2,n3}", "{n1}", "one voter at a time"}},
		{"two added", among(0, 1, 2, 3, 4), nil, []string{"one voter at a time"}},
		{"one for another", among(0, 1, 3), nil, []string{"{n1,n2,n4}", "one voter at a time"}},
		{"another directory", wiped, nil, []string{"n3", "directory"}},
		{"no leader", among(0, 1), func(m *Machine) { m.role = protocol.Follower }, []string{"n1 does not lead"}},
		{"fencing", among(0, 1), func(m *Machine) { m.role = protocol.Fencing }, []string{"n1 does not lead"}},
		{"not in tenure", among(0, 1), func(m *Machine) { m.tenure.active = false }, []string{"its lease is not proven yet"}},
		{"another change", among(0, 1), func(m *Machine) { m.next = among(0, 2); m.next.Version = 7 }, []string{"version 7 is still being saved"}},
		{"disk", among(0, 1), func(m *Machine) { m.badDisk = true }, []string{"the disk of n1 fails"}},
		{"an election", among(0, 1), func(m *Machine) { m.round.kind = asking }, []string{"holding an election"}},
		{"not settled", among(0, 1), func(m *Machine) {
			for i := range m.tenure.voters {
				m.tenure.voters[i].held.Version = 0
			}
		}, []string{"a majority of {n1,n2,n3}", "has not saved membership 1.1"}},
		{"of an earlier term", among(0, 1), func(m *Machine) { m.tenure.term++ }, []string{"has not saved membership 1.1"}},
		{"not on the own disk, and one other's", among(0, 1), func(m *Machine) {
			m.held = protocol.ConfigID{}
			m.tenure.voters[2].held = protocol.ConfigID{}
		}, []string{"has not saved membership 1.1"}},
		{"a greater claim", among(0, 1), func(m *Machine) { m.tenure.leaseEnd++ }, []string{"has not yet renewed the earlier lease"}},
		{"silence", among(0, 1), func(m *Machine) { m.tenure.voters[1].sent -= protocol.Instant(time.Second) }, []string{"1 voters of {n1,n2} answer, and a majority is 2", "n2 does not answer"}},
		{"silence, and one that is new", among(0, 1, 2, 3), func(m *Machine) { m.tenure.voters[1].sent -= protocol.Instant(time.Second) },
			[]string{"2 voters of {n1,n2,n3,n4} answer, and a majority is 3", "n2 does not answer", "n4 is new"}},
		{"silence of the removed voter", among(0, 2), func(m *Machine) { m.tenure.voters[1].sent -= protocol.Instant(time.Second) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSteady(t, 3)
			m := s.leader
			if c.change != nil {
				c.change(m)
			}
			err := m.Objection(c.next)
			before := m.next
			s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Reconfigure, Membership: c.next}}
			s.step(m)
			if c.says == nil {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if len(s.fx.Saves) != 1 || m.next == nil || m.next.ID() != (protocol.ConfigID{Term: 1, Version: 2}) || !slices.Equal(m.next.Voters, c.next.Voters) || !slices.Equal(m.next.Observers, c.next.Observers) || !slices.Equal(m.next.Addresses, c.next.Addresses) {
					t.Errorf("saves %d times, and makes %+v", len(s.fx.Saves), m.next)
				}
				if b, err := DecodeBallot(s.fx.Saves[0].Data); err != nil || b.Membership.ID() != m.next.ID() {
					t.Errorf("saves %v, error %v", b.Membership, err)
				}
				if ms, _ := m.Membership(); ms.Version != 1 || len(s.fx.Sends) > 0 {
					t.Errorf("before it is saved, it has version %d, and sends %d messages", ms.Version, len(s.fx.Sends))
				}
				return
			}
			if err == nil {
				t.Fatal("no objection")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if m.next != before || m.ballot.Membership.Version != 1 || len(s.fx.Saves) > 0 {
				t.Error("the command has an effect")
			}
		})
	}
}

// TestOverlap compares the arithmetic with an enumeration of all majorities.
func TestOverlap(t *testing.T) {
	const n = 6
	for a := 1; a < 1<<n; a++ {
		for b := 1; b < 1<<n; b++ {
			meet := true
			for qa := range 1 << n {
				for qb := range 1 << n {
					if qa&^a == 0 && qb&^b == 0 && qa&qb == 0 && 2*ones(qa) > ones(a) && 2*ones(qb) > ones(b) {
						meet = false
					}
				}
			}
			if got := among(numbers(a)...).Overlap(among(numbers(b)...)); got != meet {
				t.Fatalf("%s and %s overlap: %v; want %v", show(among(numbers(a)...)), show(among(numbers(b)...)), got, meet)
			}
		}
	}
	other := among(0, 1, 2)
	other.Voters[1].Dir[0]++
	if among(0, 1, 2).Overlap(other) {
		t.Error("a voter with another directory counts as the same voter")
	}
}

func ones(set int) (n int) {
	for ; set > 0; set &= set - 1 {
		n++
	}
	return n
}

func numbers(set int) (all []int) {
	for i := range 9 {
		if set&(1<<i) != 0 {
			all = append(all, i)
		}
	}
	return all
}

// TestMembers: what a leader knows of the others, and that a follower reports nothing.
func TestMembers(t *testing.T) {
	w := newWorld(1)
	for i := range 4 {
		cfg := Config{Self: voter(i), Membership: members(4), Position: RequirePosition, Priority: []int{0, 50, protocol.NeverLead, 0}[i]}
		w.add(cfg).position = []string{"12", "9", "12", "12"}[i]
		w.nodes[i].start()
	}
	w.nodes[3].crash(true)
	w.run(2 * time.Second)
	lead := w.leader()
	if lead == nil || lead.i != 0 {
		t.Fatal("n1 does not lead")
	}
	all := lead.m.Members(nil)
	if len(all) != 3 || all[0].Voter != voter(1) || all[1].Voter != voter(2) || all[2].Voter != voter(3) {
		t.Fatalf("members %+v", all)
	}
	for i, want := range []protocol.Member{
		{Priority: 50, Position: "9", Behind: true, Held: protocol.ConfigID{Term: 1, Version: 1}},
		{Priority: protocol.NeverLead, Position: "12", Idle: true, Held: protocol.ConfigID{Term: 1, Version: 1}},
		{Answered: protocol.Always, Behind: true},
	} {
		got := all[i]
		if i < 2 && got.Answered.Add(200*time.Millisecond) < lead.m.now.Boot {
			t.Errorf("%s answered at %v last; it is %v", got.ID, got.Answered, lead.m.now.Boot)
		}
		want.Voter = got.Voter
		if (got.Rate.Over > 0) != (i < 2) || got.Rate.Low > 0 || got.Rate.High < 0 {
			t.Errorf("the rate of a clock like its own is %+v", got.Rate)
		}
		want.Rate = got.Rate
		if i < 2 {
			want.Answered = got.Answered
		}
		if got != want {
			t.Errorf("it knows %+v; want %+v", got, want)
		}
	}
	if ms, settled := lead.m.Membership(); ms.Version != 1 || !settled {
		t.Errorf("version %d, settled: %v", ms.Version, settled)
	}
	follower := w.nodes[1].m
	if ms, settled := follower.Membership(); len(follower.Members(nil)) > 0 || settled || ms.ConfigTerm != 1 {
		t.Error("a follower tells of members, or that a membership is settled")
	}
}

// TestInstalledAfterTheEnd: a change that becomes durable after its leader's tenure is the voter's
// membership all the same; after a restart it would be, too.
func TestInstalledAfterTheEnd(t *testing.T) {
	s := newSteady(t, 3)
	m := s.leader
	s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Reconfigure, Membership: among(0, 1)}}
	s.step(m)
	number := s.fx.Saves[0].Number
	s.now.Boot += protocol.Instant(10 * time.Second)
	s.now.Mono += protocol.Instant(10 * time.Second)
	s.in = protocol.Input{Kind: protocol.Fire}
	s.step(m)
	if m.role != protocol.Fencing {
		t.Fatalf("it is %v", m.role)
	}
	s.in = protocol.Input{Kind: protocol.Saved, Number: number}
	s.step(m)
	if ms, _ := m.Membership(); ms.Version != 2 || m.next != nil {
		t.Errorf("it has version %d", ms.Version)
	}
}

// TestNewerMembershipWins: a leader gives up a change that is being saved for a newer membership,
// also when its save ends later.
func TestNewerMembershipWins(t *testing.T) {
	s := newSteady(t, 3)
	m := s.leader
	s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Reconfigure, Membership: among(0, 1)}}
	s.step(m)
	number := s.fx.Saves[0].Number
	s.now.Boot += protocol.Instant(10 * time.Second)
	s.now.Mono += protocol.Instant(10 * time.Second)
	newer := members(3)
	newer.ConfigTerm = 2
	s.in = from(1, Heartbeat, newer, 2)
	s.step(m)
	s.in = protocol.Input{Kind: protocol.Saved, Number: number}
	s.step(m)
	if ms, _ := m.Membership(); ms.ConfigTerm != 2 || m.next != nil {
		t.Errorf("it has membership %v", ms.ID())
	}
}

// TestStampedWhileChanging: a leader that goes on in a higher term while a change is being saved
// keeps the membership of that term (R5): it is the newer one.
func TestStampedWhileChanging(t *testing.T) {
	s := newSteady(t, 3)
	m := s.leader
	s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Reconfigure, Membership: among(0, 1)}}
	s.step(m)
	number := s.fx.Saves[0].Number
	m.stamp(5)
	s.in = protocol.Input{Kind: protocol.Saved, Number: number}
	s.step(m)
	if ms, _ := m.Membership(); ms.ID() != (protocol.ConfigID{Term: 5, Version: 1}) || m.next != nil {
		t.Errorf("it has membership %v; want 5.1", ms.ID())
	}
}

// TestReplacedAtOnce: of four voters, one can be replaced by one with another directory in a single
// change. Nothing that was known of the old voter applies to the new one.
func TestReplacedAtOnce(t *testing.T) {
	s := newSteady(t, 4)
	m := s.leader
	next := among(0, 1, 2, 3)
	next.Voters[2].Dir[5]++
	s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Reconfigure, Membership: next}}
	s.step(m)
	if len(s.fx.Saves) != 1 {
		t.Fatal(m.Objection(next))
	}
	m.known[1], m.known[2] = standing{priority: 50, position: "7"}, standing{priority: 50, position: "7"}
	m.round = round{kind: asking, number: 9}
	kept := m.tenure.voters[1]
	s.in = protocol.Input{Kind: protocol.Saved, Number: s.fx.Saves[0].Number}
	s.step(m)
	if ms, _ := m.Membership(); ms.Version != 2 {
		t.Fatalf("it has version %d", ms.Version)
	}
	if f := m.tenure.voters[2]; m.known[2] != (standing{}) || f != (follower{sent: protocol.Always, claim: protocol.Always, notBefore: protocol.Never, clean: m.tenure.term}) {
		t.Errorf("of the new n3 it knows %+v and %+v", m.known[2], f)
	}
	if f := m.tenure.voters[1]; m.known[1] != (standing{priority: 50, position: "7"}) || f != kept {
		t.Errorf("of n2 it knows %+v and %+v", m.known[1], f)
	}
	if m.round.kind != idle {
		t.Error("an election of the old membership goes on")
	}
}

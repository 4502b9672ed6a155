//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/network"
)

// administration are races of operators' commands with faults.
func administration() []scenario {
	return []scenario{
		{
			name: "transfer-race", story: "The leader is asked to hand over to a follower, and in the middle of that dies, is cut off, or loses its target.",
			nodes: 3, script: transferRaces,
			parts: []part{{on: quorum, expected: "no two lead at once, and one leads soon after", judge: (*trial).safe}},
		},
		{
			name: "reconfig-fork", story: "A cut off leader is asked to remove a member, and its successor on the other side to add one, at the same time.",
			nodes: 5, spare: 1, script: reconfigFork,
			parts: []part{{on: quorum, expected: "only the side with a majority changes the membership, and in the end all have that one", judge: handedOn}},
		},
		{
			name: "lease-reconfig", story: "The leader is cut off in the middle of removing a voter, with a lease that a majority of the old voters has promised.",
			nodes: 3, disks: disk.NewFUSE, script: leaseReconfigs,
			parts: []part{{on: quorum, expected: "the next lease begins after the old one is over", judge: (*trial).safe}},
		},
	}
}

// asks runs the elect command from outside, beside the script. done delivers its error.
func (s *trial) asks(args ...string) (done <-chan error) {
	result := make(chan error, 1)
	ctx, cancel := s.patiently()
	s.after(func() error { cancel(); return nil })
	go func() {
		_, err := s.cluster.Operator(ctx, args...)
		result <- err
	}()
	return result
}

// transferRaces runs several rounds, each with another fault at another moment.
func transferRaces(s *trial) {
	rounds := []struct {
		name     string
		do, undo func()
	}{
		{"the leader's parent dies", func() { s.kill(0, cluster.Node) }, func() {}},
		{"all of the leader dies", func() { s.down(0) }, func() { s.up(0) }},
		{"the leader is cut off", func() { s.set(network.Isolate(3, 0)) }, s.healed},
		{"the target dies", func() { s.down(1) }, func() { s.up(1) }},
		{"the target stops", func() { s.freeze(1, cluster.Voter) }, func() { s.thaw(1, cluster.Voter) }},
	}
	s.begins()
	var longest time.Duration
	for _, r := range rounds {
		s.meets(r.name, func(try int) bool {
			s.assign()
			asked := s.ledger.Now()
			if err := s.appoint(s.roles[1]); err != nil {
				s.say("%s: %v", r.name, err)
				return false
			}
			s.hold(time.Duration(try) * time.Millisecond) // it is under way
			began := s.ledger.Now()
			r.do()
			met := len(tenuresSince(s, asked)) == 0
			s.hold(2 * promise)
			r.undo()
			s.assign()
			led := tenuresOf(s.ledger.Lives())
			gap := silence(led, began, s.ledger.Now())
			longest = max(longest, gap)
			s.want(gap <= 2*soon, "%s: there was no leader for %v; want %v at most", r.name, shown(gap), 2*soon)
			return met
		})
	}
	s.say("%d rounds; the longest time without a leader is %v", len(rounds), shown(longest))
}

// meets repeats a round until its fault comes during the operator's operation: not before the
// leader knew of it, and not after it was done.
func (s *trial) meets(name string, round func(try int) bool) {
	s.t.Helper()
	const tries = 6
	for try := range tries {
		if round(try) {
			return
		}
		s.say("%s: the fault did not meet with the operation, so once more", name)
	}
	s.want(false, "%s: in %d rounds the fault did not meet with the operation", name, tries)
}

// appoint asks the leader to hand over to a node, and returns when it has agreed: then its work is
// being stopped, and no other node leads before it has.
func (s *trial) appoint(to int) error {
	ctx, cancel := s.patiently()
	defer cancel()
	return s.cluster.Client().Transfer(s.cluster.Outside(ctx), 0, s.cluster.ID(to))
}

// silence is the longest time without a leader between two times.
func silence(tenures []tenure, from, until int64) (longest time.Duration) {
	at := from
	for _, r := range tenures { // by when they began
		if r.from > at {
			longest = max(longest, time.Duration(min(r.from, until)-at))
		}
		at = max(at, r.until)
	}
	return max(longest, time.Duration(until-at))
}

// reconfigFork asks a leader that is cut off to remove 3, and when another leads, to add the spare
// node.
func reconfigFork(s *trial) {
	spare := s.cluster.ID(5)
	s.does(s.cluster.Start(5))
	if !s.until(patience, func() bool { m := s.members().Nodes[5]; return m != nil && m.Join }) {
		s.giveUp("%s does not wait to be added", spare)
	}
	s.begins()
	s.set(network.Isolate(6, 0))
	old := s.roles[0]
	removal := s.asks("member", "remove", s.cluster.ID(s.roles[3]), "--election", s.only(old))
	s.next(s.fault, soon)
	added := s.asks("member", "add", s.member(5))
	err := <-added
	s.want(err == nil, "%s is not added: %v", spare, err)
	err = <-removal
	s.must(err != nil, "the leader that is cut off has removed %s", s.cluster.ID(s.roles[3]))
	s.healed()
	all := func() bool {
		m := s.members()
		for _, n := range m.Nodes {
			if n == nil || n.Membership == nil || len(n.Membership.Voters) != 6 || n.Membership.Version() != m.Membership.Version() {
				return false
			}
		}
		return true
	}
	s.want(s.until(patience, all), "not all six have one membership of six voters in the end")
	s.say("the removal: %v; all six have membership %s in the end", err, s.members().Membership.Version())
}

// only is the URL of an operator that asks one node.
func (s *trial) only(node int) string {
	_, query, _ := strings.Cut(s.cluster.URL(network.Operator), "?")
	return "peer://" + s.cluster.ID(node) + "@" + s.net.OperatorAddr(node) + "?" + query
}

// leaseReconfigs runs several rounds in which the leader is cut off at another moment of a removal.
func leaseReconfigs(s *trial) {
	s.begins()
	for round := range 3 {
		s.meets(fmt.Sprintf("round %d", round+1), func(int) bool { return s.leaseReconfig(round) })
	}
}

// leaseReconfig runs one round, and reports whether the removal was in progress when the leader was
// cut off. All syncs are slow, so that it takes a while.
func (s *trial) leaseReconfig(round int) bool {
	const slow = promise / 4
	s.assign()
	gone := s.roles[2]
	s.cluster.Join(gone, true) // after its removal it waits to be added again
	s.does(s.cluster.Down(gone))
	s.does(s.cluster.Start(gone))
	s.calm()
	for _, d := range s.disks {
		s.does(d.Fault(disk.Fault{SyncDelay: slow}))
	}
	done := make(chan error, 1)
	ctx, cancel := s.patiently()
	defer cancel()
	go func() {
		_, err := s.cluster.Client().RemoveMember(s.cluster.Outside(ctx), s.cluster.ID(gone), nil)
		done <- err
	}()
	s.hold(slow * time.Duration(round+1) / 4)
	under := len(done) == 0
	s.set(network.Isolate(3, 0))
	s.hold(2 * promise)
	s.healed()
	for _, d := range s.disks {
		s.does(d.Fault(disk.Fault{}))
	}
	err := <-done
	l := s.calm()
	removed := len(s.members().Membership.Voters) == 2
	if removed { // it may have led just before
		l = s.calm()
		s.must(l.Node != gone, "%s leads, which was removed", s.cluster.ID(gone))
	}
	s.say("round %d: removed: %t (%v); %s leads", round+1, removed, err, s.cluster.ID(l.Node))
	if removed {
		s.operator("member", "add", s.member(gone))
	}
	// A change that was refused, or reached no node, came too late.
	return under && (err == nil || errors.Is(err, elect.ErrUnknownOutcome))
}

// member is a node in the form of elect member.
func (s *trial) member(node int) string { return s.cluster.ID(node) + "@" + s.cluster.Addr(node) }

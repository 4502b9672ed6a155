//go:build linux

package chaos

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
)

// standstills are the scenarios in which a leader is stopped, or its clock is wrong.
func standstills() []scenario {
	sees := "two lead at one time, and the judge sees it; the register refuses every stale write"
	return []scenario{
		{
			name: "gc-pause", story: "A leader with a lease of 30 s stops for 45 s between its check and its write; here it is a promise, and half as long again.",
			nodes: 3, short: true,
			parts: []part{
				{on: quorum, kind: cluster.Library, expected: "another leads when the lease is over, with the next token; the write with the old one is refused",
					script: pausedInWork, judge: nAndNPlusOne},
				{on: "quorum-run", expected: "elect run alone stops: its keeper has killed the command before another leads", script: parentFrozen, judge: afterTimeout},
			},
		},
		{
			name: "suspend", story: "The leader's machine sleeps for more than its lease: its boot clock runs, its monotonic one stands still.",
			nodes: 3, clocks: true, short: true, script: sleeps((*skew.Clock).Suspend),
			parts: []part{
				{on: quorum, kind: cluster.Library, expected: "another leads, and the lease of the sleeper is over when it wakes", judge: handedOnInSleep},
				{on: "quorum-run", expected: "the same with a command, which is killed at once", judge: handedOnInSleep},
			},
		},
		{
			name: "vm-stop", story: "The leader's virtual machine stops for more than its lease, and its clocks with it.",
			nodes: 3, clocks: true, script: sleeps(func(c *skew.Clock, d time.Duration) { c.StepBoth(-d) }),
			parts: []part{
				{on: quorum, kind: cluster.Library, expected: "nothing tells the stopped leader that time has passed: " + sees, judge: overlapSeen},
			},
		},
		{
			name: "drift-beyond-bound", story: "The clock of a leader that is cut off goes at a fifth of its speed, which is more than any bound allows.",
			nodes: 3, clocks: true, script: slowClock,
			parts: []part{
				{on: quorum, kind: cluster.Library, expected: sees, judge: overlapSeen},
				{on: "quorum-run", expected: "the same with a command", judge: overlapSeen},
			},
		},
		{
			name: "clocks-apart", story: "The clock of a leader begins to run at half its speed, which is less than any bound allows. Nothing else fails.",
			nodes: 3, clocks: true, short: true, script: halfSpeed,
			parts: []part{
				{on: quorum, kind: cluster.Library, expected: "the answers to its heartbeats show it: it gives up within a promise, and does not lead again", judge: gaveUp},
				{on: "quorum-run", expected: "the same with a command", judge: gaveUp},
			},
		},
	}
}

// pausedInWork makes the leader stop itself between a check and a write, as a garbage collection
// would, and resumes it half a promise after another one leads.
func pausedInWork(s *trial) {
	s.begins()
	s.does(unix.Kill(s.leader.Pids.Node, unix.SIGUSR2)) // package worker documents its effect
	stopped := func() bool {
		p, _ := proc.Read(s.leader.Pids.Node)
		return p.State == 'T'
	}
	if !s.until(patience, stopped) {
		s.giveUp("%s did not stop itself", s.cluster.ID(s.leader.Node))
	}
	s.freeze(0, cluster.Family) // so that the history has it, too
	s.next(s.fault, soon)
	s.hold(promise / 2)
	s.thaw(0, cluster.Family)
	s.hold(promise)
}

// nAndNPlusOne expects the next token for the next leader, and the refusal of the old one's write.
func nAndNPlusOne(s *trial) {
	s.safe()
	old, next := s.oneAfter(s.fault, promise/2, soon)
	s.want(next.token == old.token+1, "tokens %d and %d; want the second one to be the next", old.token, next.token)
	s.want(s.report.StaleRefused > 0, "no stale write was refused; want at least one, that of the paused leader")
	s.say("%s stops with token %d, %s leads with token %d; %d stale writes are refused, %d accepted", s.name(old.node), old.token, s.name(next.node), next.token, s.report.StaleRefused, s.report.StaleAccepted)
}

// parentFrozen stops elect run, but neither its keeper nor the command.
func parentFrozen(s *trial) {
	s.begins()
	s.freeze(0, cluster.Node)
	s.next(s.fault, soon)
	s.hold(promise * 3 / 2)
	s.thaw(0, cluster.Node)
	s.hold(promise)
}

// sleeps stops all processes of the leader, and cuts it off, so that no message reaches it when it
// wakes. Half a promise after another one leads wakes sets its clocks for the time that it slept,
// and it resumes.
func sleeps(wakes func(c *skew.Clock, slept time.Duration)) func(*trial) {
	return func(s *trial) {
		s.begins()
		s.freeze(0, cluster.Family)
		since := s.ledger.Now()
		s.set(network.Isolate(3, 0))
		s.next(s.fault, soon)
		s.hold(promise / 2)
		wakes(s.clocks[s.roles[0]], time.Duration(s.ledger.Now()-since))
		s.ticks(s.roles[0], 1)
		s.thaw(0, cluster.Family)
		s.hold(promise * 3 / 2)
		s.healed()
		s.hold(promise)
	}
}

// handedOnInSleep expects another leader when the promises are over, and the sleeper not to lead
// again without an election.
func handedOnInSleep(s *trial) {
	s.safe()
	old, all := s.led(s.fault), s.begun(s.fault, s.end)
	s.want(len(all) == 1 && all[0].node != old.node, "%s led after %s; want one other", s.names(all), s.name(old.node))
	if len(all) == 0 {
		return
	}
	took := s.sinceFault(all[0].from)
	s.want(took >= promise/2 && took <= soon, "%s leads after %v; want %v to %v", s.name(all[0].node), shown(took), promise/2, soon)
	s.say("%s leads %v after %s fell asleep; %d lives of what was frozen ended when it woke", s.name(all[0].node), shown(took), s.name(old.node), s.report.Zombies)
}

// slowClock cuts the leader off and slows its clock, so that its lease takes five times as long as
// the others assume.
func slowClock(s *trial) {
	s.begins()
	s.ails(0, true)
	clock := s.clocks[s.roles[0]]
	const slow = .2
	clock.Rate(slow)
	s.ticks(s.roles[0], slow)
	s.set(network.Isolate(3, 0))
	s.next(s.fault, soon)
	s.hold(2 * promise)
	s.healed()
	s.hold(promise)
	clock.Rate(1) // it stays behind: a clock that jumps voids the promises
	s.ticks(s.roles[0], 1)
	s.ails(0, false)
}

// halfSpeed slows the leader's clock.
func halfSpeed(s *trial) {
	s.begins()
	s.ails(0, true)
	clock := s.clocks[s.roles[0]]
	const half = .5
	clock.Rate(half)
	s.ticks(s.roles[0], half)
	s.next(s.fault, soon)
	s.hold(4 * promise)
	s.healed()
	clock.Rate(1) // it stays behind: a clock that jumps voids the promises
	s.ticks(s.roles[0], 1)
	s.ails(0, false)
	s.hold(promise)
}

// gaveUp expects another leader before the lease of the one with the slow clock could have ended by
// itself, and that one not to lead again.
func gaveUp(s *trial) {
	s.safe()
	old, all := s.led(s.fault), s.begun(s.fault, s.end)
	s.want(len(all) == 1 && all[0].node != old.node, "%s led after %s; want one other", s.names(all), s.name(old.node))
	if len(all) == 0 {
		return
	}
	took := s.sinceFault(all[0].from)
	s.want(took <= promise, "%s leads %v after the clock of %s slowed down; want %v at most", s.name(all[0].node), shown(took), s.name(old.node), promise)
	s.say("%s leads %v after the clock of %s slowed down", s.name(all[0].node), shown(took), s.name(old.node))
}

// overlapSeen expects the judge to have seen two leaders at one time, and the register to have
// refused all stale writes.
func overlapSeen(s *trial) {
	s.fenced()
	seen := slices.IndexFunc(s.report.Violations, func(v judge.Violation) bool { return slices.Contains(overlaps(), v.Check) })
	leases := slices.ContainsFunc(s.report.Violations, func(v judge.Violation) bool { return v.Check == judge.CheckLease })
	s.want(leases, "of %d leases no two are for one time; want two, as the clock of one is wrong", s.report.Leases)
	both := s.both(s.fault, s.end)
	s.want(seen >= 0, "the judge saw no overlap; want one: an assumption is broken")
	s.want(both > 0, "two lead for %v at one time; want longer", both)
	s.want(s.report.StaleRefused > 0, "no stale write was refused; want at least one")
	s.say("two lead for %v at one time; %d stale writes are refused, %d accepted", shown(both), s.report.StaleRefused, s.report.StaleAccepted)
	if seen >= 0 {
		s.say("the judge: %s", s.report.Violations[seen].Text)
	}
}

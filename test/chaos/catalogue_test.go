//go:build linux

package chaos

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/network"
)

// scenario is a short sequence of faults, with its name in docs/scenarios.md and in the simulator.
type scenario struct {
	name  string
	story string

	nodes int    // voters; the leader at the beginning of the faults has role 0
	spare int    // further nodes, which wait to be added
	on    medium // the network that it needs

	disks  func(dir string) (disk.Disk, error) // each node's disk; nil: a plain directory
	clocks bool                                // nodes have clocks of their own: programs built for that
	short  bool                                // in CI, too

	script func(*trial)
	parts  []part
}

// part is a scenario with one protocol, or one kind of program.
type part struct {
	on       string // its name
	expected string
	judge    func(*trial)

	protocol string       // "": quorum
	net      medium       // overrides the scenario's
	kind     cluster.Kind // the nodes' programs
	params   url.Values   // of the election's URL
	env      func(s *trial, node int) []string
	script   func(*trial) // overrides the scenario's
}

// medium is the kind of network that a scenario needs.
type medium int

const (
	anywhere   medium = iota // namespaces, and where there are none, proxies
	namespaces               // packets can be lost
	proxies                  // bytes can be delayed
	nowhere                  // an election in a file, of one machine
)

// The times of the classic protocols, whose leaders have no lease: the least time for which a
// silent leader is waited for, and the time between two heartbeats.
const (
	classicPromise = 300 * time.Millisecond
	classicBeat    = classicPromise / 5
)

// The names of the parts.
const (
	quorum  = "quorum"
	raft    = "raft"
	preVote = "raft-prevote"
	bully   = "bully"
)

// calmly is the expectation for quorum in most partitions.
const calmly = "nothing: the leader leads on without a gap"

// plain is a part with a classic protocol: its leaders have no lease.
func plain(protocol, expected string, judge func(*trial)) part {
	return part{on: protocol, protocol: protocol, expected: expected, judge: judge}
}

// cut is a script: the links have this shape for that time, and then they are healed.
func cut(shape network.Links, d time.Duration) func(*trial) {
	return func(s *trial) {
		s.during(shape, d)
		s.hold(promise)
	}
}

// lengthy is a time that lets all timeouts pass several times.
const lengthy = 5 * promise

// catalogue is all scenarios.
func catalogue() []scenario {
	return slices.Concat(deaths(), partitions(), openraft(), ballots(), standstills(), administration(), slowness(), impostors())
}

// partitions are cuts, most of them partial: links are missing while all nodes are up.
func partitions() []scenario {
	return []scenario{
		{
			name: "minority-leader", story: "The leader is cut off with a minority; later all is healed.",
			nodes: 5, short: true, script: cut(network.Halves(5, 0, 1), lengthy),
			parts: []part{
				{on: quorum, expected: "the lease of the cut off leader is over before another one's begins", judge: handedOn},
				plain(raft, "a stale leader leads beside the new one until all is healed", stale),
				plain(bully, "split brain: each side has its leader until all is healed", split),
			},
		},
		{
			name: "rejoin", story: "A follower is cut off, and comes back.",
			nodes: 5, short: true, script: cut(network.Isolate(5, 4), lengthy),
			parts: []part{
				{on: quorum, expected: calmly, judge: undisturbed},
				plain(raft, "the node that comes back has a higher term, which deposes the leader", deposed),
			},
		},
		{
			name: "ping-pong", story: "Two cannot see each other, and both see the rest; one of them leads.",
			nodes: 5, script: cut(network.Partial(5, 0, 1), lengthy),
			parts: []part{
				{on: quorum, expected: calmly, judge: undisturbed},
				plain(raft, "the two depose each other for as long as it lasts", toAndFro(0, 1)),
			},
		},
		{
			name: "quorum-loss", story: "All lose all links but those to one hub, which alone sees a majority, and does not lead.",
			nodes: 5, script: cut(network.Hub(5, 2), lengthy),
			parts: []part{
				{on: quorum, expected: "the leader gives up, and the hub is elected", judge: hubLeads},
				plain(preVote, "deadlock: the leader reaches one of the other four, and leads on", func(s *trial) { s.fenced(); s.steady(s.fault, s.heal) }),
			},
		},
		{
			name: "constrained", story: "The leader is cut off, the others see one hub only, and the hub's position is behind those of all others.",
			nodes: 5, script: constrained,
			parts: []part{
				{on: "quorum-prefer", params: url.Values{"position": {"prefer"}}, env: positioned,
					expected: "where positions are preferred, the hub is elected", judge: hubLeadsLate},
				{on: "quorum-require", params: url.Values{"position": {"require"}}, env: positioned,
					expected: "where positions are required, no node is elected before the healing", judge: noneLeads},
			},
		},
		{
			name: "chain", story: "Of three in a row the outer two cannot see each other; one of them leads.",
			nodes: 3, short: true, script: cut(network.Partial(3, 0, 2), lengthy),
			parts: []part{
				{on: quorum, expected: calmly, judge: undisturbed},
				plain(raft, "the outer two depose each other for as long as it lasts: the one in the middle always hears one of them, and never stands", toAndFro(0, 2)),
			},
		},
		{
			name: "cloudflare-2020", story: "Three see each other; a fourth sees the second only, and a fifth the third.",
			nodes: 5, script: cut(network.Cloudflare2020(), lengthy),
			parts: []part{
				{on: quorum, expected: calmly, judge: undisturbed},
				plain(raft, "never stable: some node does not hear the leader, and deposes it", turmoil),
			},
		},
		{
			name: "deaf-leader", story: "The leader is heard by all, and hears no other.",
			nodes: 5, short: true, script: cut(network.Deaf(5, 0), lengthy),
			parts: []part{
				{on: quorum, net: proxies, expected: "the lease of the deaf one is over before another one's begins", judge: handedOn},
				// For the kernel's TCP, a node that hears no acknowledgement is soon mute, too.
				{on: "quorum-packets", net: namespaces, expected: "the same where packets are dropped, so that the deaf one falls mute", judge: handedOn},
				{on: raft, protocol: raft, net: proxies, expected: "no other notices: it leads on, and hears none",
					judge: func(s *trial) { s.fenced(); s.steady(s.fault, s.heal) }},
			},
		},
		{
			name: "mute-leader", story: "The leader hears all, and is heard by none.",
			nodes: 5, script: cut(network.Mute(5, 0), lengthy),
			parts: []part{{on: quorum, expected: "the lease of the mute one is over before another one's begins", judge: handedOn}},
		},
		{
			name: "flapping-link", story: "The link between the leader and a follower comes and goes: cut for a little more than a timeout, and there for as long.",
			nodes: 3, script: flapping,
			parts: []part{{on: quorum, expected: calmly, judge: undisturbed}},
		},
	}
}

// flapping cuts the link between 0 and 1 and heals it, three times.
func flapping(s *trial) {
	s.begins()
	for range 3 {
		s.set(network.Partial(3, 0, 1))
		s.hold(promise * 6 / 5)
		s.healed()
		s.hold(promise * 6 / 5)
	}
}

// hubLeads expects role 2 to lead within a short time, and to lead on.
func hubLeads(s *trial) {
	s.safe()
	_, next := s.oneAfter(s.fault, 0, soon)
	s.want(s.role(next.node) == 2, "%s leads; want the hub, role 2", s.name(next.node))
	s.noneBut("the hub, role 2", func(role int) bool { return role == 2 })
}

// TestScenarios runs the catalogue: each scenario with real processes, networks, disks and signals.
// A single one: -run TestScenarios/rejoin.
func TestScenarios(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	programs := builder(t)
	for _, sc := range catalogue() {
		t.Run(sc.name, func(t *testing.T) {
			if !sc.short {
				long.Full(t, "CI has others of its kind")
			}
			t.Parallel()
			t.Log(sc.story)
			for _, p := range sc.parts {
				t.Run(p.on, func(t *testing.T) {
					t.Parallel()
					t.Logf("expected: %s", p.expected)
					var tags []string
					if sc.clocks {
						tags = []string{"chaos"}
					}
					perform(t, &sc, &p, set{programs: programs(tags...)})
				})
			}
		})
	}
}

// perform runs a part, and repeats it if its result may differ from the expectation because the
// computer had stood still. That excuses only delays. A broken promise, or any other deviation,
// fails at once.
func perform(t *testing.T, sc *scenario, p *part, with set) {
	t.Helper()
	const tries = 3
	performed.begins()
	for try := 1; ; try++ {
		s := play(t, sc, p, with)
		for _, v := range s.violated {
			t.Errorf("violation: %s", v)
		}
		if len(s.missed) == 0 || t.Failed() {
			return
		}
		report := t.Logf
		if !s.strain.excuses() {
			report = t.Errorf
		}
		for _, m := range s.missed {
			report("%s", m)
		}
		switch {
		case t.Failed():
			return
		case try == tries:
			performed.skips(t.Name())
			t.Skipf("SKIPPED, and so no time was judged: in each of %d plays this machine was short of processors", tries)
		}
		t.Log("the machine was short of processors, so once more")
	}
}

// builder returns a function that builds the programs with given tags, each set once.
func builder(t *testing.T) func(tags ...string) cluster.Programs {
	dir := t.TempDir()
	var mu sync.Mutex
	made := map[string]cluster.Programs{}
	return func(tags ...string) cluster.Programs {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		key := strings.Join(tags, "+")
		if p, ok := made[key]; ok {
			return p
		}
		p, err := cluster.Build(t.Context(), filepath.Join(dir, "programs-"+key), tags...)
		if err != nil {
			t.Fatal(err)
		}
		made[key] = p
		return p
	}
}

//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/register"
	"github.com/electd/elect/test/chaos/skew"
	"github.com/electd/elect/test/chaos/storm"
)

const (
	// promise and beat are the times of elections with a lease: the profile lan, a little shorter.
	promise = 800 * time.Millisecond
	beat    = promise / 10

	// soon is within which time another node leads after a leader has fallen silent, while a
	// majority is connected. The protocol needs a promise and some slots (elect run prints how much
	// at its start); the rest is for the computer.
	soon = 3 * promise

	// patience is how long the harness waits for what must happen at some time.
	patience = 30 * time.Second
)

// trial is one run of a scenario: an election on a network of its own, with a ledger and a
// register, and the history of its faults.
//
// A script uses roles: 0 is the leader at the beginning of the faults, 1 and up the others, by
// number. It belongs to one goroutine.
type trial struct {
	t        *testing.T
	ctx      context.Context
	scenario *scenario
	part     *part
	programs cluster.Programs
	mutant   string // the rule that the nodes break; "": none
	dir      string

	size    int             // the number of nodes, spare ones included
	net     network.Network // nil in a file election
	cluster *cluster.Cluster
	ledger  *lives.Ledger
	history *judge.History
	disks   []disk.Disk
	aside   []func(from string, lost bool) error // by disk: puts the flight record aside
	clocks  []*skew.Clock
	pulse   *pulse

	roles  []int // role to node
	leader cluster.Leader
	links  network.Links // at present
	sick   map[int]bool  // nodes that are not well
	frozen map[int]bool  // nodes that were unwell at some time

	// When the faults began, when the links were last healed, and when the run ended, as readings
	// of [lives.Now].
	fault, heal, end int64
	mark             int64 // a further time, shared by a script and its judgement

	told       map[told]int64 // the events in the nodes' history, with their times
	stranded   bool           // a voter was in a higher term without a winner
	termsAtEnd uint64         // the leader's term in the end

	tenures []tenure
	report  judge.Report
	ruin    ruin   // why the script could not go on; "": it was completed
	strain  strain // how short of processors the computer was

	violated []string // broken promises
	missed   []string // expected events that did not happen

	cleanups []func() error // cleanups, run in reverse order
}

// set is the input of a run: the programs, and the mutant, if any.
type set struct {
	programs cluster.Programs
	mutant   string
}

// play runs a part of a scenario on a new trial, and returns the trial as it was left. In any case
// no process is left, and no network.
func play(t *testing.T, sc *scenario, p *part, with set) *trial {
	t.Helper()
	s := &trial{t: t, ctx: t.Context(), scenario: sc, part: p, programs: with.programs, mutant: with.mutant, dir: t.TempDir(), sick: map[int]bool{}, frozen: map[int]bool{}}
	defer s.cleanUp()
	s.build()
	s.execute()
	s.judge()
	return s
}

// execute runs the script. If the script cannot go on, the run ends and is judged.
func (s *trial) execute() {
	s.t.Helper()
	s.pulse = newPulse()
	s.after(func() error { s.pulse.stop(); return nil })
	defer func() {
		switch trouble := recover().(type) {
		case nil:
		case ruin:
			s.end, s.ruin = s.ledger.Now(), trouble
		default:
			panic(trouble)
		}
	}()
	s.opening()
	if s.part.script != nil {
		s.part.script(s)
	} else {
		s.scenario.script(s)
	}
	s.ending()
}

// ruin is why a script cannot go on.
type ruin string

// after registers a cleanup: the last registered runs first.
func (s *trial) after(do func() error) { s.cleanups = append(s.cleanups, do) }

// cleanUp runs the cleanups.
func (s *trial) cleanUp() {
	s.t.Helper()
	for _, do := range slices.Backward(s.cleanups) {
		if err := do(); err != nil {
			s.t.Errorf("at the end: %v", err)
		}
	}
}

// build prepares everything before the nodes start.
func (s *trial) build() {
	s.t.Helper()
	sc, p := s.scenario, s.part
	s.size = sc.nodes + sc.spare
	if sc.on != nowhere {
		s.net = newNetwork(s.t, s.dir, s.size, cmp.Or(p.net, sc.on))
		s.after(s.net.Close)
	}
	server, err := register.Serve(filepath.Join(s.dir, "register.sock"))
	s.does(err)
	s.after(server.Close)
	s.ledger, err = lives.Open(filepath.Join(s.dir, "ledger"))
	s.does(err)
	s.after(s.ledger.Close)
	s.history, err = judge.NewHistory(s.dir)
	s.does(err)
	s.after(s.history.Close)
	cfg := cluster.Config{
		Dir: s.dir, Network: s.net, Programs: s.programs, Voters: sc.nodes, Size: s.size,
		Kind: func(int) cluster.Kind { return p.kind }, Promise: promise, Heartbeat: beat, Params: url.Values{},
		Env: func(i int) []string { return s.env(i) }, Observe: s.history.Add,
	}
	if sc.on == nowhere {
		cfg.Election, cfg.Promise, cfg.Heartbeat = cluster.File, 0, 0
	}
	if p.protocol != "" {
		cfg.Protocol, cfg.Promise, cfg.Heartbeat = p.protocol, classicPromise, classicBeat
	}
	maps.Copy(cfg.Params, p.params)
	if sc.disks != nil {
		for i := range s.size {
			// Where the judge looks for flight records.
			dir := filepath.Join(s.dir, "data", fmt.Sprintf("n%d", i+1))
			s.does(os.MkdirAll(filepath.Dir(dir), 0o755))
			d, err := sc.disks(dir)
			if err != nil {
				unable(s.t, err, disk.ErrUnable)
			}
			s.after(d.Close)
			s.disks = append(s.disks, d)
			s.aside = append(s.aside, storm.CopyFlight(s.dir, i))
		}
		cfg.Disk = func(i int) disk.Disk { return s.disks[i] }
	}
	if sc.clocks {
		for i := range s.size {
			c, err := skew.New(filepath.Join(s.dir, fmt.Sprintf("clock%d", i+1)))
			s.does(err)
			s.after(c.Close)
			s.clocks = append(s.clocks, c)
		}
		cfg.Clock = func(i int) *skew.Clock { return s.clocks[i] }
	}
	s.cluster, err = cluster.New(cfg)
	s.does(err)
	s.after(s.cluster.Close)
}

func (s *trial) env(node int) []string {
	var env []string
	if s.mutant != "" {
		env = append(env, "ELECT_MUTANT="+s.mutant)
	}
	if s.part.env != nil {
		env = append(env, s.part.env(s, node)...)
	}
	return env
}

// newNetwork makes the network that a scenario needs. A computer that cannot have it does not fail
// the test, except in CI.
func newNetwork(t *testing.T, dir string, n int, on medium) network.Network {
	t.Helper()
	made := network.NewNamespaces
	if on == proxies {
		made = network.NewProxies
	}
	net, err := made(dir, n)
	if errors.Is(err, network.ErrUnable) && on == anywhere {
		t.Logf("no network namespaces, so on proxies: %v", err)
		net, err = network.NewProxies(dir, n)
	}
	if err != nil {
		unable(t, err, network.ErrUnable)
	}
	return net
}

// unable ends a test for an error: it is skipped where this computer lacks something, but fails in
// CI, where nothing may be missing.
func unable(t *testing.T, err, kind error) {
	t.Helper()
	if errors.Is(err, kind) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, and so nothing was tested: %v", err)
	}
	t.Fatal(err)
}

// opening starts the voters, waits until one leads, and assigns the roles.
func (s *trial) opening() {
	s.t.Helper()
	n := s.scenario.nodes
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	run := judge.Event{Kind: judge.Run, Node: judge.NoNode, Nodes: s.size, Voters: all, Wall: time.Now(), Text: s.t.Name(), Material: []string{judge.Writes}}
	switch {
	case s.net == nil:
		run.Majority = 1
	case s.part.protocol != "": // its leaders have no lease
		run.Material = append(run.Material, judge.Flights)
	default:
		run.Material = append(run.Material, judge.Flights, judge.Leases)
	}
	s.history.Add(run)
	for i := range s.size {
		s.ticks(i, 1)
	}
	s.set(nil)
	for i := range s.size {
		s.locate(i, 5) // for nodes that ask for their position
	}
	for i := range n {
		if err := s.cluster.Start(i); err != nil {
			s.t.Fatal(err)
		}
	}
	s.assign()
}

// ticks tells the judge how the clock of a node runs from now on.
func (s *trial) ticks(node int, rate float64) {
	at, ahead := s.ledger.Now(), skew.Offsets() // a node is in this process's time namespace
	if node < len(s.clocks) {
		bent, _ := s.clocks[node].Ahead()
		ahead += bent
	}
	s.history.Add(judge.Event{At: at, Kind: judge.Clock, Node: node, Ahead: ahead, Rate: rate})
}

// lends puts the flight record of a node aside, before its disk loses something.
func (s *trial) lends(node int) {
	s.t.Helper()
	s.does(s.aside[node](s.disks[node].Path(), true))
}

// assign waits until all is calm, and assigns the roles again: 0 to the leader, and the others by
// number. Spare nodes come last.
func (s *trial) assign() {
	s.t.Helper()
	s.leader = s.calm()
	s.roles = []int{s.leader.Node}
	for i := range s.size {
		if i != s.leader.Node {
			s.roles = append(s.roles, i)
		}
	}
}

// patiently is a context for what must happen at some time.
func (s *trial) patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, patience)
}

// calm waits until all nodes are connected and follow one leader.
func (s *trial) calm() cluster.Leader {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	l, err := s.cluster.Calm(ctx)
	if err != nil {
		s.giveUp("no calm within %v: %v", patience, err)
	}
	return l
}

// giveUp ends the run, with the output of the nodes.
func (s *trial) giveUp(format string, args ...any) {
	s.t.Helper()
	panic(ruin(fmt.Sprintf(format, args...)))
}

// lastWords are the last lines of the nodes' output.
func (s *trial) lastWords() {
	s.t.Helper()
	for i := range min(s.size, 9) {
		if text, err := os.ReadFile(s.cluster.Log(i)); err == nil {
			s.t.Logf("%s:\n%s", s.cluster.ID(i), text[max(0, len(text)-3000):])
		}
	}
}

// want records an expectation that was not met.
func (s *trial) want(ok bool, format string, args ...any) bool {
	if !ok {
		s.missed = append(s.missed, fmt.Sprintf(format, args...))
	}
	return ok
}

// say records a result.
func (s *trial) say(format string, args ...any) {
	s.t.Helper()
	s.t.Logf(format, args...)
	s.history.Add(judge.Event{Kind: judge.Note, Node: judge.NoNode, Text: fmt.Sprintf(format, args...)})
}

// begins marks the beginning of the faults.
func (s *trial) begins() { s.fault = s.ledger.Now() }

// set sets the links from now on. The roles are the present ones.
func (s *trial) set(shape network.Links) {
	s.t.Helper()
	links := network.Links{}
	for way, link := range shape {
		links[network.Way{From: s.roles[way.From], To: s.roles[way.To]}] = link
	}
	s.links = links
	if s.net == nil {
		return
	}
	s.history.Add(judge.Event{Kind: judge.Links, Node: judge.NoNode, Links: links})
	if err := s.net.Set(links); err != nil {
		s.t.Fatal(err)
	}
}

// healed makes all links perfect.
func (s *trial) healed() {
	s.t.Helper()
	if len(s.links) > 0 || s.heal == 0 {
		s.set(nil)
		s.heal = s.ledger.Now()
	}
}

// reset resets the connections between two roles.
func (s *trial) reset(a, b int) {
	s.t.Helper()
	if err := s.net.Reset(s.roles[a], s.roles[b]); err != nil {
		s.t.Fatal(err)
	}
}

// hold waits for a time.
func (s *trial) hold(d time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.t.Fatal(s.ctx.Err())
	}
}

// during cuts the links for a while: the fault of most partitions.
func (s *trial) during(shape network.Links, d time.Duration) {
	s.t.Helper()
	s.begins()
	s.set(shape)
	s.hold(d)
	s.healed()
}

// does checks that an operation on the cluster succeeded.
func (s *trial) does(err error) {
	s.t.Helper()
	if errors.Is(err, cluster.ErrNone) {
		s.giveUp("%v", err) // it has ended meanwhile, so the run differs from its script
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// kill kills a part of the node in a role.
func (s *trial) kill(role int, part cluster.Part) {
	s.t.Helper()
	s.does(s.cluster.Kill(s.roles[role], part))
}

// freeze stops a part of the node in a role, and thaw resumes it.
func (s *trial) freeze(role int, part cluster.Part) {
	s.t.Helper()
	s.ails(role, true)
	s.does(s.cluster.Stop(s.roles[role], part))
}

func (s *trial) thaw(role int, part cluster.Part) {
	s.t.Helper()
	s.does(s.cluster.Cont(s.roles[role], part))
	s.ails(role, false)
}

// ails records whether the node in a role is well, to explain a time without a leader.
func (s *trial) ails(role int, sick bool) {
	s.sick[s.roles[role]] = sick
	s.frozen[s.roles[role]] = true
	healthy := make([]bool, s.size)
	for i := range healthy {
		healthy[i] = !s.sick[i]
	}
	s.history.Add(judge.Event{Kind: judge.Health, Node: judge.NoNode, Healthy: healthy})
}

// down kills all processes of the node in a role, at once, and keeps it down until up.
func (s *trial) down(role int) {
	s.t.Helper()
	s.cluster.Hold(s.roles[role])
	s.kill(role, cluster.Family)
}

func (s *trial) up(role int) {
	s.t.Helper()
	s.does(s.cluster.Release(s.roles[role]))
}

// next waits until another node leads, checks that this takes no longer than it may, counted from
// since, and returns it. From then on it is the leader.
func (s *trial) next(since int64, within time.Duration) cluster.Leader {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	l, err := s.cluster.After(ctx, s.leader.Token)
	if err != nil {
		s.giveUp("no node led after %s (token %d) within %v: %v", s.cluster.ID(s.leader.Node), s.leader.Token, patience, err)
	}
	took := time.Duration(s.ledger.Now() - since)
	s.want(took <= within, "%s led after %v; want %v at most", s.cluster.ID(l.Node), shown(took), within)
	s.leader = l
	return l
}

// role is the role of a node.
func (s *trial) role(node int) int { return slices.Index(s.roles, node) }

// operator runs the elect command from outside; it must succeed.
func (s *trial) operator(args ...string) []byte {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	out, err := s.cluster.Operator(ctx, args...)
	if err != nil {
		s.giveUp("elect %v: %v: %s", args, err, out)
	}
	return out
}

// members asks all nodes for their state.
func (s *trial) members() *cluster.Members {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	m, err := s.cluster.Members(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// until repeats a check until it is true, for at most d.
func (s *trial) until(d time.Duration, so func() bool) bool {
	s.t.Helper()
	for late := time.Now().Add(d); !so(); s.hold(20 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// ending waits until there is a leader again, whatever was done, and ends the run.
func (s *trial) ending() {
	s.t.Helper()
	s.healed()
	l := s.calm()
	s.end = s.ledger.Now()
	if s.part.protocol == "" && s.net != nil {
		s.told = s.memories()
	}
	s.history.Add(judge.Event{Kind: judge.Final, Node: l.Node, Token: l.Token})
	s.history.Add(judge.Event{Kind: judge.Over, Node: judge.NoNode})
}

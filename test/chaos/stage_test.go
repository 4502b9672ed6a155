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
	// promise and beat are the times of elections with a lease: the profile lan, a
	// little quicker.
	promise = 800 * time.Millisecond
	beat    = promise / 10

	// soon is within which time another leads after a leader has fallen silent, and
	// a majority can talk to each other. The protocol needs a promise and some slots
	// (elect run says how much at its start); the rest is for the machine.
	soon = 3 * promise

	// patience is how long the harness waits for what has to come some day.
	patience = 30 * time.Second
)

// stage is where one scenario is played: an election on a network of its own, with
// a ledger and a register, and the history of what befalls it.
//
// A script speaks of roles: 0 is the node that leads when the faults begin, 1 and
// up the others, by number. It belongs to one goroutine.
type stage struct {
	t        *testing.T
	ctx      context.Context
	scenario *scenario
	part     *part
	programs cluster.Programs
	mutant   string // the rule that the nodes break; "": none
	dir      string

	size    int             // how many nodes there are, spare ones included
	net     network.Network // nil of an election in a file
	cluster *cluster.Cluster
	ledger  *lives.Ledger
	history *judge.History
	disks   []disk.Disk
	aside   []func(from string, lost bool) error // by disk: puts the flight record aside
	clocks  []*skew.Clock
	pulse   *pulse

	cast   []int // role to node
	leader cluster.Leader
	links  network.Links // as they are now
	sick   map[int]bool  // nodes that are not well
	frozen map[int]bool  // nodes that were not well at some time

	// When the faults began, when the links were healed last, and when it was over:
	// as [lives.Now] reads.
	fault, heal, end int64
	mark             int64 // a further time, which a script and its judgement share

	told       map[told]int64 // what the nodes remember, and when it was
	stranded   bool           // a voter came to a term that nobody had won
	termsAtEnd uint64         // the leader's term in the end

	tenures []tenure
	report  judge.Report
	ruin    ruin   // why the script could not go on; "": it came to its end
	strain  strain // how much the machine was short of processors

	violated []string // promises that were broken
	missed   []string // what was expected and did not come

	debris []func() error // what is to be cleared away, the last first
}

// set is what plays are given: the programs, and the mutant, if there is one.
type set struct {
	programs cluster.Programs
	mutant   string
}

// play plays a part of a scenario on a fresh stage, and returns the stage as it was
// left. Whatever becomes of it, no process is left, and no network.
func play(t *testing.T, sc *scenario, p *part, with set) *stage {
	t.Helper()
	s := &stage{t: t, ctx: t.Context(), scenario: sc, part: p, programs: with.programs, mutant: with.mutant, dir: t.TempDir(), sick: map[int]bool{}, frozen: map[int]bool{}}
	defer s.strike()
	s.build()
	s.enact()
	s.judge()
	return s
}

// enact is the play itself. A script that cannot go on ends it, and the judge has
// the word.
func (s *stage) enact() {
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

// after has something done when the stage is struck: what was made last goes first.
func (s *stage) after(do func() error) { s.debris = append(s.debris, do) }

// strike takes the stage down.
func (s *stage) strike() {
	s.t.Helper()
	for _, do := range slices.Backward(s.debris) {
		if err := do(); err != nil {
			s.t.Errorf("at the end: %v", err)
		}
	}
}

// build sets the stage: what there is before any node runs.
func (s *stage) build() {
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
			s.aside = append(s.aside, storm.Aside(s.dir, i))
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

func (s *stage) env(node int) []string {
	var env []string
	if s.mutant != "" {
		env = append(env, "ELECT_MUTANT="+s.mutant)
	}
	if s.part.env != nil {
		env = append(env, s.part.env(s, node)...)
	}
	return env
}

// newNetwork makes the network that a scenario is for. A machine that cannot is
// no reason to fail, but in CI.
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

// unable ends a test for an error: it is skipped where this machine cannot do what
// it takes, but not in CI, where it must.
func unable(t *testing.T, err, kind error) {
	t.Helper()
	if errors.Is(err, kind) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, and so nothing was tested: %v", err)
	}
	t.Fatal(err)
}

// opening starts the voters, waits until one leads, and casts the roles.
func (s *stage) opening() {
	s.t.Helper()
	n := s.scenario.nodes
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	run := judge.Event{Kind: judge.Run, Node: judge.Nobody, Nodes: s.size, Voters: all, Wall: time.Now(), Text: s.t.Name(), Material: []string{judge.Writes}}
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
		s.locate(i, 5) // for those who ask where they are
	}
	for i := range n {
		if err := s.cluster.Start(i); err != nil {
			s.t.Fatal(err)
		}
	}
	s.recast()
}

// ticks tells the judge how the clock of a node runs from now on.
func (s *stage) ticks(node int, rate float64) {
	at, ahead := s.ledger.Now(), skew.Offsets() // a node is in our time namespace
	if node < len(s.clocks) {
		bent, _ := s.clocks[node].Ahead()
		ahead += bent
	}
	s.history.Add(judge.Event{At: at, Kind: judge.Clock, Node: node, Ahead: ahead, Rate: rate})
}

// lends puts the flight record of a node aside, whose disk is about to lose something.
func (s *stage) lends(node int) {
	s.t.Helper()
	s.does(s.aside[node](s.disks[node].Path(), true))
}

// recast waits until all is calm, and gives the parts to whom they fit now: 0 to
// the leader, and the others by number. Nodes that are spare come last.
func (s *stage) recast() {
	s.t.Helper()
	s.leader = s.calm()
	s.cast = []int{s.leader.Node}
	for i := range s.size {
		if i != s.leader.Node {
			s.cast = append(s.cast, i)
		}
	}
}

// patiently is for what has to come some day.
func (s *stage) patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, patience)
}

// calm waits until all nodes are connected and follow one leader.
func (s *stage) calm() cluster.Leader {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	l, err := s.cluster.Calm(ctx)
	if err != nil {
		s.lament("no calm within %v: %v", patience, err)
	}
	return l
}

// lament ends the play, with what the nodes have said.
func (s *stage) lament(format string, args ...any) {
	s.t.Helper()
	panic(ruin(fmt.Sprintf(format, args...)))
}

// lastWords are those of the nodes.
func (s *stage) lastWords() {
	s.t.Helper()
	for i := range min(s.size, 9) {
		if text, err := os.ReadFile(s.cluster.Log(i)); err == nil {
			s.t.Logf("%s:\n%s", s.cluster.ID(i), text[max(0, len(text)-3000):])
		}
	}
}

// want notes what was expected and did not come.
func (s *stage) want(ok bool, format string, args ...any) bool {
	if !ok {
		s.missed = append(s.missed, fmt.Sprintf(format, args...))
	}
	return ok
}

// say notes for people what came of it.
func (s *stage) say(format string, args ...any) {
	s.t.Helper()
	s.t.Logf(format, args...)
	s.history.Add(judge.Event{Kind: judge.Note, Node: judge.Nobody, Text: fmt.Sprintf(format, args...)})
}

// begins says that from now on the faults count.
func (s *stage) begins() { s.fault = s.ledger.Now() }

// set has the links be so from now on. The roles are those of the moment.
func (s *stage) set(shape network.Links) {
	s.t.Helper()
	links := network.Links{}
	for way, link := range shape {
		links[network.Way{From: s.cast[way.From], To: s.cast[way.To]}] = link
	}
	s.links = links
	if s.net == nil {
		return
	}
	s.history.Add(judge.Event{Kind: judge.Links, Node: judge.Nobody, Links: links})
	if err := s.net.Set(links); err != nil {
		s.t.Fatal(err)
	}
}

// healed makes all links perfect.
func (s *stage) healed() {
	s.t.Helper()
	if len(s.links) > 0 || s.heal == 0 {
		s.set(nil)
		s.heal = s.ledger.Now()
	}
}

// reset resets the connections between two roles.
func (s *stage) reset(a, b int) {
	s.t.Helper()
	if err := s.net.Reset(s.cast[a], s.cast[b]); err != nil {
		s.t.Fatal(err)
	}
}

// hold lets things be as they are for so long.
func (s *stage) hold(d time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.t.Fatal(s.ctx.Err())
	}
}

// during cuts the links for a while: the fault of most partitions.
func (s *stage) during(shape network.Links, d time.Duration) {
	s.t.Helper()
	s.begins()
	s.set(shape)
	s.hold(d)
	s.healed()
}

// does carries something out on the cluster, and must succeed.
func (s *stage) does(err error) {
	s.t.Helper()
	if errors.Is(err, cluster.ErrNone) {
		s.lament("%v", err) // it has ended meanwhile, and so the play has another course
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// kill kills a part of the node in a role.
func (s *stage) kill(role int, part cluster.Part) {
	s.t.Helper()
	s.does(s.cluster.Kill(s.cast[role], part))
}

// freeze stops a part of the node in a role, and thaw has it go on.
func (s *stage) freeze(role int, part cluster.Part) {
	s.t.Helper()
	s.ails(role, true)
	s.does(s.cluster.Stop(s.cast[role], part))
}

func (s *stage) thaw(role int, part cluster.Part) {
	s.t.Helper()
	s.does(s.cluster.Cont(s.cast[role], part))
	s.ails(role, false)
}

// ails says whether the node in a role is well, for who asks later why nobody led.
func (s *stage) ails(role int, sick bool) {
	s.sick[s.cast[role]] = sick
	s.frozen[s.cast[role]] = true
	healthy := make([]bool, s.size)
	for i := range healthy {
		healthy[i] = !s.sick[i]
	}
	s.history.Add(judge.Event{Kind: judge.Health, Node: judge.Nobody, Healthy: healthy})
}

// down kills all processes of the node in a role, at once, and keeps it down until
// up.
func (s *stage) down(role int) {
	s.t.Helper()
	s.cluster.Hold(s.cast[role])
	s.kill(role, cluster.Family)
}

func (s *stage) up(role int) {
	s.t.Helper()
	s.does(s.cluster.Release(s.cast[role]))
}

// next waits until another one leads than the one that did, notes it if that takes
// longer than it may, counted from since, and returns it. From then on it is the
// leader.
func (s *stage) next(since int64, within time.Duration) cluster.Leader {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	l, err := s.cluster.After(ctx, s.leader.Token)
	if err != nil {
		s.lament("nobody led after %s (token %d) within %v: %v", s.cluster.ID(s.leader.Node), s.leader.Token, patience, err)
	}
	took := time.Duration(s.ledger.Now() - since)
	s.want(took <= within, "%s led after %v; want %v at most", s.cluster.ID(l.Node), shown(took), within)
	s.leader = l
	return l
}

// role is that of a node.
func (s *stage) role(node int) int { return slices.Index(s.cast, node) }

// operator runs the elect command from outside, and must succeed.
func (s *stage) operator(args ...string) []byte {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	out, err := s.cluster.Operator(ctx, args...)
	if err != nil {
		s.lament("elect %v: %v: %s", args, err, out)
	}
	return out
}

// members asks all nodes how they are.
func (s *stage) members() *cluster.Members {
	s.t.Helper()
	ctx, cancel := s.patiently()
	defer cancel()
	m, err := s.cluster.Members(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// until asks again and again whether something is so, for at most d.
func (s *stage) until(d time.Duration, so func() bool) bool {
	s.t.Helper()
	for late := time.Now().Add(d); !so(); s.hold(20 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// ending waits until somebody leads again, whatever was done, and ends the play.
func (s *stage) ending() {
	s.t.Helper()
	s.healed()
	l := s.calm()
	s.end = s.ledger.Now()
	if s.part.protocol == "" && s.net != nil {
		s.told = s.memories()
	}
	s.history.Add(judge.Event{Kind: judge.Final, Node: l.Node, Token: l.Token})
	s.history.Add(judge.Event{Kind: judge.Over, Node: judge.Nobody})
}

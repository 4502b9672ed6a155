//go:build linux

package upgrade

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/register"
)

// nodes is an election of nodes of two versions, on loopback. It belongs to one goroutine.
type nodes struct {
	t       *testing.T
	dir     string
	both    [2]cluster.Programs // this version, and the next one
	net     network.Network
	cluster *cluster.Cluster
	history *judge.History
	ledger  *lives.Ledger

	next    []bool // by node: it is of the next version
	voters  int    // how many nodes, from 0, are in the election
	changes int    // expected changes of the leader
	leader  cluster.Leader
	terms   []uint64  // by node: the greatest that it has reported
	started time.Time // the latest start of a node
	pulse   *pulse
	excused bool // once the machine was stopped
}

// didNotRun is how nodes report that they ran late.
var didNotRun = regexp.MustCompile(`did not run for a while.* late[:=] ?([0-9.a-zµ]+)`)

// patience is how long the test waits for what must happen at some time.
const patience = time.Minute

func newNodes(t *testing.T, kinds []cluster.Kind) *nodes {
	t.Helper()
	n := len(kinds)
	f := &nodes{t: t, dir: t.TempDir(), next: make([]bool, n), voters: n, terms: make([]uint64, n)}
	for i, tags := range [][]string{nil, {"chaosnext"}} {
		var err error
		f.both[i], err = cluster.Build(t.Context(), filepath.Join(f.dir, "programs", strings.Join(append(tags, "v"), "-")), tags...)
		f.must(err)
	}
	var err error
	f.net, err = network.NewProxies(f.dir, n)
	f.must(err)
	f.finally(f.net.Close)
	server, err := register.Serve(filepath.Join(f.dir, register.Socket))
	f.must(err)
	f.finally(server.Close)
	f.ledger, err = lives.Open(filepath.Join(f.dir, judge.LedgerFile))
	f.must(err)
	f.finally(f.ledger.Close)
	f.history, err = judge.NewHistory(f.dir)
	f.must(err)
	f.finally(f.history.Close)
	f.cluster, err = cluster.New(cluster.Config{
		Dir: f.dir, Network: f.net, Programs: f.both[0], Next: &f.both[1], Voters: 3, Size: n,
		Kind: func(i int) cluster.Kind { return kinds[i] }, Promise: promise, Heartbeat: heartbeat, Observe: f.history.Add,
	})
	f.must(err)
	f.finally(f.cluster.Close)
	f.t.Cleanup(f.lament)
	f.pulse = newPulse()
	f.finally(f.pulse.close)
	f.started = time.Now()
	f.history.Add(judge.Event{Kind: judge.Run, Node: judge.NoNode, Nodes: n, Voters: []int{0, 1, 2}, Wall: time.Now(), Text: t.Name()})
	for i := range 3 {
		f.must(f.cluster.Start(i))
	}
	return f
}

func (f *nodes) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *nodes) finally(do func() error) {
	f.t.Cleanup(func() {
		if err := do(); err != nil {
			f.t.Errorf("at the end: %v", err)
		}
	})
}

// late is an error of the test, unless the machine, or a node, was stopped meanwhile for longer
// than a leader may be.
func (f *nodes) late(format string, args ...any) {
	f.t.Helper()
	const hitch = promise / 8
	if stood := max(f.pulse.longest(), f.waited()); stood > hitch {
		f.t.Logf("the machine has stood still for %v, so this does not count, nor any change of leadership from here on", stood)
		f.excused = true
	}
	if f.excused {
		f.t.Logf(format, args...)
		return
	}
	f.t.Errorf(format, args...)
}

// waited is the longest time for which a node got no processor, as the nodes report it.
func (f *nodes) waited() (longest time.Duration) {
	for i := range f.next {
		text, err := os.ReadFile(f.cluster.Log(i))
		if err != nil {
			continue // it never was
		}
		for _, m := range didNotRun.FindAllSubmatch(text, -1) {
			if d, err := time.ParseDuration(string(m[1])); err == nil {
				longest = max(longest, d)
			}
		}
	}
	return longest
}

// lament logs, if the test has failed, the output of the nodes and the leaders.
func (f *nodes) lament() {
	if !f.t.Failed() {
		return
	}
	for i := range f.next {
		if text, err := os.ReadFile(f.cluster.Log(i)); err == nil {
			f.t.Logf("%s:\n%s", f.cluster.ID(i), text[max(0, len(text)-4000):])
		}
	}
	for _, l := range f.ledger.Lives() {
		f.t.Logf("%s, token %d, %v: %v to %v before the end", f.cluster.ID(int(l.Node)), l.Token, l.Kind, time.Duration(f.ledger.Now()-l.Start), time.Duration(f.ledger.Now()-l.Last))
	}
}

func (f *nodes) patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.t.Context(), patience)
}

// calm waits until all follow one leader, and checks what they report then.
func (f *nodes) calm() cluster.Leader {
	f.t.Helper()
	ctx, cancel := f.patiently()
	defer cancel()
	l, err := f.cluster.Calm(ctx)
	f.must(err)
	if l.Token < f.leader.Token {
		f.t.Errorf("token %d after %d", l.Token, f.leader.Token)
	}
	f.leader = l
	all, err := f.cluster.Members(ctx)
	f.must(err)
	f.hears(all)
	return l
}

// hears checks what the nodes report: terms do not fall, and each connection speaks the newer
// version exactly where both sides know it.
func (f *nodes) hears(all *cluster.Members) {
	f.t.Helper()
	for i, node := range all.Nodes {
		if node == nil {
			continue // not a member, as calm has checked
		}
		if node.Term < f.terms[i] {
			f.t.Errorf("%s is in term %d, and was in %d", f.cluster.ID(i), node.Term, f.terms[i])
		}
		f.terms[i] = node.Term
		for _, peer := range node.Peers {
			j := f.cluster.Index(peer.ID)
			want := uint32(1)
			if f.next[i] && f.next[j] {
				want = 2
			}
			if !peer.Connected || peer.Speaks != want || peer.Error != "" {
				f.t.Errorf("%s with %s: connected %t, in version %d, %q; want version %d", f.cluster.ID(i), peer.ID, peer.Connected, peer.Speaks, peer.Error, want)
			}
		}
	}
}

// settled is calm, a promise after the latest start of a node. A voter that has just started keeps
// what it may have promised before, so until then a winner waits.
func (f *nodes) settled() cluster.Leader {
	f.t.Helper()
	select {
	case <-time.After(time.Until(f.started.Add(promise))):
	case <-f.t.Context().Done():
	}
	return f.calm()
}

// followersFirst are the voters, the leader last.
func (f *nodes) followersFirst() []int {
	l := f.calm()
	order := []int{0, 1, 2}
	slices.SortStableFunc(order, func(a, b int) int {
		switch l.Node {
		case a:
			return 1
		case b:
			return -1
		}
		return 0
	})
	return order
}

// restart ends a node by SIGTERM and starts it again in a version. If it leads, another leads soon;
// otherwise the leader stays.
func (f *nodes) restart(i int, next bool) {
	f.t.Helper()
	before := f.calm()
	if i == before.Node {
		before = f.settled()
	}
	f.must(f.cluster.Upgrade(i, next))
	begun := f.ledger.Now()
	f.must(f.cluster.Down(i))
	if i == before.Node {
		f.changes++
		after := f.after(before)
		if took := time.Duration(f.begin(after) - begun); took > told {
			f.late("another led %v after %s was told to end; want at most %v", took, f.cluster.ID(i), told)
		}
	}
	f.next[i] = next
	f.must(f.cluster.Start(i))
	f.started = time.Now()
	after := f.calm()
	if i != before.Node && after.Token != before.Token {
		f.late("%s follows and was restarted, and %s leads with token %d after %s with %d",
			f.cluster.ID(i), f.cluster.ID(after.Node), after.Token, f.cluster.ID(before.Node), before.Token)
	}
}

// mixed hands leadership over to each node in turn, by the commands of both versions, and checks
// both.
func (f *nodes) mixed() {
	f.t.Helper()
	for version := range f.both {
		for i := range f.voters {
			if f.leader.Node == i {
				continue
			}
			f.changes++
			before := f.leader
			f.ask(version, "transfer", "--to", f.cluster.ID(i))
			if after := f.calm(); after.Node != i || after.Token <= before.Token {
				f.t.Errorf("%s was to lead, and %s does, with token %d after %d", f.cluster.ID(i), f.cluster.ID(after.Node), after.Token, before.Token)
			}
		}
		f.sees(version)
	}
}

// sees checks the election by the command of a version.
func (f *nodes) sees(version int) {
	f.t.Helper()
	var seen struct {
		Leader  string
		Members []struct {
			ID, Kind string
			Status   *struct{ Term uint64 }
		}
	}
	out := f.ask(version, "members", "-o", "json")
	if err := json.Unmarshal(out, &seen); err != nil {
		f.t.Fatalf("elect members: %v: %s", err, out)
	}
	members := 0
	for _, m := range seen.Members {
		if m.Kind == "stranger" {
			continue // in the operator's URL only
		}
		if members++; m.Status == nil {
			f.t.Errorf("elect members of version %d has no answer of %s", version+1, m.ID)
		}
	}
	if seen.Leader != f.cluster.ID(f.leader.Node) || members != f.voters {
		f.t.Errorf("elect members of version %d sees %d members and the leader %q; want %d and %s",
			version+1, members, seen.Leader, f.voters, f.cluster.ID(f.leader.Node))
	}
}

// ask runs the command of a version as an operator, and returns its output. It must succeed in the
// end: a node that has just started may refuse at first.
func (f *nodes) ask(version int, args ...string) []byte {
	f.t.Helper()
	for late := time.After(patience); ; {
		cmd := f.net.Command(network.Operator, f.both[version].Elect, args...)
		cmd.Env = append(cmd.Env, "ELECT_ELECTION="+f.cluster.URL(network.Operator), "ELECT_NAME="+f.cluster.Name())
		var trouble strings.Builder
		cmd.Stderr = &trouble
		out, err := cmd.Output()
		if err == nil {
			return out
		}
		select {
		case <-late:
			f.t.Fatalf("elect %s of version %d: %v: %s", strings.Join(args, " "), version+1, err, trouble.String())
		case <-time.After(heartbeat):
		}
	}
}

// after waits for a leader with a greater token.
func (f *nodes) after(l cluster.Leader) cluster.Leader {
	f.t.Helper()
	ctx, cancel := f.patiently()
	defer cancel()
	next, err := f.cluster.After(ctx, l.Token)
	f.must(err)
	return next
}

// begin is when a leader's work began.
func (f *nodes) begin(l cluster.Leader) int64 {
	f.t.Helper()
	first := int64(0)
	for _, life := range f.ledger.Lives() {
		if life.Token == l.Token && (first == 0 || life.Start < first) {
			first = life.Start
		}
	}
	if first == 0 {
		f.t.Fatalf("the ledger has no life with token %d", l.Token)
	}
	return first
}

// lead has a node lead.
func (f *nodes) lead(i int) cluster.Leader {
	f.t.Helper()
	if l := f.calm(); l.Node == i {
		return l
	}
	f.changes++
	f.ask(0, "transfer", "--to", f.cluster.ID(i))
	l := f.calm()
	if l.Node != i {
		f.t.Fatalf("%s was to lead, and %s does", f.cluster.ID(i), f.cluster.ID(l.Node))
	}
	return l
}

// change adds a node of a version to the voters, or removes it.
func (f *nodes) change(i int, next bool, verb string) {
	f.t.Helper()
	before := f.calm()
	version := 0
	if f.next[before.Node] {
		version = 1
	}
	switch verb {
	case "add":
		f.next[i] = next
		f.must(f.cluster.Upgrade(i, next))
		f.must(f.cluster.Start(i))
		f.ask(version, "member", "add", f.cluster.ID(i)+"@"+f.cluster.Addr(i))
		f.voters++
		f.history.Add(judge.Event{Kind: judge.Voters, Node: judge.NoNode, Voters: []int{0, 1, 2, i}})
	case "remove":
		f.ask(version, "member", "remove", f.cluster.ID(i))
		f.voters--
		f.history.Add(judge.Event{Kind: judge.Voters, Node: judge.NoNode, Voters: []int{0, 1, 2}})
		f.must(f.cluster.Down(i))
		f.must(os.RemoveAll(f.cluster.Data(i)))
		f.history.Add(judge.Event{Kind: judge.Wiped, Node: i})
		f.terms[i] = 0
	}
	if after := f.calm(); after.Token != before.Token {
		f.late("member %s: %s leads with token %d after %s with %d", verb, f.cluster.ID(after.Node), after.Token, f.cluster.ID(before.Node), before.Token)
	}
	f.sees(version)
}

// judge ends the run, and checks it.
func (f *nodes) judge() {
	f.t.Helper()
	l := f.calm()
	f.history.Add(judge.Event{Kind: judge.Final, Node: l.Node, Token: l.Token})
	f.history.Add(judge.Event{Kind: judge.Over, Node: judge.NoNode})
	f.must(f.cluster.Close())
	report, err := judge.Judge(f.dir, judge.Options{})
	f.must(err)
	for _, v := range report.Violations {
		f.t.Errorf("%s: %s", v.Check, v.Text)
	}
	tokens := map[int64]bool{}
	for _, life := range f.ledger.Lives() {
		tokens[life.Token] = true
	}
	if changes := len(tokens) - 1; changes != f.changes {
		f.late("leadership has changed %d times; want %d: once for each leader that was ended or asked to hand over", changes, f.changes)
	}
	refused := 0
	for i := range f.next {
		text, err := os.ReadFile(f.cluster.Log(i))
		if os.IsNotExist(err) {
			continue
		}
		f.must(err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "no version of the protocol in common") || strings.Contains(line, "a letter with the number") {
				f.t.Errorf("%s: %s", f.cluster.ID(i), line)
				refused++
			}
		}
	}
	f.t.Logf("%d elections, %d changes of the leader, %d steps of %d recordings verified, %d refusals", report.Elections, f.changes, report.Steps, report.Segments, refused)
}

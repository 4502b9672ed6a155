//go:build linux

package address

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/proc"
)

// promise is long enough for the hooks of a machine that others use, too, after a loss: they share a fifth of the lease.
const promise = 10 * time.Second

// agents are three of elect agent, whose file is a template: NODE is the id, and PEERS the URL of the election.
type agents struct {
	elects
	file string
}

func newAgents(s *rig, file string) *agents {
	a := &agents{elects: elects{s: s, program: harness.Build(s.t, "../../../cmd/elect")}, file: file}
	script := `grep -q '|-- ` + ipv4 + `$' /proc/net/fib_trie && has=has || has=lacks
echo "$ELECT_TOKEN $ELECT_ID ${1:-$ELECT_HOOK} $has" >>` + a.events() + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "note"), []byte(script), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (a *agents) id(i int) string     { return fmt.Sprint("n", i+1) }
func (a *agents) events() string      { return filepath.Join(a.s.dir, "events") }
func (a *agents) config(i int) string { return filepath.Join(a.s.dir, a.id(i)+".yaml") }

// write writes the file of a machine.
func (a *agents) write(i int, file string) {
	a.s.t.Helper()
	url := a.url() + "&promise=" + promise.String() + "&heartbeat=200ms&data=" + filepath.Join(a.s.dir, "data", a.id(i))
	text := strings.NewReplacer("NODE", a.id(i), "PEERS", url, "DIR", a.s.dir, "IPV4", ipv4+"/24@eth0", "IPV6", ipv6+"/64@eth0").Replace(file)
	if err := os.WriteFile(a.config(i), []byte(text), 0o600); err != nil {
		a.s.t.Fatal(err)
	}
}

func (a *agents) start(i int) {
	a.write(i, a.file)
	a.launch(i, a.s.net.Command(i, a.program, "agent", "--config", a.config(i), "--log-time"))
}

// faults are those of elect run, with the agent's own start.
func (a *agents) faults() []fault {
	all := a.elects.faults()
	for i := range all {
		if all[i].name == "elect is killed" || all[i].name == "both are killed" || all[i].name == "SIGTERM" {
			all[i].undo = a.start
		}
	}
	return all
}

// client asks the agent of a machine.
func (a *agents) client(i int) *electhttp.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(a.s.dir, a.id(i)+".sock"))
	}
	return &electhttp.Client{URL: "http://localhost", HTTP: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// leaders are the leaders of all elections, as the agent of a machine knows them; nil if it does not answer, or does not
// know one.
func (a *agents) leaders(i int) map[string]elect.Leader {
	all, err := a.client(i).Elections(a.s.t.Context())
	if err != nil {
		return nil
	}
	m := map[string]elect.Leader{}
	for _, s := range all {
		if s.Leader == nil || s.Stale {
			return nil
		}
		m[s.Name] = *s.Leader
	}
	return m
}

// leads reports whether the agent with that id leads an election, and is active.
func (a *agents) leads(id, name string) bool {
	for i := range machines {
		if a.id(i) == id {
			ok, err := a.client(i).Leads(a.s.t.Context(), name)
			return ok && err == nil
		}
	}
	return false
}

// event is what a hook or the command has noted.
type event struct {
	token, id, hook string
	has             bool
}

func (a *agents) noted() (all []event) {
	text, _ := os.ReadFile(a.events())
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			a.s.t.Fatalf("a hook has noted %q", line)
		}
		all = append(all, event{f[0], f[1], f[2], f[3] == "has"})
	}
	return all
}

// await waits until an event of that hook is there that was not among the first ones, and returns it.
func (a *agents) await(after int, hook string) (found event) {
	a.s.t.Helper()
	harness.Eventually(a.s.t, "the hook "+hook+" runs", func() bool {
		all := a.noted()
		i := slices.IndexFunc(all[after:], func(e event) bool { return e.hook == hook })
		if i >= 0 {
			found = all[after+i]
		}
		return i >= 0
	})
	return found
}

// order is that of a term. The command and on-elected begin at one time.
var order = map[string]int{"fence": 1, "activate": 2, "command": 3, "on-elected": 3, "cut": 4, "ends": 5, "demote": 6, "on-lost": 7}

// check returns what is wrong with the order of events. dead are the agents that were killed or stopped, whose demote may
// be late.
func check(all []event, dead map[string]bool) (wrong []string) {
	last := map[string]int{} // by token
	for i, e := range all {
		at := order[e.hook]
		if at < last[e.token] {
			wrong = append(wrong, fmt.Sprintf("%+v comes too late", e))
		}
		last[e.token] = max(at, last[e.token])
		if want := at == 3; at < 7 && e.has != want {
			wrong = append(wrong, fmt.Sprintf("%+v; want %v", e, want))
		}
		if at == 7 || dead[e.id+" "+e.token] {
			continue
		}
		for _, other := range all[:i] {
			if len(other.token) > len(e.token) || len(other.token) == len(e.token) && other.token > e.token {
				wrong = append(wrong, fmt.Sprintf("%+v comes after %+v", e, other))
				break
			}
		}
	}
	return wrong
}

const withHooks = `
id: NODE
state: DIR/state-NODE
http: {listen: 'unix:DIR/NODE.sock'}
elections:
  - name: address
    election: 'PEERS'
    address: [IPV4, IPV6]
    command: [sh, -c, 'sh DIR/note command; trap "sh DIR/note ends; exit" TERM; while :; do sleep 0.05; done']
    hooks: {fence: sh DIR/note, activate: sh DIR/note, on-elected: sh DIR/note, cut: sh DIR/note, demote: sh DIR/note, on-lost: sh DIR/note}
`

// TestAgentMoves: whatever happens to the agent whose machine has the address, the steps of its terms are in their order:
// fence, activate, the address, on-elected; and, before another one's, the address away, cut, demote, on-lost.
func TestAgentMoves(t *testing.T) {
	long.Test(t, "it starts three agents in network namespaces, and breaks them for two minutes")
	s := newRig(t)
	a := newAgents(s, withHooks)
	s.up(a)
	dead := map[string]bool{}
	leads := a.await(0, "on-elected")
	for _, f := range a.faults() {
		if !strings.Contains(f.name, *only) {
			continue
		}
		before := len(a.noted())
		if f.dead || f.lease || f.name == "elect is killed" {
			dead[leads.id+" "+leads.token] = f.name != "cut off from the others"
		}
		o := s.disturb(f)
		t.Logf("%s: %+v", f.name, o)
		if !o.taken || o.twice > 0 || o.both > 0 && !f.dead && !f.lease || o.left != 1 {
			t.Errorf("%s: taken over %v, two machines had the address for %v, and sent from it for %v; %d have it now", f.name, o.taken, o.both, o.twice, o.left)
		}
		old := leads
		harness.Eventually(t, "the old leader demotes, also after a restart", func() bool {
			return slices.ContainsFunc(a.noted(), func(e event) bool { return e.hook == "demote" && e.token == old.token })
		})
		leads = a.await(before, "on-elected")
	}
	for _, line := range check(a.noted(), dead) {
		t.Error(line)
	}
	if t.Failed() {
		s.logs()
		t.Logf("%+v", a.noted())
	}
}

const kinds = `
id: NODE
state: DIR/state-NODE
http: {listen: 'unix:DIR/NODE.sock'}
elections:
  - {name: address, election: 'PEERS', address: [IPV4, IPV6]}
  - {name: command, election: 'PEERS', command: [sh, -c, 'trap "" TERM; setsid sh -c "trap \"\" TERM HUP; sleep 1000" & while :; do sleep 1000; done']}
  - name: hooks
    election: 'PEERS'
    hooks: {activate: 'true', on-elected: 'trap "" TERM; while :; do sleep 1000; done', demote: sh DIR/note}
  - {name: neither, election: 'PEERS'}
`

// TestAgentDies: SIGKILL to the agent leaves none of its children, in no kind of election; the others lead long before a
// lease would have ended, and the agent's restart changes no leader.
func TestAgentDies(t *testing.T) {
	long.Test(t, "it starts three agents in network namespaces")
	s := newRig(t)
	a := newAgents(s, kinds)
	s.up(a)
	old := s.holder(-1, harness.Patience)
	if old < 0 {
		s.logs()
		t.Fatal("no machine has the address")
	}
	alone := func(i int) func() bool { // that machine's agent leads all
		return func() bool {
			all := a.leaders(i)
			for _, l := range all {
				if l.ID != a.id(i) {
					return false
				}
			}
			return len(all) == 4
		}
	}
	harness.Eventually(t, "the agent leads all elections", func() bool {
		for name, l := range a.leaders(old) {
			if l.ID == a.id(old) {
				continue
			}
			for i := range machines {
				if l.ID == a.id(i) {
					_ = a.client(i).Transfer(t.Context(), name, l.Token, a.id(old))
				}
			}
		}
		return alone(old)()
	})
	harness.Eventually(t, "all that it starts runs", func() bool { return len(descendants(a.all[old].Pid)) >= 12 })
	family := descendants(a.all[old].Pid)
	other := (old + 1) % machines
	before := a.leaders(other)
	begun := clock.Now()
	signal(syscall.SIGKILL, a.all[old].Pid)
	harness.Eventually(t, "nothing of it is left", func() bool { return !slices.ContainsFunc(family, alive) })
	var after map[string]elect.Leader
	harness.Eventually(t, "others lead", func() bool {
		after = a.leaders(other)
		for name, l := range after {
			if l.ID == a.id(old) || l.Token <= before[name].Token || !a.leads(l.ID, name) {
				return false
			}
		}
		return len(after) == 4
	})
	took := clock.Now().Sub(begun)
	t.Logf("others lead after %v, %v", took, load())
	if took > promise/2 {
		t.Errorf("others lead after %v; want it long before the end of a promise of %v", took, promise)
	}
	if s.has(old, false) || s.has(old, true) {
		t.Error("the address is still there")
	}
	a.start(old)
	harness.Eventually(t, "it follows", func() bool { return len(a.leaders(old)) == 4 })
	a.await(0, "demote")
	for end := time.Now().Add(standBy); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, i := range []int{old, other} {
			if got := a.leaders(i); got != nil && !maps.EqualFunc(got, after, func(a, b elect.Leader) bool { return a.ID == b.ID && a.Token == b.Token }) {
				t.Fatalf("%s has changed leaders: %v; want %v", a.id(i), got, after)
			}
		}
	}
	if t.Failed() {
		s.logs()
	}
}

// descendants are all processes below one, as far as they have not called for another parent.
func descendants(pid int) (all []int) {
	for _, child := range children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// alive reports whether a process is there, and no zombie.
func alive(pid int) bool {
	stat, ok := proc.Read(pid)
	return ok && !stat.Dead()
}

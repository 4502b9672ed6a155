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
	faults := a.faults()
	for _, f := range faults[:long.FullOr(len(faults), 4)] {
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
	harness.Eventually(t, "all that it starts runs", func() bool { return len(harness.Descendants(a.all[old].Pid)) >= 12 })
	family := harness.Descendants(a.all[old].Pid)
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
	said := a.log(old)
	a.start(old)
	harness.Eventually(t, "it follows in all elections", func() bool {
		log := a.log(old)
		for name := range after {
			if !strings.Contains(log[len(said):], name+": standing by for "+name+" (behind ") {
				return false
			}
		}
		return true
	})
	a.await(0, "demote")
	for _, i := range []int{old, other} {
		if got := a.leaders(i); !maps.EqualFunc(got, after, func(a, b elect.Leader) bool { return a.ID == b.ID && a.Token == b.Token }) {
			t.Errorf("%s has changed leaders: %v; want %v", a.id(i), got, after)
		}
	}
	if t.Failed() {
		s.logs()
	}
}

// alive reports whether a process is there, and no zombie.
func alive(pid int) bool {
	stat, ok := proc.Read(pid)
	return ok && !stat.Dead()
}

// had reports whether a machine was seen to lose the address of IPv4 since the last call.
func (s *rig) had(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.gone[i]['4']) > 0
	s.gone[i]['4'] = nil
	return had
}

// one is an election of a machine alone; HOOKS is what differs.
const one = `
id: NODE
state: DIR/state-NODE
http: {listen: 'unix:DIR/NODE.sock'}
elections:
  - {name: address, election: 'file:DIR/place', address: [IPV4], rest: 10m, hooks: {HOOKS}}
`

// TestAgentHooks: a machine whose hook fence or activate hangs, fails, forks, floods and fails, or is missing, never has
// the address, and gives leadership back. One whose hooks after that do so has the address until the term ends.
func TestAgentHooks(t *testing.T) {
	long.Test(t, "it needs network namespaces")
	s := newRig(t)
	a := newAgents(s, "")
	ways := map[string]string{
		"hangs": "trap \"\" TERM; while :; do sleep 1000; done", "fails": "false", "is missing": "/there/is/none",
		"forks": "setsid sleep 1000 & exit 1", "floods": "seq 100000; exit 1",
	}
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		run := func(hook string) string { return fmt.Sprintf("%s: {limit: 500ms, run: '%s'}", hook, ways[way]) }
		for _, hook := range []string{"fence", "activate"} {
			a.file = strings.Replace(one, "HOOKS", run(hook)+", demote: sh DIR/note", 1)
			a.start(0)
			harness.Eventually(t, "a hook "+hook+" that "+way+" is told", func() bool { return a.said("the hook " + hook + " has failed") })
			harness.Eventually(t, "leadership is given back", func() bool { return a.said("released address") })
			a.end(0)
			if s.had(0) {
				t.Errorf("the hook %s %s, and the machine had the address", hook, way)
			}
		}
		a.file = strings.Replace(one, "HOOKS", strings.Join([]string{"activate: 'true'", run("on-elected"), run("cut"), "demote: sh DIR/note", run("on-lost")}, ", "), 1)
		a.start(0)
		harness.Eventually(t, "a hook on-elected that "+way+" is told", func() bool { return a.said("the hook on-elected has failed") })
		if !s.has(0, false) {
			t.Errorf("the hook on-elected %s, and the machine has not the address", way)
		}
		before := len(a.noted())
		a.end(0)
		for _, e := range a.noted()[before:] {
			if e.has {
				t.Errorf("%+v: the address is there", e)
			}
		}
		s.had(0)
		if n := len(a.noted()) - before; n != 1 || s.has(0, false) {
			t.Errorf("the hook cut %s: demote ran %d times, and the machine has the address: %v", way, n, s.has(0, false))
		}
	}
	if t.Failed() {
		s.logs()
	}
}

// TestAgentReload: SIGHUP changes the address and the hooks. The old address goes before the old demote, and another one
// that cannot be held is told, again and again, until the file is mended.
func TestAgentReload(t *testing.T) {
	long.Test(t, "it needs network namespaces")
	s := newRig(t)
	a := newAgents(s, strings.Replace(one, "HOOKS", "activate: 'true', on-elected: 'true', demote: sh DIR/note former", 1))
	a.start(0)
	harness.Eventually(t, "it has the address", func() bool { return s.has(0, false) })
	reload := func(file string) {
		t.Helper()
		a.write(0, file)
		signal(syscall.SIGHUP, a.all[0].Pid)
	}
	reload(strings.Replace(a.file, "IPV4", "10.77.0.100", 1))
	harness.Eventually(t, "an error is told", func() bool { return a.said("the configuration was not reloaded") })
	if !s.has(0, false) {
		t.Error("a file with an error has changed something")
	}
	next := strings.Replace(a.file, "former", "present", 1)
	reload(strings.Replace(next, "IPV4", "10.77.0.101/24@eth9", 1))
	harness.Eventually(t, "an interface that is not there is told", func() bool {
		return a.said("there is no network interface eth9; want one of ") && a.said("it is tried again in 1s")
	})
	if got := a.noted(); len(got) != 1 || got[0].hook != "former" || got[0].has {
		t.Errorf("%+v; want the former demote, once, without the address", got)
	}
	if s.has(0, false) {
		t.Error("the former address is still there")
	}
	reload(strings.Replace(next, "IPV4", "10.77.0.101/24@eth0", 1))
	harness.Eventually(t, "it has the next address", func() bool { return strings.Contains(s.ip(0, "-4", "addr", "show", "dev", "eth0"), "10.77.0.101/24") })
	a.end(0)
	if got := a.noted(); len(got) != 2 || got[1].hook != "present" {
		t.Errorf("%+v; want the present demote at the end", got)
	}
	if out := s.ip(0, "-4", "addr", "show", "dev", "eth0"); strings.Contains(out, "10.77.0.101/24") {
		t.Errorf("the address is left: %s", out)
	}
	if t.Failed() {
		s.logs()
	}
}

// log is what an agent has said in its present life.
func (a *agents) log(i int) string {
	text, _ := os.ReadFile(filepath.Join(a.s.dir, a.id(i)+".log"))
	return string(text)
}

// said reports whether the first agent has said a text in its present life.
func (a *agents) said(text string) bool { return strings.Contains(a.log(0), text) }

// end asks an agent to end, waits for that, and forgets what it has said.
func (a *agents) end(i int) {
	a.s.t.Helper()
	signal(syscall.SIGTERM, a.all[i].Pid)
	harness.Eventually(a.s.t, "the agent ends", func() bool { return !alive(a.all[i].Pid) })
	_ = os.Remove(filepath.Join(a.s.dir, a.id(i)+".log"))
}

//go:build linux

package alerts

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/skew"
)

// patience limits how long an alert may take to fire, and to end.
const patience = 5 * time.Minute

// candidate is an elect run --http. Its command writes its pid into a file of its job.
type candidate struct {
	t       *testing.T
	program string
	args    []string
	http    string
	dir     string // of its job
	late    bool   // it is started by the job's cause
	env     string // NAME=VALUE, or empty
	cmd     *exec.Cmd
	said    harness.Buffer
}

// start starts it, at first or again.
func (c *candidate) start() {
	c.t.Helper()
	c.cmd = exec.Command(c.program, slices.Concat([]string{"run", "--http", c.http}, c.args,
		[]string{"--grace", "50ms", "--restart", "always", "--", "sh", "-c", `echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 100000`, c.leader()})...)
	c.cmd.Dir = c.dir
	c.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+c.dir)
	if c.env != "" {
		c.cmd.Env = append(c.cmd.Env, c.env)
	}
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.WaitDelay = time.Second // what it started has its stderr
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// end ends it by a signal, and waits for it. Its keeper ends the command.
func (c *candidate) end(sig syscall.Signal) {
	if c.cmd != nil && c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Signal(sig)
		_ = c.cmd.Wait()
	}
}

// seesNone reports whether it runs and sees no leader.
func (c *candidate) seesNone() bool {
	if c.late {
		return false
	}
	page, err := fetch("http://" + c.http + "/metrics")
	return err != nil || !strings.Contains(string(page), `elect_has_leader{election="x"} 1`)
}

// leader is the file with the pid of the command that was started last in the job.
func (c *candidate) leader() string { return filepath.Join(c.dir, "leader") }

// job is an election, or what is scraped as one, and what is done to it.
type job struct {
	name       string
	dir        string
	candidates []*candidate
	scraped    []string // beside the candidates
	cause      func()
	mend       func()
	fires      []string // what must fire; nothing else may
	may        []string // but these

	mended time.Time
	over   bool
}

// pid returns the pid of the present leader's command.
func (j *job) pid(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(j.candidates[0].leader())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// holder returns the pids of the leader's elect run and of its keeper.
func (j *job) holder(t *testing.T) (pids [2]int) {
	t.Helper()
	command := j.pid(t)
	for _, c := range j.candidates {
		for _, keeper := range harness.Children(c.cmd.Process.Pid) {
			if slices.Contains(harness.Children(keeper), command) {
				return [2]int{c.cmd.Process.Pid, keeper}
			}
		}
	}
	t.Fatalf("%s: no candidate has the process %d", j.name, command)
	return pids
}

// succeeded waits until another command leads than pid.
func (j *job) succeeded(t *testing.T, pid int) {
	t.Helper()
	harness.Eventually(t, j.name+": another candidate leads", func() bool { return j.pid(t) != pid })
}

// field is where the jobs stand.
type field struct {
	t       *testing.T
	program string
	jobs    []*job
	unable  []string // alerts whose conditions cannot be caused on this machine
}

// job adds an election without candidates.
func (f *field) job(name string) *job {
	j := &job{name: name, dir: f.t.TempDir()}
	f.jobs = append(f.jobs, j)
	return j
}

// stand adds a candidate to a job, which starts with the others.
func (f *field) stand(j *job, args ...string) *candidate {
	f.t.Helper()
	c := &candidate{t: f.t, program: f.program, http: harness.FreeAddr(f.t), dir: j.dir, args: args}
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("%s: %s said:\n%s", j.name, c.http, &c.said)
		}
	})
	j.candidates = append(j.candidates, c)
	return c
}

// files are candidates for the name x at a place below the job's directory.
func (f *field) files(j *job, place string, n int, args ...string) {
	for range n {
		f.stand(j, slices.Concat([]string{"--election", "file:" + filepath.Join(j.dir, place), "--name", "x"}, args)...)
	}
}

// peers are three voters, each behind a cable.
func (f *field) peers(j *job, args ...string) (cables []*cable.Cable) {
	f.t.Helper()
	listen := harness.FreeAddrs(f.t, 3)
	var list []string
	for i, addr := range listen {
		c, err := cable.New(addr)
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = c.Close() })
		cables = append(cables, c)
		list = append(list, fmt.Sprintf("n%d@%s", i+1, c.Addr()))
	}
	for i, addr := range listen {
		id := fmt.Sprintf("n%d", i+1)
		place := []string{"--election", "peer://" + strings.Join(list, ","), "--name", "x", "--id", id, "--listen", addr, "--data", filepath.Join(j.dir, id)}
		f.stand(j, append(place, args...)...)
	}
	return cables
}

// fence starts elect fence proxy and raises its mark. Its cause is a request that is admitted, and one that is refused.
func (f *field) fence() {
	upstream := httptest.NewServer(http.NotFoundHandler())
	f.t.Cleanup(upstream.Close)
	addrs := harness.FreeAddrs(f.t, 2)
	cmd := exec.Command(f.program, "fence", "proxy", "--listen", addrs[0], "--metrics", addrs[1], "--upstream", upstream.URL, "--resource", "orders",
		"--mark", "memory", "--anyone-may-claim")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { harness.End(cmd) })
	ask := func(path, token string) int {
		request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+addrs[0]+path, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		request.Header.Set("Fencing-Token", "orders;"+token)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	wait(f.t, "the mark is raised", func() bool { return ask("/.well-known/fencing/claim", "5") == http.StatusNoContent })
	j := f.job("fence")
	j.scraped, j.fires, j.mend = addrs[1:], []string{"ElectStaleWrite"}, func() {}
	j.cause = func() {
		if passed, stale := ask("/", "5"), ask("/", "4"); passed != http.StatusNotFound || stale == passed {
			f.t.Errorf("the fence answers %d to the leader, and %d to an earlier one; want 404 of the upstream, and a refusal", passed, stale)
		}
	}
}

// TestAlertsFire: each alert fires by its condition and ends when that is mended, and no other one does. In an election
// with takeovers none does. Each panel of the dashboard finds something in what was scraped.
func TestAlertsFire(t *testing.T) {
	long.Full(t, "it waits for the alerts of 40 processes, for some minutes")
	program := harness.Need(t, "prometheus", "prometheus")
	f := &field{t: t, program: harness.Build(t, "../../../cmd/elect")}
	f.elections()
	f.groups()
	f.fence()

	targets := map[string][]string{}
	running := 0
	for _, j := range f.jobs {
		targets[j.name] = j.scraped
		for _, c := range j.candidates {
			t.Cleanup(func() { c.end(syscall.SIGKILL) })
			targets[j.name] = append(targets[j.name], c.http)
			if !c.late {
				c.start()
				running++
			}
		}
	}
	for _, j := range f.jobs { // founding takes longer than the shortened time of an alert
		wait(t, j.name+": all see a leader", func() bool { return !slices.ContainsFunc(j.candidates, (*candidate).seesNone) })
	}
	begun := time.Now()
	p := scrape(t, program, targets)
	wait(t, "all are scraped ten times", func() bool {
		found := p.query(t, `count(count_over_time(elect_has_leader[5m]) >= 10)`, time.Time{})
		return len(found) == 1 && int(found[0].number()) == running
	})
	if before := p.fired(t); len(before) > 0 {
		t.Fatalf("before anything was done these alerts have fired: %v", before)
	}

	for _, j := range f.jobs {
		j.cause()
	}
	caused := time.Now()
	look := time.NewTicker(interval / 2)
	defer look.Stop()
	for left := len(f.jobs); left > 0; <-look.C {
		firing := p.firing(t)
		for _, j := range f.jobs {
			now := firing[j.name]
			switch {
			case j.over:
			case j.mended.IsZero() && !slices.ContainsFunc(j.fires, func(alert string) bool { return !slices.Contains(now, alert) }):
				t.Logf("%s: %q firing %.1f s after all was caused", j.name, now, time.Since(caused).Seconds())
				j.mend()
				j.mended = time.Now()
			case !j.mended.IsZero() && len(now) == 0:
				t.Logf("%s: no alert fires %.1f s after it was mended", j.name, time.Since(j.mended).Seconds())
				j.over = true
				left--
			}
		}
		if time.Since(caused) > patience {
			t.Fatalf("not within %v: these alerts fire: %v", patience, firing)
		}
	}

	fired := p.fired(t)
	var fires []string
	for _, j := range f.jobs {
		other := func(alert string) bool { return !slices.Contains(j.fires, alert) && !slices.Contains(j.may, alert) }
		if slices.ContainsFunc(fired[j.name], other) {
			t.Errorf("%s: %q have fired; want %q, and perhaps %q", j.name, fired[j.name], j.fires, j.may)
		}
		fires = append(fires, j.fires...)
	}
	for line := range strings.Lines(shipped(t)) {
		if _, alert, found := strings.Cut(line, "- alert: "); found && !slices.Contains(slices.Concat(fires, f.unable), strings.TrimSpace(alert)) {
			t.Errorf("nothing here makes %s fire", alert)
		}
	}
	for _, panel := range panels(t) {
		found := p.query(t, panel.expr, begun)
		least, most, samples := 0.0, 0.0, 0
		for _, s := range found {
			for _, v := range s.Values {
				n, err := strconv.ParseFloat(v[1].(string), 64)
				if err != nil {
					t.Fatal(err)
				}
				least, most = min(least, n), max(most, n)
				samples++
			}
		}
		t.Logf("%-42s %3d series, %5d samples, %.4g to %.4g, such as %v", panel.title, len(found), samples, least, most, example(found))
		unseen := strings.Contains(panel.expr, "elect_store_") // nothing has a store here
		if (samples == 0 || most == 0) && !unseen {
			t.Errorf("the panel %q has nothing to show: %s", panel.title, panel.expr)
		}
	}
}

// example is the labels of one series.
func example(found []series) string {
	if len(found) == 0 {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(found[0].Metric)) {
		all = append(all, name+"="+found[0].Metric[name])
	}
	return strings.Join(all, " ")
}

// elections are those that the test breaks: what is scraped, what is done to it, and what must fire.
func (f *field) elections() {
	t := f.t
	nothing := func() {}

	// A healthy election, in which the work is killed now and then.
	calm := f.job("calm")
	f.files(calm, "a", 3)
	calm.cause = func() {
		for range 2 {
			pid := calm.pid(t)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			calm.succeeded(t, pid)
		}
	}
	calm.mend = nothing

	// Two places look like one election: their first terms have one token.
	term := f.job("one-term")
	f.files(term, "a", 1)
	f.files(term, "b", 1)
	term.fires = []string{"ElectTwoLeadersInOneTerm", "ElectTwoLeaders"}
	term.candidates[1].late, term.cause = true, term.candidates[1].start
	term.mend = func() { term.candidates[1].end(syscall.SIGTERM) }

	// The same, but one of them is in its second term.
	two := f.job("two-leaders")
	f.files(two, "a", 1)
	f.files(two, "b", 1)
	if out, err := exec.Command(f.program, "run", "--election", "file:"+filepath.Join(two.dir, "b"), "--name", "x", "--once", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	two.fires = []string{"ElectTwoLeaders"}
	two.candidates[1].late, two.cause = true, two.candidates[1].start
	two.mend = func() { two.candidates[1].end(syscall.SIGTERM) }

	// A majority of the voters is dead.
	minority := f.job("no-leader")
	f.peers(minority)
	minority.cause = func() {
		for _, c := range minority.candidates[:2] {
			c.end(syscall.SIGKILL)
		}
	}
	minority.mend = func() {
		for _, c := range minority.candidates[:2] {
			c.start()
		}
	}
	minority.fires = []string{"ElectNoLeader", "ElectNoQuorum"}

	// All are dead.
	dead := f.job("no-participant")
	f.files(dead, "a", 2)
	dead.cause = func() {
		for _, c := range dead.candidates {
			c.end(syscall.SIGKILL)
		}
	}
	dead.mend = func() {
		for _, c := range dead.candidates {
			c.start()
		}
	}
	dead.fires = []string{"ElectNoParticipant"}

	// The work is killed again and again.
	flaps := f.job("many-changes")
	f.files(flaps, "a", 3)
	flaps.cause = func() {
		for range 6 {
			pid := flaps.pid(t)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			flaps.succeeded(t, pid)
			<-time.After(interval / 2) // each is seen
		}
	}
	flaps.mend = nothing
	flaps.fires = []string{"ElectManyLeaderChanges"}

	// elect run and its keeper are frozen, and the work goes on until they thaw.
	frozen := f.job("overrun")
	f.peers(frozen)
	frozen.cause = func() {
		pid, pids := frozen.pid(t), frozen.holder(t)
		for _, p := range pids {
			_ = syscall.Kill(p, syscall.SIGSTOP)
		}
		thaw := func() {
			for _, p := range pids {
				_ = syscall.Kill(p, syscall.SIGCONT)
			}
		}
		t.Cleanup(thaw)
		frozen.succeeded(t, pid)
		thaw()
	}
	frozen.mend = nothing
	frozen.fires, frozen.may = []string{"ElectOverrun"}, []string{"ElectNoLeader"} // a takeover is not shorter by the scale

	// The way between the peers is slow: a lease of 9 s is renewed each half second, by answers that take 3.8 s. After
	// half a promise, which is 10 s, the leader would stop asking.
	slow := f.job("lease-slack")
	cables := f.peers(slow, "--promise", "10s", "--heartbeat", "500ms")
	delay := func(d time.Duration) func() {
		return func() {
			for _, c := range cables {
				c.Delay(d)
			}
		}
	}
	slow.cause, slow.mend = delay(1900*time.Millisecond), delay(0)
	slow.fires = []string{"ElectLeaseSlackLow"}

	// The health check of one candidate fails.
	ill := f.job("ill")
	f.files(ill, "a", 1)
	f.files(ill, "a", 1, "--health-command", "test ! -e ill", "--health-every", "200ms")
	mark := filepath.Join(ill.dir, "ill")
	ill.cause = func() {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ill.mend = func() {
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
	}
	ill.fires = []string{"ElectCandidateIll"}

	// A peer whose list has only itself founds an election of its own.
	apart := f.job("memberships")
	f.peers(apart, patient...)
	addr := harness.FreeAddr(t)
	alone := f.stand(apart, "--election", "peer://n4@"+addr, "--name", "x", "--id", "n4", "--listen", addr, "--data", filepath.Join(apart.dir, "n4"))
	alone.late, apart.cause = true, alone.start
	apart.mend = func() { alone.end(syscall.SIGTERM) }
	apart.fires, apart.may = []string{"ElectConfigurationsDiffer", "ElectTwoLeaders"}, []string{"ElectTwoLeadersInOneTerm"}

	// A standby hangs, and its connections stay.
	hung := f.job("hung")
	f.peers(hung, patient...)
	var stopped int
	hung.cause = func() {
		leader := hung.holder(t)[0]
		for _, c := range hung.candidates {
			if stopped = c.cmd.Process.Pid; stopped != leader {
				break
			}
		}
		_ = syscall.Kill(stopped, syscall.SIGSTOP)
		t.Cleanup(func() { _ = syscall.Kill(stopped, syscall.SIGCONT) })
	}
	hung.mend = func() { _ = syscall.Kill(stopped, syscall.SIGCONT) }
	hung.fires = []string{"ElectPeerSlow"}

	f.slowDisk()
	f.asleep()
}

// patient has peers lead on where a busy machine does not run them for a second.
var patient = []string{"--promise", "5s"}

// slowDisk is an election whose ballots are written slowly.
func (f *field) slowDisk() {
	d, err := disk.NewFUSE(f.t.TempDir())
	if errors.Is(err, disk.ErrUnable) {
		f.t.Log(err)
		f.unable = append(f.unable, "ElectDiskSlow")
		return
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = d.Close() })
	j := f.job("disk")
	f.peers(j, patient...)
	for i, c := range j.candidates {
		c.args = append(c.args, "--data", filepath.Join(d.Path(), fmt.Sprintf("n%d", i+1)))
	}
	fault := func(fault disk.Fault) {
		if err := d.Fault(fault); err != nil {
			f.t.Error(err)
		}
	}
	j.cause = func() {
		fault(disk.Fault{SyncDelay: 1500 * time.Millisecond})
		_ = syscall.Kill(j.pid(f.t), syscall.SIGKILL)
	}
	j.mend = func() { fault(disk.Fault{}) }
	j.fires, j.may = []string{"ElectDiskSlow"}, []string{"ElectNoLeader"} // the election takes as long as the disk
}

// asleep is an election in which a standby sleeps, by its clocks, which run fast when it wakes.
func (f *field) asleep() {
	j := f.job("clock")
	f.peers(j, patient...)
	program := harness.Build(f.t, "../../../cmd/elect", "chaos")
	clocks := map[*candidate]*skew.Clock{}
	for _, c := range j.candidates[1:] {
		clock, err := skew.New(filepath.Join(j.dir, filepath.Base(c.http)))
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = clock.Close() })
		c.program, c.env, clocks[c] = program, clock.Env(), clock
	}
	const nap = 100 * time.Millisecond
	var fast *skew.Clock
	j.cause = func() {
		leader := j.holder(f.t)[0]
		for c, clock := range clocks {
			if pid := c.cmd.Process.Pid; pid != leader {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				<-time.After(2 * nap) // longer than its clocks will say
				clock.Suspend(nap)
				_ = syscall.Kill(pid, syscall.SIGCONT)
				fast = clock
				fast.Rate(1.3)
				return
			}
		}
	}
	j.mend = func() { fast.Rate(1) }
	j.fires = []string{"ElectClockStepped", "ElectClockRate"}
}

//go:build linux

package address

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/mutation"
)

var only = flag.String("only", "", "break the machines only in the ways with this text in their names")

// TestMoves: whatever happens to the machine that has the address, no other one has it at the same time, and another
// one has it soon.
func TestMoves(t *testing.T) {
	long.Test(t, "it starts three machines as network namespaces, and breaks them for a minute")
	s := newRig(t)
	e := &elects{s: s, program: harness.Build(t, "../../../cmd/elect"), profile: "lan"}
	rounds := long.FullOr(10, 1)
	for _, r := range s.all(e, rounds, "elect, "+e.profile) {
		// That two machines send from the address is seen at the client, in all cases; that two have it, in the
		// namespaces, where that is not a question of load.
		for _, o := range r.outcomes {
			if !o.taken || o.twice > 0 || o.both > 0 && !r.fault.dead && !r.fault.lease || o.left != 1 {
				t.Errorf("%s: taken over %v, two machines had the address for %v, and sent from it for %v; %d have it now", r.fault.name, o.taken, o.both, o.twice, o.left)
			}
		}
	}
	if t.Failed() {
		s.logs()
	}
}

// TestBeside measures keepalived on the same faults.
func TestBeside(t *testing.T) {
	long.Full(t, "it measures keepalived, which promises less")
	for _, interval := range []string{"1", "0.1"} {
		s := newRig(t)
		for _, r := range s.all(&keepaliveds{s: s, interval: interval}, 5, "keepalived, advert_int "+interval) {
			if slices.ContainsFunc(r.outcomes, func(o outcome) bool { return !o.taken }) {
				t.Errorf("%s: no other machine has taken over, and the table is not about a failover", r.fault.name)
			}
		}
	}
}

// TestTooth: a keeper that leaves the address where it is is caught, although the kernel lets it not answer.
func TestTooth(t *testing.T) {
	long.Test(t, "as TestMoves")
	s := newRig(t)
	e := &elects{s: s, program: harness.Build(t, "../../../cmd/elect", "mutants"), profile: "lan", env: []string{mutation.Env + "=" + mutation.AddressKept}}
	for _, f := range e.faults() {
		if f.name != "elect is killed" {
			continue
		}
		s.up(e)
		o := s.disturb(f)
		if o.both == 0 {
			t.Errorf("no two machines had the address: %+v", o)
		}
		if o.twice > 0 {
			t.Errorf("two machines sent from the address for %v: the kernel has not dropped what the dead one sent", o.twice)
		}
	}
}

// TestRefused: what a machine cannot do, or must not, is said in one line before it stands, and with the code 72.
func TestRefused(t *testing.T) {
	long.Test(t, "it needs network namespaces")
	s := newRig(t)
	program := harness.Build(t, "../../../cmd/elect")
	s.ip(0, "addr", "add", "10.77.0.50/24", "dev", "eth0")
	s.ip(0, "link", "add", "veth6", "type", "veth", "peer", "name", "peer6")
	if out, err := s.net.Command(0, "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/veth6/disable_ipv6").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		address, without, says string
	}{
		{address: "10.77.0.50/24@eth0", says: "10.77.0.50/24@eth0: this machine has that address, and not from elect; want it removed"},
		{address: "10.77.0.60/24@eth9", says: "there is no network interface eth9; want one of "},
		{address: "10.77.0.60/24@lo", says: "lo is no Ethernet interface; want one"},
		{address: "fd77::60/64@veth6", says: "IPv6 is disabled on veth6; want net.ipv6.conf.veth6.disable_ipv6=0"},
		{address: "10.77.0.60/24@eth0", without: "net_admin", says: "want CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW"},
		{address: "10.77.0.60/24@eth0", without: "net_raw", says: "want CAP_NET_RAW"},
		{address: "10.77.0.60/24@eth0", without: "bpf", says: "want CAP_BPF"},
		{address: "10.77.0.60/24@eth0"},
	} {
		command := []string{program, "run", "--election", "file:" + filepath.Join(s.dir, "place"), "--name", "refused", "--once", "--address", c.address, "--", "true"}
		if c.without != "" {
			caps := "-" + c.without
			if c.without == "bpf" {
				caps += ",-sys_admin" // which includes it
			}
			command = append([]string{"setpriv", "--bounding-set", caps, "--inh-caps", caps, "--"}, command...)
		}
		out, err := s.net.Command(0, command[0], command[1:]...).CombinedOutput()
		code := 0
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			code = ended.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		want := 72
		if c.says == "" {
			want = 0
		}
		if code != want || !strings.Contains(string(out), c.says) || want != 0 && strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s without %q: exit code %d: %s; want %d, and a line with %q", c.address, c.without, code, out, want, c.says)
		}
	}
	if !strings.Contains(s.ip(0, "addr", "show", "dev", "eth0"), "10.77.0.50/24") {
		t.Error("the operator's own address is gone")
	}
}

// result is what came of one fault, again and again.
type result struct {
	fault    fault
	outcomes []outcome
}

// up starts all machines, and waits until one has the address.
func (s *rig) up(f mover) {
	s.t.Helper()
	for i := range machines {
		f.start(i)
	}
	if s.holder(-1, time.Minute) < 0 {
		s.logs()
		s.t.Fatal("no machine answers")
	}
}

// all breaks the holder in each way, rounds times, and logs a table.
func (s *rig) all(f mover, rounds int, name string) (results []result) {
	s.t.Helper()
	s.up(f)
	for _, fault := range f.faults() {
		if !strings.Contains(fault.name, *only) {
			continue
		}
		results = append(results, result{fault: fault})
	}
	for range rounds {
		for i := range results {
			results[i].outcomes = append(results[i].outcomes, s.disturb(results[i].fault))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d rounds, %v\n", name, rounds, load())
	fmt.Fprintf(&b, "| what happens | IPv4: median | worst | IPv6: median | worst | two send | two have it |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s |", r.fault.name)
		for _, family := range []byte{'4', '6'} {
			var gaps []time.Duration
			for _, o := range r.outcomes {
				gaps = append(gaps, o.gap[family])
			}
			slices.Sort(gaps)
			fmt.Fprintf(&b, " %v | %v |", gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)-1].Round(time.Millisecond))
		}
		var twice, both time.Duration
		for _, o := range r.outcomes {
			twice, both = max(twice, o.twice), max(both, o.both)
		}
		fmt.Fprintf(&b, " %v | %v |\n", twice.Round(time.Millisecond), both.Round(time.Millisecond))
	}
	s.t.Log("\n" + b.String())
	return results
}

// disturb does one thing to the machine that has the address, waits until one answers again, and undoes it.
func (s *rig) disturb(f fault) outcome {
	s.t.Helper()
	old := s.holder(-1, time.Minute)
	if old < 0 {
		s.logs()
		s.t.Fatalf("before %q: no machine answers alone", f.name)
	}
	s.together()
	begun := clock.Now()
	f.do(old)
	o := outcome{taken: s.holder(old, 30*time.Second) >= 0, gap: map[byte]time.Duration{}}
	frames := s.diary.since(begun.Add(-20 * time.Millisecond))
	for _, family := range []byte{'4', '6'} {
		o.gap[family] = gap(frames, family)
	}
	f.undo(old)
	time.Sleep(standBy) // the old machine may wake up and speak
	frames = s.diary.since(begun.Add(-20 * time.Millisecond))
	o.twice = max(s.overlap(frames, '4'), s.overlap(frames, '6'))
	o.both = s.together()
	for end := time.Now().Add(20 * time.Second); o.left != 1 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		o.left = 0 // or a busy machine is about to move it again
		for i := range machines {
			if s.has(i, false) || s.has(i, true) {
				o.left++
			}
		}
	}
	return o
}

// load is what else the machine does, as uptime prints it.
func load() string {
	c := conditions.Now()
	if c.LoadBefore == nil {
		return fmt.Sprintf("%s, %d processors", c.System, c.CPUs)
	}
	return fmt.Sprintf("%s, %d processors, load %.1f", c.System, c.CPUs, c.LoadBefore[0])
}

// standBy is for how long a machine is left alone that stands by anew.
const standBy = 2 * time.Second

// logs shows what the programs have said.
func (s *rig) logs() {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		s.t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
	}
}

//go:build linux

package alerts

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
)

// groups are those whose alerts are made to fire.
func (f *field) groups() {
	t := f.t

	// A member that is drained gives its only key up when the work ends, and no other one wants it.
	unowned := f.job("group-unowned")
	place := "group+file:" + filepath.Join(unowned.dir, "g")
	f.stand(unowned, "--election", place, "--name", "x", "--id", "m1")
	drain := func(args ...string) {
		args = append([]string{"group", "drain", "m1", "--election", place}, args...)
		if out, err := exec.Command(f.program, args...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	unowned.cause = func() {
		drain()
		_ = syscall.Kill(unowned.pid(t), syscall.SIGKILL)
	}
	unowned.mend = func() { drain("--off") }
	unowned.fires = []string{"ElectGroupKeysUnowned", "ElectNoLeader"}

	// The process of a coordinator is stopped, and keeps the lock of file:.
	headless := f.job("group-headless")
	stopped := filepath.Join(headless.dir, "g")
	for _, id := range []string{"m1", "m2"} {
		f.stand(headless, "--election", "group+file:"+stopped, "--name", "x", "--id", id)
	}
	signal := func(syscall.Signal) {}
	headless.cause = func() {
		out, err := exec.Command(f.program, "group", "status", "-o", "json", "--election", "group+file:"+stopped).Output()
		var s group.Status
		if err = errors.Join(err, json.Unmarshal(out, &s)); err != nil {
			t.Errorf("%s: %v", headless.name, err)
			return
		}
		pid := headless.candidates[slices.Index([]string{"m1", "m2"}, s.Coordinator)].cmd.Process.Pid
		signal = func(sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
		t.Cleanup(func() { signal(syscall.SIGCONT) })
		signal(syscall.SIGSTOP)
	}
	headless.mend = func() { signal(syscall.SIGCONT) }
	headless.fires, headless.may = []string{"ElectGroupNoCoordinator"}, []string{"ElectNoLeader", "ElectOverrun", "ElectGroupSlackLow"}

	// The way to the coordinator is slow: a claim of 9 s is renewed each second, by answers that take 3.8 s.
	slow := f.job("group-slack")
	var cables []*cable.Cable
	for _, id := range []string{"m1", "m2"} {
		listen := harness.FreeAddr(t)
		c, err := cable.New(listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		cables = append(cables, c)
		f.stand(slow, "--election", "group+file:"+filepath.Join(slow.dir, "g")+"?group-promise=10s&group-listen="+listen+"&group-advertise="+c.Addr(), "--name", "x", "--id", id)
	}
	delay := func(d time.Duration) func() {
		return func() {
			for _, c := range cables {
				c.Delay(d)
			}
		}
	}
	slow.cause, slow.mend = delay(1900*time.Millisecond), delay(0)
	slow.fires, slow.may = []string{"ElectGroupSlackLow"}, []string{"ElectLeaseSlackLow"} // if not the coordinator leads
}

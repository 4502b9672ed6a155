package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
)

// TestLimit: a family has the limits of its containment, at the root of the cgroups and in a cgroup that the process
// has to leave for that. It uses any controller that the machine has in version 2: all of them are set alike.
func TestLimit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to make controllers available")
	}
	here, name := contain(t)
	root, own, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own + "/cgroup.type"); own != root || err == nil {
		t.Skip("want a machine whose processes are at the root of the cgroups")
	}
	controller, limit := anyLimit(t, own)
	before, err := os.ReadFile(own + "/cgroup.subtree_control")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(before)), controller) {
		t.Cleanup(func() { _ = os.WriteFile(own+"/cgroup.subtree_control", []byte("-"+controller), 0) })
	}
	run := func(dir string) string {
		t.Helper()
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		cmd := exec.Command(program(t), limit, "4194304")
		cmd.Env, cmd.Stderr = partEnv("limited"), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := func(dir, want string) {
		t.Helper()
		if got := run(dir); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	want(own, "4194304 in "+own+"\n")

	for _, c := range []struct{ value, want string }{
		{"x", limit + ".max: invalid argument; want a value that the kernel takes, such as 2G, 100 or max"},
		{"4194304", ""},
		{"8388608", "supervise: the limit " + limit + " is set twice; want it once"},
	} {
		err := here.Limit(limit, c.value)
		if errors.Is(err, supervise.ErrContain) || err == nil && c.want != "" || err != nil && (c.want == "" || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.value, err, c.want)
		}
	}

	dir := own + "/limited-" + name
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "the cgroup is empty", func() bool {
			_ = unix.Rmdir(dir + "/elect-supervisors")
			return unix.Rmdir(dir) == nil
		})
	})
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = other.Process.Kill(); _ = other.Wait() }
	defer kill()
	pid := strconv.Itoa(other.Process.Pid)
	if err := os.WriteFile(dir+"/cgroup.procs", []byte(pid), 0); err != nil {
		t.Fatal(err)
	}
	want(dir, supervise.ErrContain.Error()+": limit "+limit+"=4194304: process "+pid+" is in the cgroup "+dir+", too; "+
		"want this process alone in it, as in a unit of its own\n")
	kill()
	want(dir, "4194304 in "+dir+"/elect-supervisors\n")
	want(dir+"/elect-supervisors", "4194304 in "+dir+"/elect-supervisors\n")
}

// anyLimit returns a controller whose limit is a number of bytes or processes, and the name of that limit.
func anyLimit(t *testing.T, own string) (controller, limit string) {
	t.Helper()
	text, err := os.ReadFile(own + "/cgroup.controllers")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ controller, limit string }{{"pids", "pids"}, {"hugetlb", "hugetlb.2MB"}} {
		if slices.Contains(strings.Fields(string(text)), c.controller) {
			return c.controller, c.limit
		}
	}
	t.Skipf("want pids or hugetlb in %s/cgroup.controllers", own)
	return "", ""
}

// limited starts a command with the limit, and prints it, and its own cgroup. Arguments: NAME VALUE.
func limited(args []string) {
	c, err := supervise.Contain(context.Background(), supervise.Cgroup, fmt.Sprintf("limited%d", os.Getpid()), nil)
	check(err)
	if err := c.Limit(args[0], args[1]); err != nil {
		fmt.Println(err)
		return
	}
	root, _, err := supervise.OwnCgroup()
	check(err)
	show := `printf '%s in ' "$(cat ` + root + `$(sed -n s/^0:://p /proc/self/cgroup)/` + args[0] + `.max)"`
	f, err := supervise.Start(context.Background(), supervise.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", show}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Containment: c,
	})
	check(err)
	if code := f.Wait().ExitCode(); code != 0 {
		check(fmt.Errorf("exit code %d", code))
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	check(err)
	_, at, _ := strings.Cut(string(text), "\n0::")
	if rest, ok := strings.CutPrefix(string(text), "0::"); ok {
		at = rest
	}
	fmt.Println(strings.TrimSuffix(root+strings.TrimSuffix(at, "\n"), "/"))
}

// TestLimitRefused: what is no limit, or cannot be set, is refused.
func TestLimitRefused(t *testing.T) {
	sweep, err := supervise.Contain(t.Context(), supervise.Sweep, "limit", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"", "1", "supervise: =1 is no limit; want "},
		{"../cgroup", "1", "supervise: ../cgroup=1 is no limit; want "},
		{"memory", "", "supervise: memory= is no limit; want "},
		{"memory", "2G", supervise.ErrContain.Error() + ": limit memory=2G: it needs the level cgroup: the level is sweep; want cgroup or auto"},
	} {
		if err := sweep.Limit(c.name, c.value); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s=%s: %v; want %s…", c.name, c.value, err, c.want)
		}
	}
	contained, _ := contain(t)
	for _, name := range []string{"none", "cgroup"} {
		if err := contained.Limit(name, "1"); err == nil || !strings.Contains(err.Error(), "/cgroup.controllers does not have "+name+"; want it there") {
			t.Errorf("%s: %v; want a word about cgroup.controllers", name, err)
		}
	}
}

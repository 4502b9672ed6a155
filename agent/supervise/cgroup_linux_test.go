package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// contain returns a containment in cgroups, and its name. Where there can be none the
// test is skipped.
func contain(t testing.TB) (c *supervise.Containment, name string) {
	t.Helper()
	name = fmt.Sprintf("test%d.%d", os.Getpid(), clock.Now())
	c, err := supervise.Contain(t.Context(), supervise.Cgroup, name, nil)
	if errors.Is(err, supervise.ErrContain) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, left := range cgroups(t, name) {
			t.Errorf("%s is left", left)
			_ = os.WriteFile(left+"/cgroup.kill", []byte("1"), 0)
		}
	})
	return c, name
}

// cgroups lists those of the name's families.
func cgroups(t testing.TB, name string) []string {
	t.Helper()
	_, own, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(own + "/elect-" + name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// end kills the command, and with it the family. Kill would kill a keeper that a busy
// machine keeps from an answer.
func end(t *testing.T, f *supervise.Family) {
	t.Helper()
	if err := unix.Kill(f.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, f)
}

// TestFindCgroup: the cgroup of a process is found in the texts of /proc/self/cgroup and /proc/self/mountinfo.
func TestFindCgroup(t *testing.T) {
	const (
		v1     = "12:memory:/user.slice\n1:name=systemd:/user.slice\n"
		v1Disk = "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
		disk   = "23 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
		unit   = "/sys/fs/cgroup/system.slice/x.service"
	)
	mounted := func(root, at string) string {
		return disk + "30 23 0:26 " + root + " " + at + " rw,nosuid,nodev shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate\n"
	}
	for name, c := range map[string]struct{ cgroup, mountinfo, root, own string }{
		"version 2":                   {"0::/system.slice/x.service\n", mounted("/", "/sys/fs/cgroup"), "/sys/fs/cgroup", unit},
		"its root":                    {"0::/\n", mounted("/", "/sys/fs/cgroup"), "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"hybrid":                      {v1 + "0::/user.slice\n", v1Disk + mounted("/", "/sys/fs/cgroup/unified"), "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice"},
		"after a step aside":          {"0::/system.slice/x.service/elect-supervisors\n", mounted("/", "/sys/fs/cgroup"), "/sys/fs/cgroup", unit},
		"container, own namespace":    {"0::/\n", mounted("/", "/sys/fs/cgroup"), "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"container, namespace shared": {"0::/docker/1f\n", mounted("/docker/1f", "/sys/fs/cgroup"), "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"container in a container":    {"0::/docker/1f/docker/2e\n", mounted("/docker/1f/docker/2e", "/sys/fs/cgroup"), "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"below a container's":         {"0::/docker/1f/job\n", mounted("/docker/1f", "/sys/fs/cgroup"), "/sys/fs/cgroup", "/sys/fs/cgroup/job"},
		"the second mount":            {"0::/a\n", mounted("/b", "/b") + mounted("/", "/c"), "/c", "/c/a"},
		"a space in the path":         {"0::/a b\n", mounted(`/a\040b`, `/my\040cgroups`), "/my cgroups", "/my cgroups"},

		"version 1 alone":                  {v1, v1Disk, "", ""},
		"none":                             {"", disk, "", ""},
		"not mounted":                      {"0::/\n", disk, "", ""},
		"version 2 in another mount alone": {v1 + "0::/user.slice\n", v1Disk, "", ""},
		"another container's mount":        {"0::/docker/1f\n", mounted("/docker/2e", "/sys/fs/cgroup"), "", ""},
		"outside of the namespace":         {"0::/../other\n", mounted("/", "/sys/fs/cgroup"), "", ""},
		"a mount from above the namespace": {"0::/\n", mounted("/../..", "/sys/fs/cgroup"), "", ""},
		"half a line":                      {"0::/\n", "30 23 0:26 / - cgroup2 cgroup2 rw\n", "", ""},
	} {
		root, own, err := supervise.FindCgroup(c.cgroup, c.mountinfo)
		if root != c.root || own != c.own || (err == nil) != (c.root != "") {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, root, own, err, c.root, c.own)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "no cgroup2 file system with the cgroup of this process is mounted; want one: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCgroup: whoever is killed, families that do all that they can to survive are dead
// before the lock is free, and their cgroup is removed, with the programs of its network guard.
func TestCgroup(t *testing.T) {
	for command, network := range map[string]string{"hostile": "", "forkloop": "", "tree": "yes"} {
		for _, c := range []struct {
			name string
			end  func(s *scene) clock.Boot
		}{
			{"command killed", func(s *scene) clock.Boot { return s.kill(s.pids[0], syscall.SIGKILL) }},
			{"parent killed", func(s *scene) clock.Boot { return s.kill(s.parent, syscall.SIGKILL) }},
			{"keeper killed", func(s *scene) clock.Boot { return s.kill(int(s.board.Keeper.Load()), syscall.SIGKILL) }},
			{"parent stopped", func(s *scene) clock.Boot { s.arm(); return s.kill(s.parent, syscall.SIGSTOP) }},
		} {
			t.Run(command+", "+c.name, func(t *testing.T) {
				_, name := contain(t)
				if network == "yes" {
					guardNetwork(t)
				}
				s := newScene(t, command, nil, "contain="+name, "adopt=yes", "deadline=200ms", "network="+network)
				if list := cgroups(t, name); len(list) != 1 {
					t.Fatalf("the cgroups of one family: %q", list)
				}
				gone := func() {}
				if network == "yes" {
					gone = leavesNone(t, name)
				}
				had := s.compete()
				s.settle(c.end(s), had)
				eventually(t, "the cgroup is removed", func() bool { return len(cgroups(t, name)) == 0 })
				gone()
			})
		}
	}
}

// TestCgroupOfTwoLivesAtOnce: while one process kills what an earlier life has left, another one does not begin.
func TestCgroupOfTwoLivesAtOnce(t *testing.T) {
	_, name := contain(t)
	_, own, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	left := own + "/elect-" + name + "-abc"
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	kill, err := os.OpenFile(left+"/cgroup.kill", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kill.Close()
	if err := unix.Flock(int(kill.Fd()), unix.LOCK_EX); err != nil { // as the first one has it
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := supervise.Contain(ctx, supervise.Cgroup, name, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside one that kills: %v; want %v", err, context.DeadlineExceeded)
	}
	_ = kill.Close()
	if _, err := supervise.Contain(t.Context(), supervise.Cgroup, name, nil); err != nil {
		t.Error(err)
	}
	if list := cgroups(t, name); len(list) > 0 {
		t.Errorf("%q is left", list)
	}
}

// TestCgroupIsTheOwners: another user can lock nothing in it, and so cannot pass for a supervisor.
func TestCgroupIsTheOwners(t *testing.T) {
	c, _ := contain(t)
	s := shell("sleep 100")
	s.Containment = c
	f, err := supervise.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(f.Cgroup()); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want mode 0700", st.Mode(), err)
	}
	end(t, f)
}

// TestCgroupCrowd: 1,000 processes with a session each die, and are known to be dead.
func TestCgroupCrowd(t *testing.T) {
	c, _ := contain(t)
	f, b := startCrowd(t, 1000, c)
	killed := clock.Now()
	end(t, f)
	if _, err := os.Stat(f.Cgroup()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup of a family that is dead: %v", err)
	}
	last := b.lastAct()
	if last > f.Ended() {
		t.Errorf("one acted %v after the death of all", last.Sub(f.Ended()))
	}
	t.Logf("the last act after %v, dead after %v", last.Sub(killed), f.Ended().Sub(killed))
}

// TestCgroupOfDeadSupervisors: what both supervisors have left when they were killed at once
// is dead before another command of that name starts: of a life that begins then, and of one
// that has stood by.
func TestCgroupOfDeadSupervisors(t *testing.T) {
	for _, stands := range []bool{false, true} {
		t.Run(fmt.Sprintf("stands by: %t", stands), func(t *testing.T) {
			next, name := contain(t)
			s := newScene(t, "hostile", nil, "contain="+name)
			for _, pid := range []int{s.parent, int(s.board.Keeper.Load())} { // stopped first, so that neither acts on the other's death
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
			for _, pid := range []int{int(s.board.Keeper.Load()), s.parent} {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			_ = s.wait()
			eventually(t, "the keeper is dead", func() bool { return !alive(int(s.board.Keeper.Load())) })
			if daemon := int(s.board.Members[4].PID.Load()); !alive(daemon) {
				t.Fatal("nobody was left, so that nothing is shown")
			}
			if !stands {
				var err error
				if next, err = supervise.Contain(t.Context(), supervise.Sweep, name, nil); err != nil {
					t.Fatal(err)
				}
			}
			path, b := newBoard(t)
			exe := executable(t)
			start(t, supervise.Command{
				Path: exe, Args: []string{exe, "board=" + path, "place=0"}, Env: partEnv("member"), Containment: next, Stderr: os.Stderr,
			})
			eventually(t, "the next command runs", func() bool { return b.Members[0].First.Load() != 0 })
			first := clock.Boot(b.Members[0].First.Load())
			for _, pid := range s.pids {
				if s.lives(pid) {
					t.Errorf("process %d is alive beside the next command", pid)
				}
			}
			for n := range s.pids {
				if last := clock.Boot(s.board.Members[n].Alive.Load()); last > first {
					t.Errorf("member %d acted %v after the start of the next command", n, last.Sub(first))
				}
			}
		})
	}
}

// TestCgroupOfTheLiving: a family that has a supervisor is left alone by others of its name.
func TestCgroupOfTheLiving(t *testing.T) {
	for _, dead := range []string{"parent", "keeper", "none"} {
		t.Run(dead+" stopped", func(t *testing.T) {
			c, name := contain(t)
			s := newScene(t, "tree", nil, "contain="+name, "adopt=yes")
			switch dead {
			case "parent":
				s.kill(s.parent, syscall.SIGSTOP)
			case "keeper":
				// The parent would wake it up.
				s.kill(s.parent, syscall.SIGSTOP)
				s.kill(int(s.board.Keeper.Load()), syscall.SIGSTOP)
			}
			if _, err := supervise.Contain(t.Context(), supervise.Auto, name, nil); err != nil {
				t.Fatal(err)
			}
			second := shell("exit 0")
			second.Containment = c
			wait(t, start(t, second))
			for _, pid := range s.pids {
				if !alive(pid) {
					t.Errorf("process %d was killed", pid)
				}
			}
			had := s.compete()
			since := s.kill(s.parent, syscall.SIGKILL)
			_ = unix.Kill(int(s.board.Keeper.Load()), unix.SIGCONT)
			s.settle(since, had)
			eventually(t, "the cgroup is removed", func() bool { return len(cgroups(t, name)) == 0 })
		})
	}
}

// TestCgroupLeft: a process that has moved itself out of the cgroup is swept all the same,
// and cgroups that the family has made are removed with its own.
func TestCgroupLeft(t *testing.T) {
	c, _ := contain(t)
	root, _, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	w, lines := listen(t)
	command := shell(`own=$1$(sed -n s/^0:://p /proc/self/cgroup)
		mkdir -p $own/a/b && sh -c 'echo $$ >$0/a/b/cgroup.procs && echo $$ && exec sleep 300' $own &
		setsid sh -c 'echo $$ >$0/cgroup.procs && echo $$ && exec sleep 300' $1 &
		wait`)
	command.Args, command.Stdout, command.Containment = append(command.Args, "sh", root), w, c
	f := start(t, command)
	var pids []int
	for len(pids) < 2 && lines.Scan() {
		pid, _ := strconv.Atoi(lines.Text())
		pids = append(pids, pid)
	}
	end(t, f)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	if _, err := os.Stat(f.Cgroup()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup of a family that is dead: %v", err)
	}
}

// TestCgroupForkBomb: a fork bomb that has come to its limit of processes, which is pids.max,
// is dead at once.
func TestCgroupForkBomb(t *testing.T) {
	c, _ := contain(t)
	const limit = 100
	pids := boundedPIDs(t, limit)
	path, b := newBoard(t)
	command := shell(`echo $$ >"$0"/cgroup.procs && exec "$@"`)
	command.Args = append(command.Args, pids, executable(t), "board="+path)
	command.Env, command.Containment = partEnv("bomb"), c
	f := start(t, command)
	eventually(t, "the bomb has come to its limit", func() bool { return numberIn(pids+"/pids.current") == limit })
	end(t, f)
	if text, _ := os.ReadFile(pids + "/cgroup.procs"); len(text) > 0 {
		t.Errorf("alive: %q", text)
	}
	if last := clock.Boot(b.Members[1].Alive.Load()); last > f.Ended() {
		t.Errorf("one acted %v after the death of all", last.Sub(f.Ended()))
	}
}

// boundedPIDs makes a cgroup of version 1 with a limit of processes.
func boundedPIDs(t *testing.T, limit int) string {
	t.Helper()
	pids, err := os.MkdirTemp("/sys/fs/cgroup/pids", "elect-test-")
	if err != nil {
		t.Skipf("no limit for a fork bomb: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(pids); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(pids+"/pids.max", []byte(strconv.Itoa(limit)), 0); err != nil {
		t.Skipf("no limit for a fork bomb: %v", err)
	}
	return pids
}

// bomb forks as long as it is let, or about as often as SUPERVISE_FORKS says. Argument: board.
func bomb(args []string) {
	deafen()
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	forks, err := strconv.Atoi(os.Getenv("SUPERVISE_FORKS"))
	if err != nil {
		forks = 1 << 30
	}
	b.Members[2].PID.Store(int64(forks))
	bombMember(&b.Members[1], &b.Members[2])
	b.Members[0].live()
}

// bombMember forks without exec: see chain. Each process ends by itself after a while.
//
//go:norace
//go:nosplit
func bombMember(p, limit *place) {
	pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
	if pid != 0 || errno != 0 {
		return
	}
	slot, left := (*[2]int64)(unsafe.Pointer(p)), (*int64)(unsafe.Pointer(limit))
	var now unix.Timespec
	nap := unix.Timespec{Nsec: 20_000_000}
	for n := range 120 {
		if n == 10 { // its limit is reached, and a fork that fails costs as much as another: others use this machine, too
			nap = unix.Timespec{Sec: 1}
		}
		if *left > 0 {
			*left-- // some are lost, when two do it at once
			syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		}
		syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
		slot[0] = int64(pid)
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&now)), 0)
		slot[1] = int64(now.Sec)*1e9 + int64(now.Nsec)
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
	}
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}

// level prints the levels that this process has. Arguments: the levels that it wants, with +network for the guard.
func level(args []string) {
	for _, arg := range args {
		arg, network := strings.CutSuffix(arg, "+network")
		want, err := supervise.ParseLevel(arg)
		check(err)
		c, err := supervise.Contain(context.Background(), want, "level", nil)
		if network {
			check(err)
			fmt.Printf("network: %v\n", c.GuardNetwork())
			continue
		}
		if err != nil {
			fmt.Printf("%s: %v, %t\n", want, err, errors.Is(err, supervise.ErrContain))
			continue
		}
		fmt.Printf("%s: %s, missing %v\n", want, c.Level(), c.Missing())
	}
}

// TestCgroupOfOrdinaryUser: an ordinary user has cgroups where one was delegated to it, and
// else it is told what is missing.
func TestCgroupOfOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to become another user")
	}
	contain(t)
	exe := program(t)
	as := &syscall.Credential{Uid: nobody, Gid: nobody}
	for _, delegated := range []bool{false, true} {
		dir := delegate(t, delegated)
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, "auto", "sweep", "cgroup", "auto+network")
		cmd.Env, cmd.Stderr = partEnv("level"), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, UseCgroupFD: true, CgroupFD: fd}
		out, err := cmd.Output()
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		missing := "no cgroup can be made: mkdir " + dir
		want := []string{"auto: sweep, missing " + missing, "sweep: sweep, missing <nil>", "cgroup: " + supervise.ErrContain.Error() + ": " + missing,
			"network: " + supervise.ErrContain.Error() + ": the network guard needs the level cgroup: " + missing}
		if delegated {
			want = []string{"auto: cgroup, missing <nil>", "sweep: sweep, missing <nil>", "cgroup: cgroup, missing <nil>",
				"network: " + supervise.ErrContain.Error() + ": the network guard cannot be made: bpf(map): operation not permitted; want CAP_BPF and CAP_NET_ADMIN"}
		}
		lines := strings.Split(string(out), "\n")
		for n, text := range want {
			if !strings.HasPrefix(lines[n], text) {
				t.Errorf("delegated: %t: %q; want %q", delegated, lines[n], text)
			}
		}
	}
}

// delegate makes a cgroup, and delegates it to the ordinary user if yes is set. It is removed when the test ends.
func delegate(t *testing.T, yes bool) string {
	t.Helper()
	_, own, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(own, "delegated-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) // keepers, too, which then leave their families' cgroups
		eventually(t, "the delegated cgroup is empty", func() bool {
			below, _ := filepath.Glob(dir + "/elect-*")
			for _, path := range below {
				_ = unix.Rmdir(path)
			}
			return unix.Rmdir(dir) == nil
		})
	})
	if !yes {
		return dir
	}
	for _, file := range []string{"", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"} {
		if err := os.Chown(dir+file, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCgroupRefused: what is missing is named.
func TestCgroupRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("want root, to change what is mounted")
	}
	contain(t)
	root, _, err := supervise.OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ script, want string }{
		"not mounted": {"umount -l $0", "no cgroup2 file system"},
		"read only":   {"mount -o remount,bind,ro $0", "read-only file system; want one that can be written to"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", c.script+` && exec "$@"`, root, "/proc/self/exe", "cgroup")
			cmd.Args[4] = os.Args[0]
			cmd.Env, cmd.Stderr = partEnv("level"), os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), c.want) || !strings.HasSuffix(string(out), ", true\n") {
				t.Errorf("%q; want %q", out, c.want)
			}
		})
	}
}

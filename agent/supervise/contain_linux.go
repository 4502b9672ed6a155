package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Contain finds out whether this process can have the level, and what is missing if not.
// The name is that of the families: cgroups that a process of this user has made for that
// name, and whose supervisors are both dead, are killed and awaited first, wherever they
// are, at any level that is wanted. ctx bounds the waiting. For a hook (see
// [Containment.RunHook]) it waits 5 s at most.
func Contain(ctx context.Context, want Level, name string, log *slog.Logger) (*Containment, error) {
	c := &Containment{level: Sweep, prefix: "elect-" + name + "-", log: (&Command{Logger: log}).logger()}
	root, own, err := ownCgroup()
	if err == nil {
		if err := c.bury(ctx, root, true); err != nil {
			return nil, err
		}
	}
	if want == Sweep {
		return c, nil
	}
	if want == Pid {
		if err := c.tryNamespace(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrContain, err)
		}
		c.level = Pid
	}
	if c.parent = own; err == nil {
		err = c.try()
	}
	switch {
	case err == nil:
		c.level, c.cgroup, c.auto = max(c.level, Cgroup), true, want != Cgroup
	case want != Cgroup:
		c.missing = err
	default:
		return nil, fmt.Errorf("%w: %w", ErrContain, err)
	}
	return c, nil
}

// needsCgroup returns why the families have no cgroups, which what needs, or nil if they have them.
func (c *Containment) needsCgroup(what string) error {
	if c.cgroup {
		return nil
	}
	why := c.Missing()
	if why == nil {
		why = errors.New("the level is sweep; want cgroup or auto")
	}
	return fmt.Errorf("%s needs the level cgroup: %w", what, why)
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ownCgroup returns where the cgroup2 file system is mounted, and the directory in it for the cgroups of this process's
// families: its own cgroup or, after stepAside, the one that it has left.
func ownCgroup() (root, own string, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	return findCgroup(string(text), string(mounts))
}

// findCgroup is ownCgroup for the texts of the two files. Paths in them that begin with /.. are outside of the cgroup
// namespace: where this process is below them cannot be known.
func findCgroup(cgroup, mountinfo string) (root, own string, err error) {
	at, v2 := "", false
	for line := range strings.Lines(cgroup) {
		if path, ok := strings.CutPrefix(line, "0::"); ok && !strings.HasPrefix(path, "/..") {
			at, v2 = strings.TrimSuffix(path, "\n"), true
		}
	}
	for line := range strings.Lines(mountinfo) {
		where, what, _ := strings.Cut(line, " - ")
		fields := strings.Fields(where)
		if !v2 || !strings.HasPrefix(what, "cgroup2 ") || len(fields) < 5 || strings.HasPrefix(fields[3], "/..") {
			continue
		}
		below, err := filepath.Rel(unescape.Replace(fields[3]), at)
		if err == nil && filepath.IsLocal(below) {
			root = unescape.Replace(fields[4])
			if filepath.Base(below) == supervisors {
				below = filepath.Dir(below)
			}
			return root, filepath.Join(root, below), nil
		}
	}
	return "", "", errors.New("no cgroup2 file system with the cgroup of this process is mounted; " +
		"want one: mount -t cgroup2 none /sys/fs/cgroup/unified")
}

// try makes a cgroup and starts a process in it, which cannot be executed.
func (c *Containment) try() error {
	g, err := c.make(context.Background())
	if err != nil {
		return err
	}
	defer g.Remove()
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}
	g.Enter(attr.Sys)
	if _, err := syscall.ForkExec("/proc/self/none", []string{"none"}, attr); err != syscall.ENOENT {
		return fmt.Errorf("no process can be started in a cgroup in %s: %v; "+
			"want clone3 allowed, a cgroup that is a domain and whose cgroup.procs can be written to, and limits that let a process start", c.parent, err)
	}
	if c.network {
		return pierced(g)
	}
	return nil
}

// tryNamespace starts a process as a keeper of the level Pid, and has it make its /proc.
func (c *Containment) tryNamespace() error {
	attr := &syscall.SysProcAttr{}
	space := c.namespace(attr)
	status, err := probe(space, attr)
	if !c.user && errors.Is(err, fs.ErrPermission) {
		c.user = true
		return c.tryNamespace()
	}
	switch {
	case err != nil:
		return fmt.Errorf("no pid namespace can be made: %w; want root with CAP_SYS_ADMIN, or user namespaces for this user "+
			"(sysctl user.max_user_namespaces, and in a container a seccomp profile that allows them)", err)
	case status.ExitStatus() == 0:
		return nil
	}
	return fmt.Errorf("/proc cannot be mounted in a new pid namespace: %w; want one that is not masked or read-only "+
		"(in a container: procMount Unmasked, systempaths=unconfined), and AppArmor and SELinux to allow the mount", syscall.Errno(status.ExitStatus()))
}

// namespace makes a keeper start as the init of a pid namespace, with mounts of its own. An ordinary user may do that
// in a user namespace, in which it is the only user.
func (c *Containment) namespace(attr *syscall.SysProcAttr) keeper.Space {
	attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if !c.user {
		return keeper.OwnPids
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for the mounts: see keeper.settle
	return keeper.OwnUser
}

// bounds makes those of a command, and says where they are.
func (c *Containment) bounds(ctx context.Context) (b keeper.Bounds, path string, err error) {
	if c == nil || !c.cgroup {
		return keeper.Unbound{}, "", nil
	}
	if err := c.bury(ctx, c.parent, false); err != nil {
		return nil, "", err
	}
	g, err := c.make(ctx)
	switch {
	case err == nil:
		return g, g.Path, nil
	case c.auto && !c.network && c.limits == nil && ctx.Err() == nil:
		c.log.Warn("the command is started without a cgroup", "error", err)
		return keeper.Unbound{}, "", nil
	}
	return nil, "", fmt.Errorf("%w: %w", ErrContain, err)
}

// make makes a cgroup for a family. Another process may take it for that of a dead one
// until it is locked, and then makes it vanish. Other users cannot enter the directory, so they cannot lock what is in
// it.
func (c *Containment) make(ctx context.Context) (g *keeper.Cgroup, err error) {
	for range 16 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		path := filepath.Join(c.parent, c.prefix+strconv.FormatUint(uint64(rand.Uint32()), 16))
		if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if errors.Is(err, unix.EROFS) {
			return nil, fmt.Errorf("no cgroup can be made: %w; want one that can be written to, in a container a mount of its own", err)
		} else if err != nil {
			return nil, fmt.Errorf("no cgroup can be made: %w; want root, or a cgroup that is delegated to this user (systemd: Delegate=yes)", err)
		}
		if g, err = keeper.OpenCgroup(path); err == nil {
			if err = g.Limit(c.limits); err == nil && c.network {
				err = g.Guard(c.allow)
			}
			if err != nil {
				g.Remove()
				return nil, err
			}
		}
		if err == nil {
			return g, nil
		}
		_ = os.Remove(path)
		if errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return nil, err
}

// bury kills the families of c's name in dir, and below it with hooks if deep, whose supervisors are
// dead, and returns when they are dead.
func (c *Containment) bury(ctx context.Context, dir string, deep bool) (err error) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, failed error) error {
		switch {
		case failed != nil || !d.IsDir():
			return nil
		case path != dir && strings.HasPrefix(d.Name(), c.prefix) && !strings.Contains(d.Name()[len(c.prefix):], "-"):
			if strings.HasPrefix(d.Name(), c.prefix+hookMark) {
				if deep {
					err = c.endHook(ctx, path)
				}
			} else {
				err = c.end(ctx, path)
			}
			if err != nil {
				return fs.SkipAll
			}
		case path != dir && !deep:
			return fs.SkipDir
		}
		return nil
	})
	return err
}

// lockKillers returns a descriptor that holds a lock on cgroup.kill, or -1 if there is no such file, which open
// reports. One process at a time holds it, so that the lock on the directory is held by supervisors alone, and the next
// process waits until the family is dead.
func lockKillers(ctx context.Context, path string) (int, error) {
	fd, err := unix.Open(path+"/cgroup.kill", unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-again.C:
		case <-ctx.Done():
			unix.Close(fd)
			return -1, context.Cause(ctx)
		}
	}
	return fd, nil
}

// end kills the family in a cgroup if it has no supervisor. It leaves cgroups of other
// users alone: with a directory of its own making, a user could otherwise have root kill,
// or wait for, any process.
func (c *Containment) end(ctx context.Context, path string) error {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || int(st.Uid) != os.Geteuid() {
		return nil
	}
	one, err := lockKillers(ctx, path)
	if err != nil {
		return err
	}
	defer unix.Close(one)
	g, err := keeper.TakeCgroup(path)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return nil // it has a supervisor, or was removed
	} else if err != nil {
		return fmt.Errorf("%w: the cgroup of an earlier run cannot be killed: %w", ErrContain, err)
	}
	defer g.Close()
	if pids := g.Members(); len(pids) > 0 {
		c.log.Warn("killing the processes that an earlier run has left", "cgroup", path, "processes", len(pids))
	}
	return c.killAll(ctx, g, path)
}

// killAll kills the processes of a cgroup, waits until they are dead, and removes it.
func (c *Containment) killAll(ctx context.Context, g keeper.Bounds, path string) error {
	for patience := keeper.SurvivorsPatience; ; patience = keeper.SurvivorsAgain {
		if !g.Kill() {
			return fmt.Errorf("%w: the cgroup cannot be killed: %s/cgroup.kill cannot be written to", ErrContain, path)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if keeper.AwaitEmpty(g, 50*time.Millisecond) {
				keeper.RemoveCgroup(path)
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		text, _ := keeper.Survivors(g.Members(), strconv.Itoa)
		c.log.Warn("waiting for processes that were killed and are alive", "cgroup", path, "processes", text)
	}
}

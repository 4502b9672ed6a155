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
)

// cgroup is the control group (v2) of a family. Each supervisor of the family has a shared flock on its directory. So a
// later life that gets an exclusive one knows that both are dead; see lockKillers.
type cgroup struct {
	path   string
	dir    int
	events int       // cgroup.events
	killer int       // cgroup.kill
	net    *netGuard // nil if the network is not guarded
}

// Contain finds out whether this process can have the level, and what is missing if not.
// The name is that of the families: cgroups that a process of this user has made for that
// name, and whose supervisors are both dead, are killed and awaited first, wherever they
// are, at any level that is wanted. ctx bounds the waiting.
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
	if c.parent = own; err == nil {
		err = c.try()
	}
	switch {
	case err == nil:
		c.level, c.auto = Cgroup, want == Auto
	case want == Auto:
		c.missing = err
	default:
		return nil, fmt.Errorf("%w: %w", ErrContain, err)
	}
	return c, nil
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ownCgroup returns where the cgroup2 file system is mounted, and the directory of this
// process in it.
func ownCgroup() (root, own string, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	at, v2 := "", false
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok && !strings.HasPrefix(path, "/..") { // that is outside this cgroup namespace
			at, v2 = strings.TrimSuffix(path, "\n"), true
		}
	}
	for line := range strings.Lines(string(mounts)) {
		where, what, _ := strings.Cut(line, " - ")
		fields := strings.Fields(where)
		if !v2 || !strings.HasPrefix(what, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		below, err := filepath.Rel(unescape.Replace(fields[3]), at)
		if err == nil && filepath.IsLocal(below) {
			root = unescape.Replace(fields[4])
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
	defer g.remove()
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}
	g.enter(attr.Sys)
	if _, err := syscall.ForkExec("/proc/self/none", []string{"none"}, attr); err != syscall.ENOENT {
		return fmt.Errorf("no process can be started in a cgroup in %s: %v; "+
			"want clone3 allowed, and a cgroup that is a domain and whose cgroup.procs can be written to", c.parent, err)
	}
	if c.network {
		return g.pierced()
	}
	return nil
}

// bounds makes those of a command, and says where they are.
func (c *Containment) bounds(ctx context.Context) (b bounds, path string, err error) {
	if c.Level() != Cgroup {
		return unbound{}, "", nil
	}
	if err := c.bury(ctx, c.parent, false); err != nil {
		return nil, "", err
	}
	g, err := c.make(ctx)
	switch {
	case err == nil:
		return g, g.path, nil
	case c.auto && !c.network && ctx.Err() == nil:
		c.log.Warn("the command is started without a cgroup", "error", err)
		return unbound{}, "", nil
	}
	return nil, "", fmt.Errorf("%w: %w", ErrContain, err)
}

// make makes a cgroup for a family. Another process may take it for that of a dead one
// until it is locked, and then makes it vanish. Other users cannot enter the directory, so they cannot lock what is in
// it.
func (c *Containment) make(ctx context.Context) (g *cgroup, err error) {
	for range 16 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		path := filepath.Join(c.parent, c.prefix+strconv.FormatUint(uint64(rand.Uint32()), 16))
		if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("no cgroup can be made: %w; want root, or a cgroup that is delegated to this user (systemd: Delegate=yes)", err)
		}
		if g, err = openCgroup(path); err == nil && c.network {
			if g.net, err = newNetGuard(g.dir, c.allow); err != nil {
				g.remove()
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

// openCgroup opens the cgroup of a family as one of its supervisors.
func openCgroup(path string) (*cgroup, error) {
	g := &cgroup{path: path, dir: -1, events: -1, killer: -1}
	err := g.open(unix.LOCK_SH)
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// open opens and locks the cgroup, unless the lock is held otherwise.
func (g *cgroup) open(lock int) (err error) {
	if g.dir, err = unix.Open(g.path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: g.path, Err: err}
	}
	if err := unix.Flock(g.dir, lock|unix.LOCK_NB); err != nil {
		return &os.PathError{Op: "flock", Path: g.path, Err: err}
	}
	var held, there unix.Stat_t
	if unix.Fstat(g.dir, &held) != nil || unix.Stat(g.path, &there) != nil || held.Ino != there.Ino || held.Dev != there.Dev {
		return &os.PathError{Op: "stat", Path: g.path, Err: unix.ENOENT}
	}
	if g.events, err = unix.Openat(g.dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: g.path + "/cgroup.events", Err: err}
	}
	if g.killer, err = unix.Openat(g.dir, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("%w; want Linux 5.14 or later", &os.PathError{Op: "open", Path: g.path + "/cgroup.kill", Err: err})
	}
	return nil
}

func (g *cgroup) close() {
	if g.net != nil {
		g.net.close()
	}
	for _, fd := range []*int{&g.dir, &g.events, &g.killer} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

func (g *cgroup) enter(attr *syscall.SysProcAttr) { attr.UseCgroupFD, attr.CgroupFD = true, g.dir }

func (g *cgroup) kill() bool {
	for {
		if _, err := unix.Pwrite(g.killer, []byte("1"), 0); err != unix.EINTR {
			return err == nil || err == unix.ENODEV
		}
	}
}

// empty is the kernel's word that no process of the cgroup, or of one below it, is alive. A
// process that has closed its files and has yet to be reaped is dead to it.
func (g *cgroup) empty() bool {
	var buf [256]byte
	for {
		n, err := unix.Pread(g.events, buf[:], 0)
		switch {
		case err == unix.EINTR:
		case err == unix.ENODEV: // removed
			return true
		case err != nil:
			return false
		default:
			return strings.Contains(string(buf[:n]), "populated 0\n")
		}
	}
}

func (g *cgroup) changes() int { return g.events }

func (g *cgroup) prove(until int64) {
	if g.net != nil {
		g.net.until(until)
	}
}

func (g *cgroup) mute() {
	if g.net != nil {
		g.net.until(0)
		g.reset() // while the gate is open for that
		g.net.mute()
	}
}

func (g *cgroup) gate() int {
	if g.net == nil {
		return -1
	}
	return g.net.gate
}

func (g *cgroup) members() (pids []int) {
	_ = filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list, _ := os.ReadFile(path + "/cgroup.procs")
			pids = appendNumbers(pids, list)
		}
		return nil
	})
	return pids
}

// remove removes the cgroup, and those that the family has made in it. Another supervisor
// may have done so, or does it at the same time.
func (g *cgroup) remove() {
	removeCgroup(g.path)
	g.close()
}

func removeCgroup(path string) {
	for range 10 {
		if err := unix.Rmdir(path); err != unix.EBUSY && err != unix.EINTR {
			return
		}
		below, _ := os.ReadDir(path)
		for _, d := range below {
			if d.IsDir() {
				removeCgroup(filepath.Join(path, d.Name()))
			}
		}
	}
}

// bury kills the families of c's name in dir, and below it if deep, whose supervisors are
// dead, and returns when they are dead.
func (c *Containment) bury(ctx context.Context, dir string, deep bool) (err error) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, failed error) error {
		switch {
		case failed != nil || !d.IsDir():
			return nil
		case path != dir && strings.HasPrefix(d.Name(), c.prefix) && !strings.Contains(d.Name()[len(c.prefix):], "-"):
			if err = c.end(ctx, path); err != nil {
				return fs.SkipAll
			}
		case path != dir && !deep:
			return fs.SkipDir
		}
		return nil
	})
	return err
}

// lockKillers returns a descriptor that holds a lock on cgroup.kill, or -1 if there is no such file, which open reports.
// One process at a time holds it, so that the lock on the directory is held by supervisors alone, and the next process
// waits until the family is dead.
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

// end kills the family in a cgroup if nobody supervises it. One of another user is none
// of ours: who may make a directory could have root kill, or wait for, what it likes.
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
	g := &cgroup{path: path, dir: -1, events: -1, killer: -1}
	defer g.close()
	if err := g.open(unix.LOCK_EX); errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return nil // it has a supervisor, or was removed
	} else if err != nil {
		return fmt.Errorf("%w: the cgroup of an earlier life cannot be killed: %w", ErrContain, err)
	}
	if pids := g.members(); len(pids) > 0 {
		c.log.Warn("killing what an earlier life has left", "cgroup", path, "processes", len(pids))
	}
	for patience := survivorsPatience; ; patience = survivorsAgain {
		if !g.kill() {
			return fmt.Errorf("%w: the cgroup of an earlier life cannot be killed: %s/cgroup.kill cannot be written to", ErrContain, path)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if awaitEmpty(g, 50*time.Millisecond) {
				removeCgroup(path)
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		text, _ := survivors(g.members())
		c.log.Warn("waiting for the processes of an earlier life, which were killed and are alive", "cgroup", path, "processes", text)
	}
}

// openBounds opens those that the parent has made, and whose network guard has this gate.
func openBounds(path string, gate int) (bounds, error) {
	g, err := openCgroup(path)
	if err == nil && gate >= 0 {
		g.net = &netGuard{gate: gate}
	}
	return g, err
}

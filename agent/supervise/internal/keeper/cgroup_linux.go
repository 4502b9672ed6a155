package keeper

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cgroup is the control group (v2) of a family. Each supervisor of the family has a shared flock on its directory. So a
// later life that gets an exclusive one knows that both are dead; see lockKillers.
type Cgroup struct {
	Path   string
	dir    int
	events int       // cgroup.events
	killer int       // cgroup.kill
	net    *netGuard // nil if the network is not guarded
}

// OpenCgroup opens the cgroup of a family as one of its supervisors.
func OpenCgroup(path string) (*Cgroup, error) { return lockCgroup(path, unix.LOCK_SH) }

// TakeCgroup opens a cgroup if it has no supervisor.
func TakeCgroup(path string) (*Cgroup, error) { return lockCgroup(path, unix.LOCK_EX) }

func lockCgroup(path string, lock int) (*Cgroup, error) {
	g := &Cgroup{Path: path, dir: -1, events: -1, killer: -1}
	if err := g.open(lock); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// open opens and locks the cgroup, unless the lock is held otherwise.
func (g *Cgroup) open(lock int) (err error) {
	if g.dir, err = unix.Open(g.Path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: g.Path, Err: err}
	}
	if err := unix.Flock(g.dir, lock|unix.LOCK_NB); err != nil {
		return &os.PathError{Op: "flock", Path: g.Path, Err: err}
	}
	var held, there unix.Stat_t
	if unix.Fstat(g.dir, &held) != nil || unix.Stat(g.Path, &there) != nil || held.Ino != there.Ino || held.Dev != there.Dev {
		return &os.PathError{Op: "stat", Path: g.Path, Err: unix.ENOENT}
	}
	if g.events, err = unix.Openat(g.dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: g.Path + "/cgroup.events", Err: err}
	}
	if g.killer, err = unix.Openat(g.dir, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("%w; want Linux 5.14 or later", &os.PathError{Op: "open", Path: g.Path + "/cgroup.kill", Err: err})
	}
	return nil
}

func (g *Cgroup) Close() {
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

// Guard puts a network guard at the cgroup. It is closed, except for the allowed destinations.
func (g *Cgroup) Guard(allow []Destination) (err error) {
	g.net, err = newNetGuard(g.dir, allow)
	return err
}

// ErrValue is what Limit returns for a value that the kernel does not take.
var ErrValue = errors.New("want a value that the kernel takes, such as 2G, 100 or max")

// Limit sets limits of the cgroup. At that of memory the kernel kills all processes of the family together.
func (g *Cgroup) Limit(limits []Limit) error {
	for _, l := range limits {
		err := g.write(l.Name+".max", l.Value)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) {
			return fmt.Errorf("%w; %w", err, ErrValue)
		} else if err != nil {
			return fmt.Errorf("%w; want a limit that this kernel has", err)
		}
		if l.Name == "memory" {
			if err := g.write("memory.oom.group", "1"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Cgroup) write(file, value string) error {
	f, err := os.OpenFile(g.Path+"/"+file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

func (g *Cgroup) Enter(attr *syscall.SysProcAttr) { attr.UseCgroupFD, attr.CgroupFD = true, g.dir }

func (g *Cgroup) Kill() bool {
	for {
		if _, err := unix.Pwrite(g.killer, []byte("1"), 0); err != unix.EINTR {
			return err == nil || err == unix.ENODEV
		}
	}
}

// empty reports whether the kernel knows of no live process in the cgroup, or in one below
// it. It counts a process that has closed its files and is not reaped yet as dead.
func (g *Cgroup) empty() bool {
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

func (g *Cgroup) changes() int { return g.events }

func (g *Cgroup) Prove(until int64) {
	if g.net != nil {
		g.net.until(until)
	}
}

func (g *Cgroup) Mute() {
	if g.net != nil {
		g.net.until(0)
		g.reset() // while the gate is open for that
		g.net.mute()
	}
}

func (g *Cgroup) Gate() int {
	if g.net == nil {
		return -1
	}
	return g.net.gate
}

func (g *Cgroup) Members() (pids []int) {
	eachCgroup(g.Path, func(path string) {
		list, _ := os.ReadFile(path + "/cgroup.procs")
		pids = appendNumbers(pids, list)
	})
	return pids
}

// eachCgroup calls visit for a cgroup and all below it.
func eachCgroup(path string, visit func(path string)) {
	visit(path)
	below, _ := os.ReadDir(path)
	for _, d := range below {
		if d.IsDir() {
			eachCgroup(path+"/"+d.Name(), visit)
		}
	}
}

// Remove removes the cgroup, and those that the family has made in it. Another supervisor
// may have done so, or does it at the same time.
func (g *Cgroup) Remove() {
	RemoveCgroup(g.Path)
	g.Close()
}

func RemoveCgroup(path string) {
	for range 10 {
		if err := unix.Rmdir(path); err != unix.EBUSY && err != unix.EINTR {
			return
		}
		below, _ := os.ReadDir(path)
		for _, d := range below {
			if d.IsDir() {
				RemoveCgroup(path + "/" + d.Name())
			}
		}
	}
}

// openBounds opens those that the parent has made, and whose network guard has this gate.
func openBounds(path string, gate int) (Bounds, error) {
	g, err := OpenCgroup(path)
	if err == nil && gate >= 0 {
		g.net = &netGuard{gate: gate}
	}
	return g, err
}

//go:build linux

package disk

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// fuseDisk is a volume that is mounted.
type fuseDisk struct {
	*volume
	path   string
	served chan struct{} // closed when the kernel asks nothing any more
}

// NewFUSE makes a disk in dir, which is made if it is absent, that can have all
// faults. Its files are in the memory of this process, and gone with it. Where
// FUSE cannot be used, because /dev/fuse is missing or this is not root, the error
// matches [ErrUnable].
//
// This process should leave the files to others: a file of the disk that it has
// open while it starts a process can block both for ever.
func NewFUSE(dir string) (Disk, error) {
	path, err := place(dir, "disk")
	if err != nil {
		return nil, err
	}
	source, err := sweep()
	if err != nil {
		return nil, err
	}
	d := &fuseDisk{volume: newVolume(), path: path, served: make(chan struct{})}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: /dev/fuse: %w", ErrUnable, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other,default_permissions,max_read=%d",
		fd, os.Geteuid(), os.Getegid(), maxWrite)
	if err := unix.Mount(source, path, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		err = errors.Join(fmt.Errorf("mount: %w", err), unix.Close(fd))
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
			err = fmt.Errorf("%w: FUSE: %w", ErrUnable, err)
		}
		return nil, err
	}
	// The server has the device from here on. Without the option DirectMount it
	// sees to it that no child inherits it, which would keep a mount of a dead
	// server waiting for answers.
	server, err := fuse.NewServer(service{fuse.NewDefaultRawFileSystem(), d.volume}, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		MaxWrite:                 maxWrite,
		DisableXAttrs:            true,
		DisableReadDirPlus:       true,
		ExplicitDataCacheControl: true, // what was lost stays in the kernel's memory until that drops it
		// It tells of each answer to a process that was killed meanwhile.
		Logger:       log.New(io.Discard, "", 0),
		PanicHandler: func(cause any) fuse.Status { panic(cause) },
	})
	if err != nil {
		return nil, errors.Join(err, detach(path))
	}
	go func() {
		defer close(d.served)
		server.Serve()
	}()
	if err := refusePolls(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// maxWrite is the most that one request reads or writes, in bytes. A greater
// write(2) is several of them.
const maxWrite = 128 << 10

// refusePolls has the kernel ask whether files can be polled, by the name that the
// server has for that. The answer is no, and it never asks again. Else Go's
// runtime would ask when this process opens a file, on a thread that the answer may
// need.
func refusePolls(path string) error {
	fd, err := unix.Open(filepath.Join(path, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return errors.Join(err, unix.Close(fd))
}

func (d *fuseDisk) Path() string { return d.path }

func (d *fuseDisk) Can(Fault) error { return nil }

func (d *fuseDisk) Fault(f Fault) error {
	d.setFault(f)
	return nil
}

func (d *fuseDisk) Snapshot(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return errors.New("there is no power")
	}
	d.snapshots[name] = d.tree.copy(true)
	return nil
}

func (d *fuseDisk) Restore(name string) error {
	return d.named("restore "+name, func(*tree) (*tree, error) {
		kept := d.snapshots[name]
		if kept == nil {
			return nil, os.ErrNotExist
		}
		return kept.copy(false), nil
	})
}

func (d *fuseDisk) Wipe() error {
	return d.named("wipe", func(t *tree) (*tree, error) {
		after := newTree()
		after.root.mode, after.root.uid, after.root.gid = t.root.mode, t.root.uid, t.root.gid
		return after, nil
	})
}

func (d *fuseDisk) PowerLoss() error {
	return d.named("power loss", func(t *tree) (*tree, error) { return t.outage(d.fault.Torn, d.fault.Luck), nil })
}

func (d *fuseDisk) named(what string, next func(*tree) (*tree, error)) error {
	if err := d.replace(next); err != nil {
		return fmt.Errorf("%s: %s: %w", d.path, what, err)
	}
	return nil
}

func (d *fuseDisk) Close() error {
	d.mu.Lock()
	select {
	case <-d.served:
		d.mu.Unlock()
		return nil
	default:
	}
	d.off = true
	d.turn()
	d.mu.Unlock()
	if err := detach(d.path); err != nil {
		return err
	}
	<-d.served
	return d.tree.root.export(d.path)
}

// detach unmounts path, even if it is in use. FUSE answers all that are still waiting with an
// error.
func detach(path string) error {
	if err := unix.Unmount(path, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// place makes the directory name in dir, and returns its absolute path.
func place(dir, name string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.MkdirAll(path, 0o700)
}

// sourcePrefix begins the names of our mounts' sources. The process that mounted it
// follows, with the time at which that began, by which it is told from a later one.
const sourcePrefix = "elect-chaos-disk:"

// sweep removes what processes have left mounted that are dead, and returns the
// source of this one's mounts.
func sweep() (source string, err error) {
	source = sourceOf(os.Getpid())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		// 36 35 98:0 / /mnt rw,noatime master:1 - fuse source rw
		head, tail, _ := strings.Cut(line, " - ")
		at, of := strings.Fields(head), strings.Fields(tail)
		if len(at) < 5 || len(of) < 2 || !strings.HasPrefix(of[1], sourcePrefix) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(of[1][len(sourcePrefix):], "%d:", &pid); err != nil || sourceOf(pid) == of[1] {
			continue
		}
		// Another process may be sweeping too.
		if err := detach(unescape(at[4])); err != nil && !errors.Is(err, unix.EINVAL) {
			return "", fmt.Errorf("left over by process %d: %w", pid, err)
		}
	}
	return source, nil
}

// sourceOf names the source of a process's mounts. The process may be none any
// more: then no mount has that name.
func sourceOf(pid int) string {
	s, ok := proc.Read(pid)
	if !ok || s.Dead() {
		return ""
	}
	return fmt.Sprintf("%s%d:%d", sourcePrefix, pid, s.Start)
}

// unescape is a path as mountinfo has it, with \040 for a space and the like.
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		var c byte
		if path[i] == '\\' && i+3 < len(path) {
			if _, err := fmt.Sscanf(path[i+1:i+4], "%03o", &c); err == nil {
				b.WriteByte(c)
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

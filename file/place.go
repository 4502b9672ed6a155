//go:build linux || darwin || freebsd

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
)

// identity tells one inode from all others that exist. As long as one has it
// open it cannot be given to another.
type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

// place is an election's directory and its lock file as one candidate has them
// open. It may hold an flock on each: the one on lock first, which is where
// candidates queue, then the one on dir, so that a lock file that was replaced
// in the same directory does not let in a second holder.
type place struct {
	path      string // of the directory, absolute
	lockPath  string
	dir, lock *os.File
	dirID     identity
	lockID    identity
	access    access
	log       *slog.Logger
}

// openPlace opens the election at path and creates what is missing, except for
// the counter. It holds no lock yet.
func openPlace(path string, log *slog.Logger) (_ *place, err error) {
	if err := makeDirs(path); err != nil {
		return nil, err
	}
	dir, err := openDir(path)
	if err != nil {
		return nil, explain("open", path, err)
	}
	p := &place{path: path, lockPath: path + "/" + lockName, dir: dir, log: log}
	defer func() {
		if err != nil {
			p.close()
		}
	}()

	if err := checkFileSystem(path, slog.New(slog.DiscardHandler)); err != nil { // New has logged
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd(), &st); err != nil {
		return nil, explain("stat", path, err)
	}
	p.dirID = identityOf(&st)
	p.access = accessOf(&st)
	// Whoever may open the directory may lock it, and so keep all candidates
	// out; whoever may write to it may replace the lock file.
	if st.Mode&0o007 != 0 {
		if err := unix.Fchmod(p.dirfd(), uint32(st.Mode)&0o7770); err != nil {
			log.Warn("anybody may block this election or replace its lock; want mode 0700, or 0770 for a group",
				"dir", path, "mode", modeString(uint32(st.Mode)), "owner", st.Uid)
		}
	}
	return p, p.openLock()
}

func openDir(path string) (*os.File, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openLock opens the lock file, and makes it if there is none. It asks for an
// existing one first and never creates without O_EXCL: with the sysctl
// fs.protected_regular, O_CREAT alone fails on another user's file.
func (p *place) openLock() error {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	name := p.lockPath
	for range 100 {
		fd, err := p.openat(lockName, flags, 0)
		made := false
		if err == unix.ENOENT {
			fd, err = p.openat(lockName, flags|unix.O_CREAT|unix.O_EXCL, 0o600)
			made = err == nil
			if err == unix.EEXIST {
				continue
			}
		}
		if err != nil {
			return explain("open", name, err)
		}
		p.lock = os.NewFile(uintptr(fd), name)
		if made {
			p.access.apply(fd, name, p.log)
		}
		return p.checkLock(name)
	}
	return fmt.Errorf("%s comes and goes; want nobody to delete it", name)
}

// checkLock looks at the lock file that was opened.
func (p *place) checkLock(name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(p.lockfd(), &st); err != nil {
		return explain("stat", name, err)
	}
	p.lockID = identityOf(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return driver.Permanent(fmt.Errorf("%s is not a regular file; remove it", name))
	}
	if st.Nlink > 1 {
		return driver.Permanent(fmt.Errorf("%s has %d names, and may be somebody else's file; want a file of its own", name, st.Nlink))
	}
	// Whoever may read the file may lock it, and so keep all candidates out.
	if st.Mode&0o007 != 0 {
		if int(st.Uid) != os.Geteuid() || unix.Fchmod(p.lockfd(), p.access.mode) != nil {
			p.log.Warn("anybody may block this election by locking its file; want mode 0600, or 0660 for a group",
				"file", name, "mode", modeString(uint32(st.Mode)), "owner", st.Uid)
		}
	}
	return nil
}

func (p *place) dirfd() int  { return int(p.dir.Fd()) }
func (p *place) lockfd() int { return int(p.lock.Fd()) }

func (p *place) openat(name string, flags int, mode uint32) (int, error) {
	return ignoringEINTR(func() (int, error) { return unix.Openat(p.dirfd(), name, flags, mode) })
}

func ignoringEINTR(open func() (int, error)) (int, error) {
	for {
		if fd, err := open(); err != unix.EINTR {
			return fd, err
		}
	}
}

// take waits for both locks. It returns errInterrupted if ctx ended, or if it
// was found that other files are in place by now.
func (p *place) take(ctx context.Context) error {
	moved := func() bool { return p.verify() != nil }
	for _, f := range []*os.File{p.lock, p.dir} {
		err := waitFlock(ctx, int(f.Fd()), moved)
		if err != nil && err != errInterrupted {
			err = explain("flock", f.Name(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errMoved: the files that are in place are not those that are open.
var errMoved = fmt.Errorf("%w: its lock is no longer in place", driver.ErrSuperseded)

// verify returns nil while the paths lead to what is open. An error matches
// driver.ErrSuperseded when they lead elsewhere or nowhere, and
// driver.ErrUnreachable when that cannot be told. It takes 4 µs.
func (p *place) verify() error {
	var st unix.Stat_t
	for _, at := range [...]struct {
		path string
		id   identity
		stat func(string, *unix.Stat_t) error
	}{
		{p.lockPath, p.lockID, unix.Lstat},
		{p.path, p.dirID, unix.Stat},
	} {
		err := at.stat(at.path, &st)
		for err == unix.EINTR {
			err = at.stat(at.path, &st)
		}
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			return fmt.Errorf("%w: %s was deleted or moved away", errMoved, at.path)
		case err != nil:
			return fmt.Errorf("%w: the lock cannot be looked at: stat %s: %w", driver.ErrUnreachable, at.path, err)
		case identityOf(&st) != at.id:
			return fmt.Errorf("%w: %s was replaced", errMoved, at.path)
		}
	}
	return nil
}

// sealPrefix is how a lock file starts that has been led with.
const sealPrefix = "elect lock 1 era="

// seal is what the lock file contains while nothing was done to it or to the
// directory since a leader was elected: a copy has other inodes, and creating,
// deleting or renaming anything in the directory, or the directory itself,
// changes its change time.
func (p *place) seal(era uint64) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd(), &st); err != nil {
		return "", explain("stat", p.path, err)
	}
	return fmt.Sprintf("%s%d lock=%x:%x dir=%x:%x ctime=%x\n", sealPrefix, era,
		p.lockID.dev, p.lockID.ino, p.dirID.dev, p.dirID.ino, st.Ctim.Nano()), nil
}

// history is what a lock file tells about the elections before.
type history struct {
	used   bool   // somebody has led with this lock, so there must be a counter
	era    uint64 // the one of the last leader, if used
	torn   bool   // the era is not known: the power failed while the seal was written
	intact bool   // nothing was touched since
}

// history reads the seal.
func (p *place) history() (history, error) {
	name := p.lockPath
	b := make([]byte, 512)
	n, err := p.lock.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return history{}, explain("read", name, err)
	}
	got := strings.TrimRight(string(b[:n]), "\x00")
	if got == "" { // made by flock(1), or never written back before a crash
		return history{}, nil
	}
	h := history{used: true}
	if era, ok := strings.CutPrefix(got, sealPrefix); strings.HasPrefix(sealPrefix, got) || ok && !strings.Contains(era, " ") {
		h.torn = true
		return h, nil
	}
	if _, err := fmt.Sscanf(got, sealPrefix+"%d", &h.era); err != nil {
		return history{}, driver.Permanent(fmt.Errorf("%s contains %.20q, which elect did not write; want an empty file or none", name, got))
	}
	want, err := p.seal(h.era)
	h.intact = got == want
	return h, err
}

// writeSeal is done last by a new leader, when it changes nothing in the
// directory any more. It is not synced: one that is lost, or torn, costs one HoldOff.
func (p *place) writeSeal(era uint64) error {
	text, err := p.seal(era)
	if err != nil {
		return err
	}
	name := p.lockPath
	if _, err := p.lock.WriteAt([]byte(text), 0); err != nil {
		return explain("write", name, err)
	}
	if err := p.lock.Truncate(int64(len(text))); err != nil {
		return explain("truncate", name, err)
	}
	return nil
}

// settle waits out what a leader needs that had its lock taken away.
func (p *place) settle(ctx context.Context) (history, error) {
	h, err := p.history()
	if err != nil || h.intact {
		return h, err
	}
	timer := time.NewTimer(HoldOff)
	defer timer.Stop()
	select {
	case <-timer.C:
		return h, p.verify()
	case <-ctx.Done():
		return h, errInterrupted
	}
}

// letGo unlocks and closes. The locks are undone by name and not left to close:
// a child that was forked by another thread and has not yet called exec has the
// descriptors too. Undoing a lock that another process undid before is nothing,
// also if a third holds it by now. The directory comes first, because whoever is
// next waits for the lock file and would at once have to wait for it again.
func (p *place) letGo() error {
	return cmp.Or( // each of them is carried out
		unannounce(p.lockfd()),
		unix.Flock(p.dirfd(), unix.LOCK_UN),
		unix.Flock(p.lockfd(), unix.LOCK_UN),
		p.close(),
	)
}

func (p *place) close() error {
	var err error
	if p.lock != nil {
		err = p.lock.Close()
	}
	return cmp.Or(err, p.dir.Close())
}

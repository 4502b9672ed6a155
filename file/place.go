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
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	dirs "github.com/electd/elect/internal/place"
)

// identity distinguishes an inode from all others. While a process has the inode open the system cannot reuse it.
type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

// place is an election's directory and its lock file as one candidate has them open. It may hold an flock on each:
// first the one on lock, on which candidates queue, then the one on dir, so that a lock file that was replaced in the
// same directory does not let in a second holder.
type place struct {
	at        *dirs.Dir
	path      string // of the directory, absolute
	lockPath  string
	dir, lock *os.File // dir is that of at
	dirID     identity
	lockID    identity
	access    access
	log       *slog.Logger
}

// directory returns the place of an election's own directory.
func directory(path string) dirs.At {
	return dirs.At{Path: filepath.Dir(path), Below: []string{filepath.Base(path)}, Group: true}
}

// openPlace opens the election at path and creates what is missing, except for
// the counter. It holds no lock yet.
func openPlace(path string, shared bool, log *slog.Logger) (_ *place, err error) {
	where := directory(path)
	where.Shared = shared
	dir, err := where.Make()
	if err != nil {
		return nil, explainPlace(err)
	}
	p := &place{at: dir, path: path, lockPath: path + "/" + lockName, dir: dir.File(), log: log}
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
	// A process that can open the directory can lock it, and so exclude all candidates. One that can write to it can
	// replace the lock file. The mode is its owner's choice all the same.
	if st.Mode&0o007 != 0 {
		log.Warn("every user can block this election, or replace its lock; want mode 0700, or 0770 for a group",
			"dir", path, "mode", modeString(uint32(st.Mode)), "owner", st.Uid)
	}
	return p, p.openLock()
}

// openLock opens the lock file, and makes it if there is none.
func (p *place) openLock() (err error) {
	var made bool
	if p.lock, made, err = p.at.OpenOrCreate(lockName, os.O_RDWR, 0o600); err != nil {
		return explainPlace(err)
	}
	if made {
		p.access.apply(p.lockfd(), p.lockPath, p.log)
	}
	var st unix.Stat_t
	if err := unix.Fstat(p.lockfd(), &st); err != nil {
		return explain("stat", p.lockPath, err)
	}
	p.lockID = identityOf(&st)
	// A process that can read the file can lock it, and so exclude all candidates.
	if st.Mode&0o007 != 0 {
		p.log.Warn("every user can block this election by locking its file; want mode 0600, or 0660 for a group",
			"file", p.lockPath, "mode", modeString(uint32(st.Mode)), "owner", st.Uid)
	}
	return nil
}

func (p *place) dirfd() int  { return int(p.dir.Fd()) }
func (p *place) lockfd() int { return int(p.lock.Fd()) }

// take waits for both locks. It returns errInterrupted if ctx ended, or if other files are in place by now.
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

// errMoved means that the files in place are not the open ones.
var errMoved = fmt.Errorf("%w: its lock is no longer in place", driver.ErrSuperseded)

// verify returns nil while the paths lead to the open files. The error matches driver.ErrSuperseded if they lead
// elsewhere or nowhere, and driver.ErrUnreachable if that is not known. It takes 4 µs.
func (p *place) verify() error {
	var st unix.Stat_t
	for _, is := range [...]struct {
		path string
		id   identity
	}{{p.lockPath, p.lockID}, {p.path, p.dirID}} {
		err := unix.Lstat(is.path, &st)
		for err == unix.EINTR {
			err = unix.Lstat(is.path, &st)
		}
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			return fmt.Errorf("%w: %s was deleted or moved away", errMoved, is.path)
		case err != nil:
			return fmt.Errorf("%w: the lock cannot be looked at: stat %s: %w", driver.ErrUnreachable, is.path, err)
		case identityOf(&st) != is.id:
			return fmt.Errorf("%w: %s was replaced", errMoved, is.path)
		}
	}
	return nil
}

// sealPrefix is the beginning of a lock file with which a candidate has led.
const sealPrefix = "elect lock 1 era="

// seal is the content of the lock file if nothing was done to it or to the directory since a leader was elected. A
// copy has other inodes. Creating, deleting or renaming a file in the directory, or renaming the directory itself,
// changes its change time.
func (p *place) seal(era uint64) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd(), &st); err != nil {
		return "", explain("stat", p.path, err)
	}
	return fmt.Sprintf("%s%d lock=%x:%x dir=%x:%x ctime=%x\n", sealPrefix, era,
		p.lockID.dev, p.lockID.ino, p.dirID.dev, p.dirID.ino, st.Ctim.Nano()), nil
}

// history is what a lock file tells about earlier leaders.
type history struct {
	used   bool   // a candidate has led with this lock, so there must be a counter
	era    uint64 // the one of the last leader, if used
	torn   bool   // the era is not known: the power failed while the seal was written
	intact bool   // nothing was changed since
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
	if got == "" { // made by flock(1), or never written to the disk before a crash
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

// writeSeal is a new leader's last step, after its last change in the directory. The seal is not synced: a lost or
// torn one costs one HoldOff.
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

// settle waits, HoldOff for users: as long as a leader needs whose lock was taken away.
func (p *place) settle(ctx context.Context, wait time.Duration) (history, error) {
	h, err := p.history()
	if err != nil || h.intact {
		return h, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return h, p.verify()
	case <-ctx.Done():
		return h, errInterrupted
	}
}

// letGo unlocks and closes. It unlocks explicitly instead of leaving that to close: a child that another thread has
// forked and that has not yet called exec has the descriptors too. Undoing a lock that another process has undone
// does nothing, even if a third process holds the lock by now. It undoes the directory's lock first: the next holder
// of the lock file would otherwise wait again at once.
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
	return cmp.Or(err, p.at.Close())
}

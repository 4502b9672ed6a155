//go:build linux || darwin || freebsd

package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/file/internal/durable"
)

// made are the files of an election, and their types.
var made = map[string]uint32{
	lockName: unix.S_IFREG, durable.Name: unix.S_IFREG, durable.Name + ".new": unix.S_IFREG, recordName: unix.S_IFREG, recordNewName: unix.S_IFREG,
	controlName: unix.S_IFSOCK, controlNewName: unix.S_IFSOCK,
}

// Forget removes the files of an election that is over, at a URL as [Open] takes it, and returns the last token in
// its record, 0 if there is none. It keeps the counter, so that tokens go on rising if the election is held again; if
// tokens is set it removes the counter and the directory, too. It takes the lock first, and follows no link. If a
// process leads, or has the lock for another reason, or the directory contains a file that no candidate makes, Forget
// removes nothing and returns an error. The error matches fs.ErrNotExist if there is no such election.
func Forget(u *url.URL, name string, tokens bool) (last fence.Token, err error) {
	dir, cfg, err := parse(u)
	if err != nil {
		return 0, err
	}
	_, path, err := cfg.check(dir, name, "forget")
	if err != nil {
		return 0, err
	}
	where := directory(path)
	where.Shared = cfg.SharedPlace
	opened, err := where.Open()
	if err != nil {
		return 0, cmp.Or(absent(err, path), explainPlace(err))
	}
	p := &place{at: opened, path: path, lockPath: path + "/" + lockName, dir: opened.File(), log: slog.New(slog.DiscardHandler)}
	defer func() { _ = p.close() }() // no written data can be lost here
	if err := p.seize(); err != nil {
		return 0, err
	}
	names, err := p.remains()
	if err != nil {
		return 0, err
	}
	if len(names) == 0 || !tokens && len(names) == 1 && names[0] == durable.Name {
		return 0, absent(fs.ErrNotExist, path)
	}
	last = p.lastToken()
	for _, n := range names {
		if n == durable.Name && !tokens {
			continue
		}
		if err := unix.Unlinkat(p.dirfd(), n, 0); err != nil && err != unix.ENOENT {
			return last, explain("unlink", path+"/"+n, err)
		}
	}
	if tokens {
		// a new candidate has arrived
		if err := unix.Rmdir(path); err != nil && err != unix.ENOENT && err != unix.ENOTEMPTY && err != unix.EEXIST {
			return last, explain("rmdir", path, err)
		}
	}
	return last, nil
}

// absent is the error for an election that does not exist; nil if err is another one.
func absent(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no election was held at %s, or it is forgotten: %w", path, fs.ErrNotExist)
	}
	return nil
}

// seize takes both locks if they are free. If there is no lock file, as after Forget, the directory's is enough: no
// candidate leads without it.
func (p *place) seize() error {
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd(), &st); err != nil {
		return explain("stat", p.path, err)
	}
	p.dirID = identityOf(&st)
	locks := []*os.File{p.dir}
	switch f, err := p.at.Open(lockName, os.O_RDWR); {
	case err == nil:
		p.lock = f
		var st unix.Stat_t
		if err := unix.Fstat(p.lockfd(), &st); err != nil {
			return explain("stat", p.lockPath, err)
		}
		p.lockID = identityOf(&st)
		locks = []*os.File{p.lock, p.dir} // the order of candidates
	case !errors.Is(err, fs.ErrNotExist):
		return explainPlace(err)
	}
	for _, f := range locks {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
		case unix.EWOULDBLOCK:
			return p.taken()
		default:
			return explain("flock", f.Name(), err)
		}
	}
	if p.lock == nil {
		return nil
	}
	return p.verify()
}

// taken is the error that names the holder of the lock.
func (p *place) taken() error {
	r := newReader(p.path, p.log)
	defer r.close()
	const want = "want all its candidates ended first"
	if l, _, err := r.leader(); err == nil && l != nil {
		return fmt.Errorf("%w: %s leads with token %v; %s", driver.ErrIneligible, l.ID, l.Token, want)
	}
	return fmt.Errorf("%w: a process has the lock of %s; %s", driver.ErrIneligible, p.path, want)
}

// remains lists the files of the election, the counter last: a directory with a counter and without a lock is that of
// a forgotten election.
func (p *place) remains() (names []string, err error) {
	entries, err := p.dir.ReadDir(-1)
	if err != nil {
		return nil, explain("read", p.path, err)
	}
	counted := false
	for _, e := range entries {
		var st unix.Stat_t
		if err := unix.Fstatat(p.dirfd(), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, explain("stat", p.path+"/"+e.Name(), err)
		}
		if kind, ok := made[e.Name()]; !ok || uint32(st.Mode)&unix.S_IFMT != kind {
			return nil, driver.Permanent(fmt.Errorf("%s contains %q, which no candidate has made; want it moved elsewhere first", p.path, e.Name()))
		}
		if e.Name() == durable.Name {
			counted = true
			continue
		}
		names = append(names, e.Name())
	}
	if counted {
		names = append(names, durable.Name)
	}
	return names, nil
}

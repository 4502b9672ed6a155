// Package file is the back end for candidates on one machine. The kernel manages the lock, so that a leader's death
// takes effect at once and no clock plays a part.
//
// An election is one directory, DIR/NAME, with four files:
//
//	lock     the leader holds a lock on it, and one on the directory
//	counter  the last token, on the disk before it is used
//	record   the leader, for observers; true only while the lock says so
//	control  a unix socket, on which the leader is asked to resign
//
// # Concurrency
//
// An Elector and its mandates may be used by any number of goroutines, within the rules of package driver. A
// candidate that waits takes one thread of the operating system, asleep in flock(2), and four descriptors; it wakes
// once a second to see whether the lock was moved. Go programs end when they reach 10,000 threads. To end a wait
// early on Linux, the candidate makes the kernel restart flock on a descriptor that has no locks: it leaves the queue
// without a trace. It sends the thread a SIGURG for that, which the Go runtime handles; no signal's disposition
// changes. On other systems it polls the lock.
//
// # Failure
//
// A leader's death frees the lock when its last descriptor is closed, which the kernel does when the process ends. A
// leader that hangs keeps it for ever. A record, a socket and a lock file that a crash leaves behind are harmless.
// When the lock file or the directory is deleted, replaced or moved away under a leader, its Check fails at once and
// its context ends within 100 ms; the next leader of a lock that it has not seen before waits [HoldOff] before it
// starts. Two cases escape that wait: a directory above the election's is exchanged for another one in which the same
// election has been held, and file systems that do not update a directory's change time when it is renamed. Tokens
// then tell the two leaders apart only as far as both counters went.
//
// Package place opens the directory and the files in it. It follows no link below DIR, and refuses what another user
// could own. It does not change the mode and owner of what exists.
//
// Network file systems do not honour the locks across machines, so they are refused. flock(1) on the lock file
// excludes every candidate, and a leader excludes flock(1).
package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

const (
	// Poll is how often an observer checks for a change, and how often a leader checks that its lock is still in place.
	// A check takes a few microseconds.
	Poll = 50 * time.Millisecond

	// HoldOff is how long the winner of a new lock waits, holding it, before it leads. A lock is new if its file or its
	// directory was just created, copied, moved or changed. Then there may be a leader whose lock was taken away. That
	// leader, and its keeper, notice within 50 ms of running time and need as long again to end the work. The rest is
	// for a machine that lets them run late. No wait can prove that: a leader that is stopped, or gets next to no CPU,
	// for longer than this overlaps with the next.
	HoldOff = 500 * time.Millisecond
)

// ErrHoldOff is matched by the cause of a state without a leader: the candidate that has
// the lock waits for [HoldOff] before it leads.
var ErrHoldOff error = newElection

// holdOff describes an election in which a candidate waits for HoldOff, for people.
type holdOff string

const (
	newElection     holdOff = "a new election"
	changedElection holdOff = "an election whose files were changed"
)

// Error implements error.
func (h holdOff) Error() string {
	return fmt.Sprintf("%s waits %v s before its next leader begins", string(h), HoldOff.Seconds())
}

// Is reports whether target is ErrHoldOff.
func (h holdOff) Is(target error) bool { return target == ErrHoldOff }

// Config configures a participant. The zero value is valid.
type Config struct {
	// Era is the upper part of every token, from 0 to fence.MaxEra. It is 0 until an operator restores the counter from
	// a backup or makes it anew, and raises the era at every candidate so that tokens go on rising.
	Era uint64

	// SharedPlace allows a process of root to stand in a place that other users can
	// write to or replace. Without it, such a place is refused. It has no effect for
	// users other than root.
	SharedPlace bool

	// Logger receives what is not an error but worth knowing. Nil is silence.
	Logger *slog.Logger
}

var _ driver.Opener = Open

// Open opens the election of t at a URL such as file:/var/lib/elect or
// file:state/elect, which is relative to the working directory. The parameters are
// era=N and shared-place=true, see [Config]. Like [New] it creates nothing.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir, cfg, err := parse(t.URL)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	cfg.Logger = t.Logger
	e, err := New(dir, t.Name, t.ID, cfg)
	if err != nil {
		return nil, err // so that a driver.Elector never holds a nil *Elector
	}
	return e, nil
}

// parse reads a file URL. Its errors do not repeat the URL, which may hold a secret by mistake; the caller knows it.
func parse(u *url.URL) (dir string, cfg Config, err error) {
	const want = "want a directory, as in file:/var/lib/elect"
	switch {
	case u == nil:
		return "", cfg, errors.New("no URL; " + want)
	case u.Scheme != "file":
		return "", cfg, fmt.Errorf("scheme %q; want file", u.Scheme)
	case u.User != nil:
		return "", cfg, errors.New("a file URL has no user; " + want)
	case u.Host == "localhost":
		return "", cfg, fmt.Errorf("a file URL has no host; did you mean file://%s", u.EscapedPath())
	case u.Host != "":
		return "", cfg, fmt.Errorf("a file URL has no host; did you mean file:///%s%s", u.Host, u.EscapedPath())
	case u.Fragment != "" || u.RawFragment != "":
		return "", cfg, errors.New("a file URL has no fragment; write a # of the path as %23")
	}

	dir = u.Path
	if u.Opaque != "" {
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return "", cfg, fmt.Errorf("%w; %s", err, want)
		}
	}
	switch {
	case dir == "":
		return "", cfg, errors.New("no directory; " + want)
	case strings.ContainsRune(dir, 0):
		return "", cfg, errors.New("the directory contains a zero byte; " + want)
	case dir == "~" || strings.HasPrefix(dir, "~/"):
		return "", cfg, errors.New("~ means nothing in a URL; write the directory out")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", cfg, fmt.Errorf("the working directory is not known: %w; %s", err, want)
	}

	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", cfg, fmt.Errorf("%w; the parameters are era and shared-place", err)
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(key)
		if len(query[key]) != 1 {
			return "", cfg, fmt.Errorf("%s is given %d times; want it once", key, len(query[key]))
		}
		switch key {
		case "era":
			if cfg.Era, err = strconv.ParseUint(value, 10, 64); err != nil || cfg.Era > fence.MaxEra {
				return "", cfg, fmt.Errorf("era %q; want a number from 0 to %d", value, uint64(fence.MaxEra))
			}
		case "shared-place":
			if cfg.SharedPlace, err = strconv.ParseBool(value); err != nil {
				return "", cfg, fmt.Errorf("shared-place %q; want true or false", value)
			}
		default:
			return "", cfg, fmt.Errorf("unknown parameter %q; want era or shared-place", key)
		}
	}
	return dir, cfg, nil
}

// check returns cfg and the clean, absolute path of the election's directory.
func (cfg Config) check(dir, name, id string) (Config, string, error) {
	if err := driver.CheckName(name); err != nil {
		return cfg, "", err
	}
	if err := driver.CheckID(id); err != nil {
		return cfg, "", err
	}
	if cfg.Era > fence.MaxEra {
		return cfg, "", fmt.Errorf("era %d; want a number from 0 to %d", cfg.Era, uint64(fence.MaxEra))
	}
	if dir == "" {
		return cfg, "", errors.New("no directory; want one such as /var/lib/elect")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return cfg, "", fmt.Errorf("%s: the working directory is not known: %w; want an absolute path", dir, err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, filepath.Join(abs, name), nil
}

package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/driver"
)

// DefaultGrace is the time between SIGTERM and SIGKILL when Command.Grace is 0.
const DefaultGrace = 10 * time.Second

// ErrUnsupported is the error of Start on systems that it does not support.
var ErrUnsupported = errors.New("supervise: not supported on this system: use Linux, macOS, FreeBSD, OpenBSD or DragonFly")

// ErrProc is the error of Start, Prepare, Guard and AdoptOrphans on Linux if /proc is not mounted, or is that of
// another pid namespace: a keeper could not find the processes that it has to kill. The text says what would be
// right.
var ErrProc = errors.New("supervise: /proc does not show the processes of this pid namespace")

func errProc(why error) error { return fmt.Errorf("%w: %w", ErrProc, why) }

// Command is a command to run. Only Path is required. Start copies what it needs. The caller owns the files, and may
// close them when Start has returned, except Hold and Terminal.
type Command struct {
	// Path of the program. Without a slash it is looked up as LookPath does.
	Path string
	// Args are the arguments, the program's name first. Empty means Path alone.
	Args []string
	// Env is the whole environment, as KEY=value. Start adds nothing to it: nil means an empty one.
	Env []string
	// Dir is the command's directory; "" is this process's directory.
	Dir string
	// Stdin, Stdout and Stderr are the command's; nil means /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Terminal is this process's controlling terminal, or nil. If this process is in its foreground, the command's
	// process group gets the terminal, and this process takes it back when the family is dead. Stopping (Ctrl-Z) and
	// continuing are passed on between the command and this process, which stops itself with its whole process group, as
	// a shell expects. The caller keeps it open until Done.
	Terminal *os.File
	// Grace is the time between SIGTERM and SIGKILL, for Stop and for a SIGTERM
	// sent to the keeper. 0 means DefaultGrace.
	Grace time.Duration
	// Hold are files with kernel locks (flock or open file description locks) that must be held as long as a member of
	// the family lives. The caller keeps them open until Done, and then closes them: the keeper has unlocked them,
	// unless it was killed before it could. While the command runs the keeper checks every 50 ms that each file whose
	// Name is an absolute path is still at that path. If one is not, the keeper kills the family with reason Replaced: a
	// lock that other processes cannot find does not exclude them.
	Hold []*os.File
	// Keep are files that keeper and command hold open, beside Hold: on descriptors as high, and neither unlocked nor
	// checked. They are for locks of this process that no other process may get before the family is dead, such as that
	// of a data directory: when this process is dead, an flock on such a file is free exactly when its families and
	// their keepers are dead too. The caller goes on to use its own copies.
	Keep []*os.File
	// Testament, if not empty, is for the keeper's [Witness], which speaks when this process and all its work are dead.
	// It needs Keep: files with an exclusive flock of this process. The process takes the flock before it does any work
	// that the witness may speak of, and passes the files as Keep to each family that does such work. At most 1 MiB.
	Testament []byte
	// Entrust, if not nil, is called once, as soon as there is a keeper and before the keeper can do anything with the
	// locks. gone reports whether the keeper releases them, or is dead; see Family.Gone. ended is closed when all of the
	// family and the keeper are dead. If Start then fails, gone reports true and ended is closed too, whether the locks
	// were touched or not. It is made for driver.Inheritable.
	Entrust func(gone func() bool, ended <-chan struct{})
	// Lease, if not nil, reports how much longer the family may live, and false if that is not bounded. It is called
	// before the start, when some time must be left, and then repeatedly until Done. The keeper begins to kill the
	// family 20 ms before the latest end that it was told, or earlier if the family is large, even if this process is
	// frozen. 0 leaves that end unchanged. Lease must not block.
	Lease func() (left time.Duration, bounded bool)
	// Spare, if not nil, is a keeper that Prepare has started in advance. Start uses it up, even if the command fails.
	// If it has died meanwhile, Start does without it.
	Spare *Spare
	// Containment is what Contain returned. nil is the level Sweep.
	Containment *Containment
	// Logger receives what an operator should know; nil is silence.
	Logger *slog.Logger

	guard bool // the command is this program, by Guard
}

// Under sets Hold, Entrust, Keep, Testament and Lease to those of a mandate, so that the family is dead before
// another candidate has a mandate. Work that is not exclusive has no Lease. A program has the mandate of a term as an
// elect.Guardian.
func (c *Command) Under(m driver.Guarded) {
	c.Lease, c.Hold, c.Entrust, c.Testament, c.Keep = nil, nil, nil, nil, nil
	if m.Exclusive {
		c.Lease = m.Remaining
	}
	if m, ok := m.Mandate.(driver.Inheritable); ok {
		c.Hold, c.Entrust = m.Files(), m.Entrust
	}
	if m, ok := m.Mandate.(driver.Attestable); ok {
		t := m.Testament()
		c.Testament, c.Keep = t.Data, t.Keep
	}
}

func (c *Command) grace() time.Duration {
	if c.Grace == 0 {
		return DefaultGrace
	}
	return c.Grace
}

func (c *Command) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

func (c *Command) check() error {
	switch {
	case c.Path == "":
		return errors.New("supervise: Command.Path is empty: name a program")
	case c.Grace < 0:
		return errors.New("supervise: Command.Grace is negative: use 0 for the default or a positive duration")
	}
	if len(c.Hold) > maxHold {
		return fmt.Errorf("supervise: Command.Hold has %d files: pass at most %d", len(c.Hold), maxHold)
	}
	for _, f := range c.Hold {
		if f == nil {
			return errors.New("supervise: Command.Hold has a nil file: pass open files only")
		}
	}
	return checkTestament(c.Testament, c.Keep)
}

// checkTestament refuses a testament that no witness could ever use.
func checkTestament(testament []byte, keep []*os.File) error {
	for _, f := range keep {
		if f == nil {
			return errors.New("supervise: a nil file is to be kept: pass open files only")
		}
	}
	switch {
	case len(keep) > keeper.MaxKeep:
		return fmt.Errorf("supervise: %d files are to be kept: pass at most %d", len(keep), keeper.MaxKeep)
	case len(testament) > keeper.MaxTestament:
		return fmt.Errorf("supervise: a testament of %d bytes: pass at most %d", len(testament), keeper.MaxTestament)
	case len(testament) > 0 && len(keep) == 0:
		return errors.New("supervise: a testament without a file to keep: pass the one whose lock shows that no other life of its writer is left")
	}
	return nil
}

// maxHold bounds the number of files with locks. With everything else they must fit into one message to the keeper.
const maxHold = 128

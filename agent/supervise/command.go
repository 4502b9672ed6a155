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
// close them when Start has returned, except Terminal.
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
	// Spare, if not nil, is a keeper that Prepare has started in advance. Start uses it up, even if the command fails.
	// If it has died meanwhile, Start does without it.
	Spare *Spare
	// Containment is what Contain returned. nil is the level Sweep.
	Containment *Containment
	// Addresses are held by the keeper while leadership is proven, on Linux. They are added and announced before the
	// command starts, and removed before anything else when the family ends, and before the lease does. If the keeper
	// and this process are both killed, the kernel drops their packets. They need Under, with an exclusive mandate, and
	// should have passed CheckAddresses. See docs/address.md.
	Addresses []Address
	// LeasePage sets ELECT_LEASE in Env: the path of a file from which the command, or any process of this machine, reads
	// until when leadership is proven; see package agent/lease. It is there on Linux, for exclusive work. If it cannot be
	// made, a line is logged and the command starts without the variable.
	LeasePage bool
	// Logger receives what an operator should know; nil is silence.
	Logger *slog.Logger

	under mandate
	guard bool // the command is this program, by Guard
}

// Under puts the family under a mandate: it is dead before another candidate has one. Under is called before Start; the
// mandate's files stay open until Done. A program gets the mandate of a term by its elect.Guardian.
//
// The keeper begins to kill the family 20 ms before the end of the lease, or earlier if the family is large or has
// Addresses, even if this process is frozen. Work that is not exclusive has no such end. The keeper holds the mandate's
// locks. When the file of a lock is no longer at its path, where other processes look for it, the keeper kills the
// family within 50 ms, with the reason Replaced. The mandate's testament is for the keeper's [Witness], which speaks
// when this process and all its work are dead.
func (c *Command) Under(m driver.Guarded) { c.under = newMandate(m) }

// mandate is what the keeper needs of one.
type mandate struct {
	// hold are files with kernel locks that are held as long as a member of the family lives. The keeper unlocks them,
	// unless it is killed before it can. It checks those with an absolute path.
	hold []*os.File
	// keep are files that keeper and command hold open, beside hold, and neither unlock nor check: locks of this process
	// that are free exactly when this process, its families and their keepers are dead.
	keep []*os.File
	// testament needs keep: a file that this process has locked before it does any work that the witness may speak of.
	testament []byte
	// entrust, if not nil, is called once, as soon as there is a keeper and before the keeper can do anything with the
	// locks. gone reports whether the keeper releases them, or is dead; see Family.Gone. ended is closed when all of the
	// family and the keeper are dead. If Start then fails, gone reports true and ended is closed too.
	entrust func(gone func() bool, ended <-chan struct{})
	// lease, if not nil, reports how much longer the family may live, and false if that is not bounded. It is called
	// before the start, when some time must be left, and then repeatedly until Done. 0 leaves the end unchanged.
	lease func() (left time.Duration, bounded bool)
	token func() uint64 // for a lease page; nil: none
}

func newMandate(m driver.Guarded) (out mandate) {
	if m.Exclusive {
		out.lease, out.token = m.Remaining, func() uint64 { return uint64(m.Token()) }
	}
	if m, ok := m.Mandate.(driver.Inheritable); ok {
		out.hold, out.entrust = m.Files(), m.Entrust
	}
	if m, ok := m.Mandate.(driver.Attestable); ok {
		t := m.Testament()
		out.testament, out.keep = t.Data, t.Keep
	}
	return out
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
	if len(c.under.hold) > maxHold {
		return fmt.Errorf("supervise: the mandate has %d files with locks; want at most %d", len(c.under.hold), maxHold)
	}
	for _, f := range c.under.hold {
		if f == nil {
			return errors.New("supervise: the mandate has a nil file with a lock; want open files")
		}
	}
	if err := checkAddresses(c.Addresses); err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if len(c.Addresses) > 0 && c.under.lease == nil {
		return fmt.Errorf("%w: nothing proves that only this process has it; want an exclusive mandate (Under)", ErrAddress)
	}
	return checkTestament(c.under.testament, c.under.keep)
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
		return errors.New("supervise: a testament without a file to keep; want the one whose lock shows that no other process of its writer is left")
	}
	return nil
}

// maxHold bounds the number of files with locks. With everything else they must fit into one message to the keeper.
const maxHold = 128

//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// keeperName is the argv[0] by which a keeper knows itself.
const keeperName = "elect-keeper"

// Space says which namespaces the parent has made for a keeper. The number 1 does not: the first child after
// unshare(CLONE_NEWPID) has it, too, and the mounts of its parent.
type Space string

// The spaces.
const (
	OfParent Space = ""     // none
	OwnPids  Space = "init" // it is the init of a pid namespace, with mounts of its own
	OwnUser  Space = "user" // and in a user namespace, in which it has the right to mount
)

// The arguments of a keeper are its Space, unless that is OfParent, and the number of its first descriptor, unless that
// is preceded or replaced by one of these.
const (
	probeName = "probe"   // it only tries whether it can send or, in a Space of its own, mount /proc
	lateName  = "witness" // it may need a witness, and starts in main; the number follows
)

// Arguments are those of a keeper whose descriptors begin with base. late is whether it may need a witness. name is for
// lists of processes.
func Arguments(space Space, late bool, base int, name string) []string {
	args := space.arguments()
	if late {
		args = append(args, lateName)
	}
	return append(args, strconv.Itoa(base), name)
}

// ProbeArguments are those of a process that makes one try, see probeName: its exit code is the error's number.
func ProbeArguments(space Space) []string { return append(space.arguments(), probeName) }

func (s Space) arguments() []string {
	if s == OfParent {
		return []string{keeperName}
	}
	return []string{keeperName, string(s)}
}

// given reads the Space of this keeper, and returns the arguments that follow. There is one at least.
func given() (Space, []string) {
	if s := Space(os.Args[1]); len(os.Args) > 2 && (s == OwnPids || s == OwnUser) {
		return s, os.Args[2:]
	}
	return OfParent, os.Args[1:]
}

// Witness is supervise.Witness.
type Witness func(ctx context.Context, testament []byte) (speak func(ctx context.Context) error, err error)

// Is reports whether this process was started as a keeper. One with rights that its caller may not have (set-uid, set-gid)
// is none: it would lend them to what it is told to start.
func Is() bool {
	return len(os.Args) >= 2 && os.Args[0] == keeperName && os.Getuid() == os.Geteuid() && os.Getgid() == os.Getegid()
}

// Early runs a keeper that needs no witness, and exits. In any other process it returns at once.
func Early() bool {
	if !Is() {
		return false
	}
	_, args := given()
	if _, ok := firstDescriptor(args[0]); ok || args[0] == probeName {
		Run(nil)
	}
	return true
}

func firstDescriptor(arg string) (base int, ok bool) {
	base, err := strconv.Atoi(arg)
	return base, err == nil && base >= 3 && IsSocket(base+slotCommands)
}

// Run runs the keeper and exits. w may be nil.
func Run(w Witness) {
	space, args := given()
	if args[0] == probeName {
		var errno syscall.Errno
		if space != OfParent {
			errno, _ = errors.AsType[syscall.Errno]((&keeper{space: space}).settle())
		} else {
			errno = probeNetwork()
		}
		syscall.Exit(int(errno))
	}
	// The command asks for SIGKILL when its parent dies, and to the kernel the parent is a thread. This thread lives as
	// long as the process.
	runtime.LockOSThread()
	first := args[0]
	if first == lateName && len(args) > 1 {
		first = args[1]
	}
	base, ok := firstDescriptor(first)
	if !ok {
		fmt.Fprintln(os.Stderr, "elect-keeper: this program starts itself under this name; it is not to be started by hand")
		os.Exit(64)
	}
	k := keeper{space: space, base: base, witness: w, guarded: guarded{conn: -1}, bounds: Unbound{}}
	if k.start() {
		k.prepare()
		k.watch()
		k.sweep()
		k.finish()
		k.testify()
		k.bounds.Remove()
	} else {
		k.withdraw()
		k.page.Remove()
		k.bounds.Remove()
		k.report(KindGone, 0) // nothing was started, and the parent keeps the locks
	}
	syscall.Exit(0) // not os.Exit, which runs hooks: the race detector's takes a second
}

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

// The first argument of a keeper is the number of its first descriptor, unless it is one of these.
const (
	probeName = "probe"   // it only tries whether it can send or, as the init of a pid namespace, mount /proc
	lateName  = "witness" // it may need a witness, and starts in main; the number follows
)

// Arguments are those of a keeper whose descriptors begin with base. late is whether it may need a witness. name is for
// lists of processes.
func Arguments(late bool, base int, name string) []string {
	args := []string{keeperName, strconv.Itoa(base), name}
	if late {
		args = []string{keeperName, lateName, strconv.Itoa(base), name}
	}
	return args
}

// ProbeArguments are those of a process that makes one try, see probeName: its exit code is the error's number.
func ProbeArguments() []string { return []string{keeperName, probeName} }

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
	if _, ok := firstDescriptor(os.Args[1]); ok || os.Args[1] == probeName {
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
	if os.Args[1] == probeName {
		var errno syscall.Errno
		if os.Getpid() == 1 {
			errno, _ = errors.AsType[syscall.Errno](new(keeper).settle())
		} else {
			errno = probeNetwork()
		}
		syscall.Exit(int(errno))
	}
	// The command asks for SIGKILL when its parent dies, and to the kernel the parent is a thread. This thread lives as
	// long as the process.
	runtime.LockOSThread()
	first := os.Args[1]
	if first == lateName && len(os.Args) > 2 {
		first = os.Args[2]
	}
	base, ok := firstDescriptor(first)
	if !ok {
		fmt.Fprintln(os.Stderr, "elect-keeper: this program starts itself under this name; it is not to be started by hand")
		os.Exit(64)
	}
	k := keeper{base: base, witness: w, guarded: guarded{conn: -1}, bounds: Unbound{}}
	if k.start() {
		k.prepare()
		k.watch()
		k.sweep()
		k.finish()
		k.testify()
		k.bounds.Remove()
	} else {
		k.bounds.Remove()
		k.report(KindGone, 0) // nothing was started, and the parent keeps the locks
	}
	syscall.Exit(0) // not os.Exit, which runs hooks: the race detector's takes a second
}

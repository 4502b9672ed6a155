package keeper

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// testimony is how long the witness may take at most, after the family's death and before the keeper ends. The
// Witness is told to end a little earlier, and may report an error.
const (
	testimony = time.Second
	lastWords = 50 * time.Millisecond
)

// witnesses is the state of the testaments and of the parent's death.
type witnesses struct {
	pending []*testament
	pidfd   int // the parent's, or -1
}

// testament is a valid testament. The keeper's goroutine owns it; its own goroutine prepares the witness.
type testament struct {
	text   string
	keep   []int              // descriptors whose lock shows that no other process of that life is alive
	cancel context.CancelFunc // makes it void
	ready  chan struct{}      // closed when the witness is prepared
	speak  func(ctx context.Context) error
}

// prepare records the parent whose death is to be witnessed, once the command runs.
func (k *keeper) prepare() {
	k.witnesses.pidfd = -1
	if k.spec.Testament == "" || k.witness == nil {
		return
	}
	if k.spec.Parent != 0 {
		k.witnesses.pidfd = k.base + slotParent
	}
	var keep []int
	for i := range k.spec.Run {
		keep = append(keep, k.base+SlotHold+k.spec.Hold+i)
	}
	k.add([]byte(k.spec.Testament), keep)
}

// add has a witness prepare to speak, for when keep shows the death.
func (k *keeper) add(text []byte, keep []int) *testament {
	ctx, cancel := context.WithCancel(context.Background())
	w := &testament{text: string(text), keep: keep, cancel: cancel, ready: make(chan struct{})}
	k.witnesses.pending = append(k.witnesses.pending, w)
	go func() {
		defer close(w.ready)
		err := noPanic(func() (err error) {
			w.speak, err = k.witness(ctx, []byte(w.text))
			return err
		})
		if err != nil && ctx.Err() == nil {
			warn("the witness cannot prepare itself: %v", err)
		}
	}()
	return w
}

// accept takes over the testament of a guarded program. It keeps the files in any case.
func (k *keeper) accept(text []byte, keep []int) *testament {
	if len(text) == 0 || k.witness == nil {
		return &testament{keep: keep, cancel: func() {}}
	}
	return k.add(text, keep)
}

// drop makes a testament void, and closes its files.
func (k *keeper) drop(w *testament) {
	w.cancel()
	for _, fd := range w.keep {
		unix.Close(fd)
	}
	k.witnesses.pending = slices.DeleteFunc(k.witnesses.pending, func(have *testament) bool { return have == w })
}

// testify has the witnesses speak if everything that they speak of is dead: the family is, and the parent and every
// other holder of the locks must be.
func (k *keeper) testify() {
	k.attend() // the program's last words
	if len(k.witnesses.pending) == 0 {
		return
	}
	k.release()
	end := time.After(testimony)
	ctx, cancel := context.WithTimeout(context.Background(), testimony-lastWords)
	defer cancel()
	if !k.orphaned(ctx) {
		return
	}
	spoken := make(chan struct{})
	go func() { // a file system that hangs must not hang the keeper
		defer close(spoken)
		var speakers sync.WaitGroup
		said := map[string]bool{}
		for w := range alone(ctx, k.witnesses.pending) {
			if !said[w.text] { // a group's member has one for each election that it leads, and they are the same
				said[w.text] = true
				speakers.Go(func() { w.say(ctx) })
			}
		}
		speakers.Wait()
	}()
	select {
	case <-spoken:
	case <-end: // then the process ends, with whatever still runs
	}
}

// release closes the files of leaderships without a testament: the family is dead, and what a witness waits for may need
// them. That of a group waits for the next coordinator, whose lock a file: election has kept here.
func (k *keeper) release() {
	for _, l := range k.guarded.leads {
		if slices.Contains(k.witnesses.pending, l.left) {
			continue
		}
		for _, fd := range l.left.keep {
			unix.Close(fd)
		}
		l.left.keep = nil
	}
}

// orphaned reports whether the parent is dead. It waits for a parent that is about to die: a killed process is not
// dead before all its threads have ended, and the family may be quicker. The parent of a guarded program does no
// work: the testament is about the program alone.
func (k *keeper) orphaned(ctx context.Context) bool {
	if k.spec.Guard {
		return true
	}
	if k.witnesses.pidfd < 0 {
		return false
	}
	for {
		ending := hungUp(k.base+slotCommands) || k.parentDies() // before the question
		if readable(k.witnesses.pidfd, 0) {
			return true
		}
		end, _ := ctx.Deadline()
		left := time.Until(end)
		if !ending || left <= 0 {
			return false
		}
		readable(k.witnesses.pidfd, left)
	}
}

// dying reports whether a process was killed, or is about to exit, although some of its threads may run for a moment
// yet. place is its directory in /proc. For a live process it costs some reading.
func dying(place string) bool {
	// The kernel makes SIGKILL pending for each thread of a process that is to die, whatever the cause. A thread that
	// has taken it is marked as exiting: so that mark is read afterwards.
	tasks := "/proc/" + place + "/task/"
	threads, _ := os.ReadDir(tasks)
	for _, thread := range threads {
		status, err := os.ReadFile(tasks + thread.Name() + "/status")
		if err == nil && killPending(string(status)) {
			return true
		}
	}
	s, ok := proc.ReadAt(place)
	return ok && exits(s)
}

// exits reports whether a process ends or has ended. If it is reaped, its pidfd shows that.
func exits(s proc.Stat) bool {
	const exiting = 0x4 // PF_EXITING
	return s.Dead() || s.Flags&exiting != 0
}

// killPending reports whether SIGKILL is pending, by the text of a status file of /proc.
func killPending(status string) bool {
	for line := range strings.Lines(status) {
		name, set, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64); err == nil && n&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

func readable(fd int, wait time.Duration) bool {
	fds := [...]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds[:], int(wait/time.Millisecond))
	return n > 0 && fds[0].Revents&unix.POLLIN != 0
}

// hungUp reports whether the other end of a pipe or socket is closed.
func hungUp(fd int) bool {
	fds := [...]unix.PollFd{{Fd: int32(fd)}}
	n, _ := unix.Poll(fds[:], 0)
	return n > 0 && fds[0].Revents&unix.POLLHUP != 0
}

// alone yields each testament when its writer is dead, with all its families and their keepers but this one, until ctx
// ends. It closes the files that this keeper has kept and takes the locks anew, on open file descriptions of its own. That
// succeeds only if no other process has the old ones, and no later life can begin meanwhile. The keepers of other families
// of the writer, such as of a hook that has run beside the command, may be about to end.
func alone(ctx context.Context, all []*testament) iter.Seq[*testament] {
	return func(yield func(*testament) bool) {
		type inode struct{ dev, ino uint64 }
		locks := map[inode]int{} // the new descriptors, until their locks are obtained; -1 if there is none
		of := map[*testament][]inode{}
		for _, w := range all {
			for _, fd := range w.keep {
				var st unix.Stat_t
				id := inode{} // a key that never has a lock
				if unix.Fstat(fd, &st) == nil {
					id = inode{st.Dev, st.Ino}
				}
				of[w] = append(of[w], id)
				if _, ok := locks[id]; !ok {
					locks[id] = reopen(fd)
				}
			}
		}
		for _, w := range all {
			for _, fd := range w.keep {
				unix.Close(fd)
			}
		}
		again := time.NewTicker(lockEvery)
		defer again.Stop()
		for waiting := slices.Clone(all); ; {
			maps.DeleteFunc(locks, func(_ inode, fd int) bool { return fd >= 0 && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil })
			var sole []*testament
			waiting = slices.DeleteFunc(waiting, func(w *testament) bool {
				if slices.ContainsFunc(of[w], func(id inode) bool { _, lacks := locks[id]; return lacks }) {
					return false
				}
				sole = append(sole, w)
				return true
			})
			for _, w := range sole {
				if !yield(w) {
					return
				}
			}
			if len(waiting) == 0 {
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// lockEvery is how often a witness tries to get a lock that another process has.
const lockEvery = 2 * time.Millisecond

// reopen opens the file of a descriptor again, or returns -1. A network file system may require that it is writable
// for an exclusive lock.
func reopen(fd int) int {
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	for _, mode := range []int{unix.O_RDWR, unix.O_RDONLY} {
		if again, err := unix.Open(path, mode|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			return again
		}
	}
	return -1
}

// say speaks once the witness is prepared.
func (w *testament) say(ctx context.Context) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		warn("the witness was not prepared in time")
		return
	}
	if w.speak == nil {
		return // it has reported why
	}
	if err := noPanic(func() error { return w.speak(ctx) }); err != nil {
		warn("the witness was not heard: %v", err)
	}
}

// noPanic calls f, and returns a panic as an error.
func noPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

package supervise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// testimony is how long the keeper may be busy with speaking, at most, after
// the family's death and before its own end; the witness is told to end a
// little earlier, and may complain.
const (
	testimony = time.Second
	lastWords = 50 * time.Millisecond
)

// witnesses is what there is to be witnessed, and how the parent's death is known.
type witnesses struct {
	pending []*testament
	pidfd   int  // the parent's, or -1
	orphan  bool // the parent was dead before it could be watched
}

// testament is one of those that are valid. The keeper's goroutine owns it; its
// own goroutine prepares the witness.
type testament struct {
	keep   []int              // descriptors that show, by the lock they had, that nobody is left
	cancel context.CancelFunc // makes it void
	ready  chan struct{}      // closed when the witness is prepared
	speak  func(ctx context.Context) error
}

// prepare takes note of whose death is to be witnessed, once the command runs.
func (k *keeper) prepare() {
	k.witnesses.pidfd = -1
	if k.spec.testament == "" || k.witness == nil {
		return
	}
	if fd, err := unix.PidfdOpen(k.spec.parent, 0); err == nil {
		k.witnesses.pidfd = fd
	}
	// A process keeps its parent for as long as that lives. If ours is the one
	// that started us still, the number was its own when the pidfd was opened.
	k.witnesses.orphan = os.Getppid() != k.spec.parent
	var keep []int
	for i := range k.spec.keep {
		keep = append(keep, k.base+slotHold+k.spec.hold+i)
	}
	k.add([]byte(k.spec.testament), keep)
}

// add has a witness prepare itself to speak for what keep shows to be dead.
func (k *keeper) add(text []byte, keep []int) *testament {
	ctx, cancel := context.WithCancel(context.Background())
	w := &testament{keep: keep, cancel: cancel, ready: make(chan struct{})}
	k.witnesses.pending = append(k.witnesses.pending, w)
	go func() {
		defer close(w.ready)
		err := noPanic(func() (err error) {
			w.speak, err = k.witness(ctx, text)
			return err
		})
		if err != nil && ctx.Err() == nil {
			warn("the witness cannot prepare itself: %v", err)
		}
	}()
	return w
}

// accept takes over what a guarded program leaves. The files are kept in any
// case.
func (k *keeper) accept(text []byte, keep []int) *testament {
	if len(text) == 0 || k.witness == nil {
		return &testament{keep: keep, cancel: func() {}}
	}
	return k.add(slices.Clone(text), keep)
}

// drop makes a testament void, and closes what was kept for it.
func (k *keeper) drop(w *testament) {
	w.cancel()
	for _, fd := range w.keep {
		unix.Close(fd)
	}
	k.witnesses.pending = slices.DeleteFunc(k.witnesses.pending, func(have *testament) bool { return have == w })
}

// testify has the witnesses speak, if there is nobody left whom they could
// speak of: the family is dead, and so must the parent be, and whoever else
// has the locks.
func (k *keeper) testify() {
	k.attend() // the program's last words
	if len(k.witnesses.pending) == 0 {
		return
	}
	end := time.After(testimony)
	ctx, cancel := context.WithTimeout(context.Background(), testimony-lastWords)
	defer cancel()
	if !k.orphaned(ctx) {
		return
	}
	spoken := make(chan struct{})
	go func() { // a file system that hangs must not hang us
		defer close(spoken)
		var speakers sync.WaitGroup
		for _, w := range alone(k.witnesses.pending) {
			speakers.Go(func() { w.say(ctx) })
		}
		speakers.Wait()
	}()
	select {
	case <-spoken:
	case <-end: // and the process ends, whatever they are doing
	}
}

// orphaned reports whether the parent is dead. If it is about to die orphaned
// waits: a process that was killed is not dead before all its threads have ended,
// and the family may be quicker. The parent of a guarded program does no work: the
// program's life is all that the testament is about.
func (k *keeper) orphaned(ctx context.Context) bool {
	if k.witnesses.orphan || k.spec.guard {
		return true
	}
	if k.witnesses.pidfd < 0 {
		return false
	}
	for {
		ending := hungUp(k.base+slotCommands) || dying(k.spec.parent) // before the question
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

// dying reports whether a process was killed, or is about to exit, though some of
// its threads may run for a moment yet. It costs a living one some reading.
func dying(pid int) bool {
	// The kernel makes SIGKILL pending for each thread of a process that is to
	// die, whatever of. A thread that has taken it is marked as exiting: so that
	// is looked at afterwards.
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, name := range threads {
		status, err := os.ReadFile(name)
		if err == nil && killPending(string(status)) {
			return true
		}
	}
	const exiting = 0x4 // PF_EXITING
	s, ok := proc.Read(pid)
	return ok && (s.Dead() || s.Flags&exiting != 0) // if it is dead and reaped, its pidfd says so
}

// killPending reads a status file of /proc: is SIGKILL about to be taken?
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

// hungUp reports whether nobody has the other end of a pipe or socket.
func hungUp(fd int) bool {
	fds := [...]unix.PollFd{{Fd: int32(fd)}}
	n, _ := unix.Poll(fds[:], 0)
	return n > 0 && fds[0].Revents&unix.POLLHUP != 0
}

// alone returns the testaments whose writer and all its families and their keepers
// are dead, but for this one. It closes what this keeper has kept and takes the
// locks anew, on open file descriptions of their own: that succeeds if nobody
// has the old ones, and leaves no room for a later life meanwhile.
func alone(all []*testament) []*testament {
	type inode struct{ dev, ino uint64 }
	locks := map[inode]int{} // the new descriptors; -1 when it cannot be had
	of := map[*testament][]inode{}
	for _, w := range all {
		for _, fd := range w.keep {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) != nil {
				of[w] = append(of[w], inode{}) // is never had
				continue
			}
			id := inode{st.Dev, st.Ino}
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
	for id, fd := range locks {
		if fd < 0 || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
			locks[id] = -1
		}
	}
	var sole []*testament
	for _, w := range all {
		had := true
		for _, id := range of[w] {
			fd, ok := locks[id]
			had = had && ok && fd >= 0
		}
		if had {
			sole = append(sole, w)
		}
	}
	return sole
}

// reopen opens the file of a descriptor once more, or returns -1. A network
// file system may want it writable for an exclusive lock.
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
		return // it has said why
	}
	if err := noPanic(func() error { return w.speak(ctx) }); err != nil {
		warn("the witness was not heard: %v", err)
	}
}

// noPanic calls f, and makes an error of a panic.
func noPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// warn writes one line to stderr. It is not for the keeper's own goroutine:
// nobody may read there. It does without package os, which would end the
// process when nobody can.
func warn(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	_, _ = unix.Write(2, []byte("elect-keeper: "+text+"\n"))
}

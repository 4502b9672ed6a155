//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
	"github.com/electd/elect/internal/mutation"
)

// The keeper's descriptors, counted from the base that its first argument
// names. They are high, so that descriptors that the parent inherited (a
// supervisor's sockets from 3 on, a shell's redirections) reach the command
// under their own numbers. The keeper starts with the first three; the others
// come with the specification.
const (
	slotCommands = iota // read: frames of the parent, on a socket; its end is the lifeline
	slotReports         // write: frames to the parent
	slotGone            // write: closed when the keeper releases the locks
	slotStdin
	slotStdout
	slotStderr
	slotTerminal
	slotGate   // what keeps the network guard open
	slotParent // a pidfd of the parent
	SlotHold   // and those after it: the locks, and the files to keep; the command inherits only these
)

func IsSocket(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// keeper is the state of a keeper process. One goroutine, on the main thread,
// owns it.
type keeper struct {
	space     Space
	base      int
	witness   Witness // or nil
	spec      Spec
	in        Decoder
	mail      mail
	out       []byte
	witnesses witnesses // the testaments, and the state of the parent
	guarded   guarded
	bounds    Bounds
	outer     *outer            // if the keeper is the init of a pid namespace; else nil
	page      *leasepage.Writer // or nil
	addresses *addresses        // or nil

	pid    int // the command's, and that of its group
	reaped bool
	status syscall.WaitStatus // when reaped
	state  state
	reason reason // why it no longer runs

	deadline, graceEnd int64 // on the clock that parent and keeper share; 0 is none
	ahead              int64 // how long before the deadline to count the family
	early              int64 // how long before the deadline to begin to kill, by that count
	counted            bool  // since the deadline was last pushed out
	census             census
	warned             bool  // that the lease is too short for the family
	nextSize           int64 // when to count only to check whether the lease is too short
	raided             bool  // see raid
	nextTell           int64 // when to log survivors again
	nextLook           int64 // likewise; 0 is never again, or initially at once
	abort              bool  // leave the locks alone

	alarm alarm
	told  atomic.Bool   // a signal asked for the end
	wake  [2]int        // a pipe: a signal came in
	saved *unix.Termios // the terminal's modes
}

// state is how far the end of the family has progressed.
type state byte

const (
	running  state = iota
	stopping       // TERM was sent
	draining       // TERM was sent and the command has ended; others of its group may use the rest of the grace
	sweeping
)

// start reads the specification and starts the command. What can wait until the command runs is done afterwards.
func (k *keeper) start() bool {
	for fd := k.base; fd <= k.base+slotGone; fd++ {
		unix.CloseOnExec(fd)
	}
	blind := k.settle() // early, while there may be time
	conceal()           // after settle: before Linux 5.14, root owns the fdinfo of a concealed process
	if blind == nil {
		blind = SeesFamily()
	}
	payload, ok := k.firstFrame()
	if !ok {
		return false // the parent is dead, or gave up, or no longer needs a keeper
	}
	if blind != nil {
		k.out = AppendFrame(k.out[:0], KindBlind, []byte(blind.Error()))
		_ = k.write()
		return false
	}
	if err := k.spec.load(payload); err != nil {
		return k.fail(err)
	}
	if err := k.place(); err != nil {
		return k.fail(err)
	}
	if err := BecomeReaper(); err != nil {
		return k.fail(err)
	}
	tty := k.base + slotTerminal
	if k.spec.Terminal {
		k.saved, _ = getTermios(tty)
	}
	attr := &syscall.ProcAttr{
		Dir: k.spec.Dir,
		Env: k.spec.Env,
		Files: []uintptr{
			uintptr(k.base + slotStdin), uintptr(k.base + slotStdout), uintptr(k.base + slotStderr),
		},
		Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: k.spec.Foreground, Ctty: tty},
	}
	dieWithParent(attr.Sys)
	if k.spec.Cgroup != "" {
		gate := -1
		if k.spec.Network {
			gate = k.base + slotGate
		}
		b, err := openBounds(k.spec.Cgroup, gate)
		if err != nil {
			return k.fail(syscall.ENODEV) // a later life took it for that of a dead one
		}
		k.bounds = b
	}
	if k.outer != nil {
		k.bounds = namespace{k.bounds}
	}
	k.bounds.Enter(attr.Sys)
	if k.spec.Guard {
		if err := k.guarded.connect(attr, k.base+SlotHold+k.spec.Hold+k.spec.Run); err != nil {
			return k.fail(err)
		}
	}
	var noPage error
	if k.spec.Page != "" {
		k.page, noPage = leasepage.Open(k.spec.Page) // without it what the parent has written lapses
		if k.spec.Deadline == 0 {
			k.displaced(int64(clock.Now()))
		}
	}
	k.expect(k.spec.Deadline)
	for _, slot := range []int{slotReports, slotCommands} {
		// A parent that does not read must not stop a sweep.
		_ = unix.SetNonblock(k.base+slot, true)
	}
	if err := k.appear(); err != nil {
		k.note(err.Error())
		return k.fail(NoAddress)
	}
	outside, err := k.launch(attr)
	if err != nil && k.pid == 0 && k.spec.Foreground {
		// The refusal may be the terminal's and not the program's.
		attr.Sys.Foreground = false
		outside, err = k.launch(attr)
	}
	k.guarded.started()
	if err != nil {
		return k.fail(err)
	}
	k.report(KindStarted, int64(outside))
	if noPage != nil {
		k.note("the lease page cannot be written, and will prove nothing: " + noPage.Error())
	}
	for fd := k.base + slotStdin; fd <= k.base+slotStderr; fd++ {
		unix.Close(fd) // or a reader of the command's output would wait for the keeper too
	}
	_ = unix.Chdir("/") // so that the keeper does not keep a file system busy
	return true
}

// note writes a line for the parent's log. If the parent is dead, it goes to the shared standard error, which may
// have no reader.
func (k *keeper) note(text string) {
	k.out = AppendFrame(k.out[:0], KindNote, []byte(text))
	if k.write() == unix.EPIPE {
		go warn("%s", text)
	}
}

// warn writes one line to stderr. It is not for the keeper's own goroutine, because stderr may have no reader. It
// does not use package os, which ends the process when stderr is closed.
func warn(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	_, _ = unix.Write(2, []byte("elect-keeper: "+text+"\n"))
}

// firstFrame waits for the specification. A keeper that was started in advance may wait long here.
func (k *keeper) firstFrame() ([]byte, bool) {
	for {
		kind, payload, ok, err := k.in.Next()
		if err != nil || ok && kind != KindSpec {
			return nil, false
		}
		if ok {
			return payload, true
		}
		n, err := k.mail.receive(k.base+slotCommands, k.in.Room())
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return nil, false
		}
		k.in.Took(n)
	}
}

// place puts the files that came with the specification into their slots.
func (k *keeper) place() error {
	var slots []int
	if k.spec.Network {
		slots = append(slots, slotGate)
	}
	if k.spec.Parent != 0 {
		slots = append(slots, slotParent)
	}
	for slot := slotStdin; slot <= slotStderr; slot++ {
		slots = append(slots, slot)
	}
	if k.spec.Terminal {
		slots = append(slots, slotTerminal)
	}
	for i := range k.spec.Hold + k.spec.Run {
		slots = append(slots, SlotHold+i)
	}
	files := k.mail.files
	k.mail.files = nil
	if len(files) != len(slots) {
		return unix.EMFILE // the kernel had no free descriptor for one
	}
	// First move them away: they may occupy the slots of others.
	above := k.base + SlotHold + k.spec.Hold + k.spec.Run
	for i, fd := range files {
		moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, above)
		if err != nil {
			return err
		}
		unix.Close(fd)
		files[i] = moved
	}
	for i, fd := range files {
		to, command := k.base+slots[i], unix.F_DUPFD
		if slots[i] < SlotHold {
			command = unix.F_DUPFD_CLOEXEC
		}
		if at, err := unix.FcntlInt(uintptr(fd), command, to); err != nil {
			return err
		} else if at != to {
			return unix.EMFILE // the slot is taken, although the parent has checked
		}
		unix.Close(fd)
	}
	return nil
}

// Late is the errno of a command that was not started because its lease was about to end.
const Late = unix.ECANCELED

// NoAddress is the errno of a command that was not started because its addresses could not be added. A note says why.
const NoAddress = unix.EADDRINUSE

// launch starts the command, unless it is time to kill it by now. A keeper that got no processor may be here long
// after its parent asked for the lease.
func (k *keeper) launch(attr *syscall.ProcAttr) (outside int, err error) {
	if k.deadline != 0 {
		k.listen() // the lease may have been renewed meanwhile
		if k.deadline != 0 && int64(clock.Now()) >= k.deadline {
			return 0, Late
		}
	}
	return k.fork(attr)
}

// fail reports that the command could not be started. It returns false.
func (k *keeper) fail(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	k.report(KindFailed, int64(errno))
	return false
}

// watch waits until the family must be swept.
func (k *keeper) watch() {
	k.wake = [2]int{-1, -1}
	k.alarm.open()
	k.catchSignals()
	k.listen()
	for {
		// Without children there are no descendants. A search in /proc would cost more than its own time: before a process
		// is reaped, the kernel must discard what was read of it, and on a busy machine a process that reaps was seen to
		// spin for 15 ms for that.
		_, none := k.reap()
		if k.state == draining && (none || !k.groupAlive()) {
			k.end(sweeping, k.reason)
		}
		now := int64(clock.Now())
		if k.deadline != 0 && !k.counted && now >= k.deadline-k.ahead {
			k.count()
			k.listen() // it took a while
			k.attend()
			now = int64(clock.Now())
		}
		if k.deadline != 0 && !k.counted && !k.warned && now >= k.nextSize {
			if k.nextSize != 0 {
				k.count()
				k.forget()
			}
			k.nextSize = now + int64(sizeEvery)
			continue
		}
		if k.deadline != 0 && now >= k.deadline-k.early {
			k.end(sweeping, BecauseExpired)
		}
		if k.state < sweeping && k.displaced(now) {
			k.end(sweeping, BecauseReplaced)
		}
		if k.graceEnd != 0 && now >= k.graceEnd {
			k.end(sweeping, k.reason)
		}
		if k.told.Load() {
			k.end(stopping, BecauseTerminated)
		}
		if k.state == sweeping {
			return
		}
		k.addresses.announce(now)
		k.sleep(now)
	}
}

// sleep waits until something happens, and reads what the parent wrote.
func (k *keeper) sleep(now int64) {
	next := k.deadline
	switch {
	case next == 0:
	case k.counted:
		next -= k.early
	default:
		next -= k.ahead
	}
	timeout := k.alarm.set(now, earliest(next, k.graceEnd))
	if k.state == draining && (timeout < 0 || timeout > drainPoll) {
		timeout = drainPoll
	}
	if k.nextLook != 0 {
		if left := time.Duration(k.nextLook - now); timeout < 0 || timeout > left {
			timeout = left
		}
	}
	if next := k.addresses.next(); next != 0 {
		if left := time.Duration(max(next-now, 0)); timeout < 0 || timeout > left {
			timeout = left
		}
	}
	fds := [...]unix.PollFd{
		{Fd: int32(k.base + slotCommands), Events: unix.POLLIN},
		{Fd: int32(k.wake[0]), Events: unix.POLLIN},
		{Fd: int32(k.alarm.fd), Events: unix.POLLIN},
		{Fd: int32(k.guarded.conn), Events: unix.POLLIN},
	}
	ms := -1
	if timeout >= 0 {
		ms = int((timeout + time.Millisecond - 1) / time.Millisecond)
	}
	if _, err := unix.Poll(fds[:], ms); err != nil {
		return // EINTR: a signal, most likely of a child; check again
	}
	if fds[1].Revents != 0 {
		k.drainWake()
	}
	// Before the caller reads the clock: a deadline that the parent pushed out in time has not passed.
	if fds[0].Revents != 0 {
		k.listen()
	}
	if fds[3].Revents != 0 {
		k.attend()
	}
}

// maxAhead bounds how long before the end of a lease the family is counted: a family of
// 5,000 processes is killed within half of it.
const maxAhead = 5 * time.Second

// sizeEvery is how often the family is counted while the lease is renewed, so that the log warns of a family that is
// too large before it matters.
const sizeEvery = time.Minute

// expect sets the latest time to kill the family; 0 is never. The parent sends it repeatedly, and a later deadline
// means that the lease was renewed. While the lease is renewed the size of the family does not matter: the family is
// counted when half of the lease has passed without a renewal.
func (k *keeper) expect(deadline int64) {
	const jitter = int64(time.Millisecond)
	if deadline == 0 || k.deadline == 0 || deadline > k.deadline+jitter {
		k.ahead = min(max(deadline-int64(clock.Now()), 0)/2, int64(maxAhead))
		k.forget()
	}
	k.deadline = deadline
	if deadline != 0 {
		k.page.Prove(LeaseEnd(deadline))
	}
	k.addresses.until(LeaseEnd(deadline))
}

// pageTime is how long a lease page proves leadership without a lease, from before a look that found the locks in their
// places. It is less than file.HoldOff, which a next leader waits for if a lock was replaced.
const pageTime = 400 * time.Millisecond

// forget drops the census, so that the family is counted again.
func (k *keeper) forget() {
	k.counted, k.early = false, 0
	if len(k.spec.Addresses) > 0 {
		k.early = k.ahead / 5 // a tenth of the lease: nothing may make the removal late
	}
	k.census.close()
}

// leaseEnd is the end of the lease that the parent last told; 0 is never.
func (k *keeper) leaseEnd() int64 { return LeaseEnd(k.deadline) }

// drainPoll is how often to check, during the grace, whether the group has ended: the end of a descendant that is not
// a child is not notified.
const drainPoll = 5 * time.Millisecond

// lookEvery is how often to check whether the locks are still in their places.
const lookEvery = 50 * time.Millisecond

// displaced reports whether a lock is no longer in its place. It checks once in lookEvery. A place that the keeper
// may not read counts as unchanged, and the parent checks too.
func (k *keeper) displaced(now int64) bool {
	if now < k.nextLook {
		return false
	}
	k.nextLook = 0
	found := false
	var held, there unix.Stat_t
	for i, place := range k.spec.Places {
		if place == "" || unix.Fstat(k.base+SlotHold+i, &held) != nil {
			continue
		}
		k.nextLook = now + int64(lookEvery)
		err := unix.Stat(place, &there)
		if err == unix.ENOENT || err == unix.ENOTDIR || err == nil && (there.Dev != held.Dev || there.Ino != held.Ino) {
			k.page.Prove(0)
			return true
		}
		found = found || err == nil
	}
	if found && k.deadline == 0 && k.spec.Deadline == 0 {
		k.page.Prove(now + int64(pageTime))
	}
	return false
}

func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// listen reads what the parent wrote, without waiting.
func (k *keeper) listen() {
	for {
		for { // what is here comes first: it may have come with the specification
			kind, payload, ok, err := k.in.Next()
			if err != nil {
				k.end(sweeping, BecauseKilled) // cannot happen; if it does, the sender is not a parent of this package
				return
			}
			if !ok {
				break
			}
			k.obey(kind, payload)
		}
		n, err := unix.Read(k.base+slotCommands, k.in.Room())
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case n <= 0: // the parent is dead
			k.end(sweeping, BecauseKilled)
			return
		default:
			k.in.Took(n)
		}
	}
}

func (k *keeper) obey(kind Kind, payload []byte) {
	n, err := Number(payload)
	if err != nil {
		return
	}
	switch kind {
	case KindSignal:
		k.signalGroup(syscall.Signal(n))
	case KindDeadline:
		k.expect(n)
	case KindUnproven:
		k.page.Prove(0)
		k.withdraw()
	case KindWithdraw:
		k.withdraw()
	case KindStop:
		k.end(stopping, BecauseStopped)
	case KindKill:
		k.end(sweeping, BecauseKilled)
	case KindAbort:
		k.abort = true
		k.end(sweeping, BecauseKilled)
	case KindContinue:
		k.signalGroup(syscall.SIGCONT)
	}
}

// end advances the family's end by a step. The first reason stays.
func (k *keeper) end(to state, why reason) {
	if to <= k.state {
		return
	}
	k.withdraw() // first: it must not wait for a process
	if k.reason == 0 {
		k.reason = why
		k.report(KindEnding, int64(why))
	}
	switch {
	case to == sweeping:
		k.report(KindSweeping, int64(why))
	case to == stopping:
		k.graceEnd = int64(clock.Now()) + int64(k.spec.Grace)
		k.signalGroup(syscall.SIGTERM)
		k.signalGroup(syscall.SIGCONT) // a stopped process does not receive the other signal
	}
	k.state = to
}

// signalGroup signals the command's group, while its number cannot belong to another.
func (k *keeper) signalGroup(sig syscall.Signal) {
	if k.pid != 0 && !k.reaped {
		_ = syscall.Kill(-k.pid, sig)
	}
}

// reap collects the states of the children. It returns those that have ended, and whether there are none left.
func (k *keeper) reap() (ended []int, none bool) {
	if !k.reaped && (k.state == running || k.state == stopping) && commandEnded(k.pid) && (k.state == running || !k.groupAlive()) {
		// While the command is not reaped, its group's number is its own. So the rest of the family is killed before that:
		// on a busy machine the kernel may take long to reap, and the family must not live meanwhile.
		why := k.reason
		if why == 0 {
			why = BecauseExited
		}
		k.end(sweeping, why)
		if mutation.Is(mutation.EarlyWord) {
			k.testify()
			k.witnesses = witnesses{}
		}
		k.raid()
	}
	for {
		var status syscall.WaitStatus
		pid, err := waitAny(k.pid, &status)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return ended, true
		case pid == 0:
			return ended, false
		case status.Stopped():
			if pid == k.pid {
				k.report(KindPaused, int64(status.StopSignal()))
			}
		case status.Exited() || status.Signaled():
			ended = append(ended, pid)
			if pid == k.pid {
				k.reaped, k.status = true, status
				k.report(KindExited, int64(status))
				if k.state == stopping {
					k.state = draining
				} else {
					k.end(sweeping, BecauseExited)
				}
			}
		}
	}
}

// finish releases the locks: the family is dead.
func (k *keeper) finish() {
	k.bounds.Mute() // what the dead have left in their sockets stays here
	k.page.Remove()
	k.report(KindGone, Shared(clock.Now()))
	unix.Close(k.base + slotGone) // before the unlocking: the parent must not believe in a free lock
	if !k.abort {
		for i := range k.spec.Hold {
			unlock(k.base + SlotHold + i)
		}
	}
	if k.spec.Terminal {
		tty := k.base + slotTerminal
		if k.reclaim(tty) && k.saved != nil && k.status.Signaled() {
			// The command had no chance to restore the terminal's modes. One that exits by itself may have changed them on
			// purpose, as stty does.
			setTermios(tty, k.saved)
		}
	}
}

// report writes a frame to the parent. It does not wait: if the parent does not read, the report is lost. What
// matters is visible in other ways too.
func (k *keeper) report(kind Kind, n int64) {
	k.out = AppendNumber(k.out[:0], kind, n)
	_ = k.write()
}

func (k *keeper) write() error {
	for {
		if _, err := unix.Write(k.base+slotReports, k.out); err != unix.EINTR {
			return err
		}
	}
}

// catchSignals lets ends of children and requests to stop wake the keeper.
func (k *keeper) catchSignals() {
	if err := unix.Pipe(k.wake[:]); err == nil {
		for _, fd := range k.wake {
			unix.CloseOnExec(fd)
			_ = unix.SetNonblock(fd, true)
		}
	}
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	asked := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) { // as under nohup
			signal.Notify(asked, sig)
		}
	}
	go func() {
		for {
			select {
			case <-child:
			case <-asked:
				k.told.Store(true)
			}
			_, _ = unix.Write(k.wake[1], []byte{0}) // a full pipe does as well
		}
	}()
}

func (k *keeper) drainWake() {
	var b [64]byte
	for {
		if n, _ := unix.Read(k.wake[0], b[:]); n < len(b) {
			return
		}
	}
}

// pause waits for a signal or the end of the last one inside, during the sweep, at most d.
func (k *keeper) pause(d time.Duration) {
	fds := [...]unix.PollFd{{Fd: int32(k.wake[0]), Events: unix.POLLIN}, {Fd: int32(k.bounds.changes()), Events: unix.POLLPRI}}
	if _, _ = unix.Poll(fds[:], int((d+time.Millisecond-1)/time.Millisecond)); fds[0].Revents != 0 {
		k.drainWake()
	}
}

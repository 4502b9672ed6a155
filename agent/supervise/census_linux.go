package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// census is the family as it was found at one time, before it is to be killed. To find a
// process takes some 20 µs on an idle machine, and to kill one that was found 6. Those that
// were killed need the processors to die, and leave little of them for finding others: so
// all are found first. It is used by one goroutine.
type census struct {
	pidfds []int
	part   bool // there may be others, that were not found
}

// census finds what is below root and not spared, until the instant; 0 is never.
func (l *lineage) census(c *census, until int64) {
	c.close()
	l.look()
	if l.scan {
		c.part = true // what is read of a process here is too old when it is to be killed
		return
	}
	l.enrol(c, l.root, -1, 4*maxDepth, until)
}

// enrol adds what is below parent. A number may become another process's after it was
// listed. So the children are listed twice: what a pidfd that was opened between the two
// leads to is the child, or dead. Root's own cannot be reaped behind our back.
func (l *lineage) enrol(c *census, parent, parentFD, depth int, until int64) {
	if depth == 0 || until != 0 && int64(clock.Now()) >= until {
		c.part = true
		return
	}
	pids := l.children(parent)
	fds := make([]int, len(pids))
	for i, pid := range pids {
		var err error
		if _, ok := l.spare[pid]; ok && parent == l.root {
			fds[i] = -1
		} else if fds[i], err = unix.PidfdOpen(pid, 0); err != nil {
			fds[i] = -1
			c.part = c.part || err != unix.ESRCH
		}
	}
	if parent != l.root && len(pids) > 0 {
		still := map[int]struct{}{}
		for _, pid := range l.children(parent) {
			still[pid] = struct{}{}
		}
		there := unreaped(parentFD)
		for i, pid := range pids {
			if _, ok := still[pid]; fds[i] >= 0 && !(ok && there) {
				unix.Close(fds[i])
				fds[i] = -1
			}
		}
	}
	for i, fd := range fds {
		if fd >= 0 {
			c.pidfds = append(c.pidfds, fd)
			l.enrol(c, pids[i], fd, depth-1, until)
		}
	}
}

// strike kills those who were found and are alive. Who is woken up to die must not take
// the processor before the last one is told: where that is allowed, this thread is not to
// be preempted for those microseconds. It reaps nobody meanwhile, nor does it look at
// /proc: on a busy machine a thread with that priority was seen to do harm there.
func (c *census) strike() {
	before, err := unix.SchedGetAttr(0, 0)
	urgent := err == nil && unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) == nil
	for _, fd := range c.pidfds {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // who cannot be killed is found again by the sweep
	}
	if urgent {
		_ = unix.SchedSetAttr(0, before, 0)
	}
}

// close forgets who was found.
func (c *census) close() {
	for _, fd := range c.pidfds {
		unix.Close(fd)
	}
	c.pidfds, c.part = nil, false
}

// deathTime is how many times as long as the finding of a family its death takes: 5 to
// 8 were measured, for 1,000 to 6,000 processes (BenchmarkCrowd). deathMost is the most
// that was seen for one of them. It counts where the finding took long because the keeper
// had to wait for a processor.
const (
	deathTime = 6
	deathMost = 400 * time.Microsecond
)

// count finds the family, because its lease was not renewed for half of it, and decides
// how long before the end to begin with the killing: twice as long as that is expected to
// take. What was found is kept until then.
func (k *keeper) count() {
	k.counted = true
	l := k.others()
	begun := clock.Now()
	l.census(&k.census, k.deadline)
	takes := min(deathTime*clock.Now().Sub(begun), time.Duration(len(k.census.pidfds))*deathMost)
	most := 3 * k.ahead / 4
	k.early = min(max(int64(2*takes-killTime), 0), most)
	if left := time.Duration(k.early) + killTime; takes > left && !k.warned {
		k.warned = true
		k.note(fmt.Sprintf("to kill the %d processes of the command may take %v, and its lease leaves %v for it: they may outlive the lease; want a longer lease, or fewer processes",
			len(k.census.pidfds), rough(takes), rough(left)))
	}
}

// rough is a duration without the digits that nobody needs.
func rough(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// raid kills the family as fast as it can be done, once: all of it but those that are
// forked meanwhile, or cannot be found so fast. The sweep finds them.
func (k *keeper) raid() {
	if k.raided {
		return
	}
	k.raided = true
	l := k.others()
	if k.counted {
		k.signalGroup(unix.SIGKILL)
		k.census.strike()
	}
	if !k.counted || k.census.part { // not all were found in time
		l.census(&k.census, 0)
		k.signalGroup(unix.SIGKILL)
		k.census.strike()
	}
	if k.census.part {
		l.strike()
	}
	k.census.close()
}

// Survivors are told of this often: the first time when the lease has ended, or, without
// one, when the killing has taken that long.
const (
	survivorsPatience = time.Second
	survivorsAgain    = 10 * time.Second
)

// tellSurvivors says who is alive though the lease has ended, or though they were killed a
// while ago, and again from time to time.
func (k *keeper) tellSurvivors(sweeping clock.Boot) {
	now := clock.Now()
	if int64(now) < k.nextTell {
		return
	}
	k.listen() // the parent may have more of the lease than when the killing began
	k.attend()
	end := k.leaseEnd()
	overran := end != 0 && int64(now) >= end
	if !overran && now.Sub(sweeping) < survivorsPatience {
		return
	}
	text, count := k.survivors()
	if count == 0 {
		return // the last one has just ended
	}
	k.nextTell = int64(now.Add(survivorsAgain))
	if overran {
		k.report(kindOverrun, int64(now))
		k.note(fmt.Sprintf("OVERRUN: the lease ended %v ago; still alive, though killed: %d of the command's processes: %s", rough(now.Sub(clock.Boot(end))), count, text))
	} else {
		k.note(fmt.Sprintf("killed %v ago, and still alive: %d of the command's processes: %s", rough(now.Sub(sweeping)), count, text))
	}
}

// survivors names some of those who are alive, and counts all.
func (k *keeper) survivors() (text string, count int) {
	const most = 6
	l := lineage{root: os.Getpid()}
	l.each(func(pid int) {
		s, ok := proc.Read(pid)
		if !ok || s.Dead() {
			return
		}
		if count++; count > most {
			return
		}
		if text != "" {
			text += ", "
		}
		text += describe(pid, s)
	})
	if count > most {
		text += fmt.Sprintf(" and %d others", count-most)
	}
	return text, count
}

// describe says of a process what there is to be known of why it does not die.
func describe(pid int, s proc.Stat) string {
	place := "/proc/" + strconv.Itoa(pid)
	name := strings.TrimSpace(string(proc.ReadFile(place+"/comm", make([]byte, 64))))
	text := fmt.Sprintf("%d (%q, state %c", pid, name, s.State)
	if s.State == 'Z' {
		text += fmt.Sprintf(" with %d threads", s.Threads)
	}
	if at := string(proc.ReadFile(place+"/wchan", make([]byte, 64))); at != "" && at != "0" {
		text += " in " + at
	}
	return text + ")"
}

package keeper

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// census is the processes of the family that were found at one time, before they are killed. On an idle machine it
// takes some 20 µs to find a process, and then 6 µs to kill it. Killed processes use the processors to die, which
// slows the search for others: so all are found first. One goroutine uses it.
type census struct {
	pidfds []int
	part   bool // there may be others that were not found
}

// census finds what is below root and not spared. It stops at the instant until; 0 is
// never.
func (l *Lineage) census(c *census, until int64) {
	c.close()
	l.Look()
	if l.Scan {
		c.part = true // what a scan reads of a process is outdated when the process is killed
		return
	}
	l.enrol(c, l.Root, -1, 4*maxDepth, until)
}

// enrol adds what is below parent. After a pid was listed it may become another
// process's. So the children are listed twice, and the pidfds are opened in between: a
// pidfd of a pid in both lists is that of the child, or of a dead process. The children
// of root itself need no second list, because only this process reaps them.
func (l *Lineage) enrol(c *census, parent, parentFD, depth int, until int64) {
	over := func() bool { return until != 0 && int64(clock.Now()) >= until }
	if depth == 0 || over() {
		c.part = true
		return
	}
	pids := l.Children(parent)
	fds := make([]int, len(pids))
	for i, pid := range pids {
		var err error
		if _, ok := l.Spare[pid]; ok && parent == l.Root {
			fds[i] = -1
		} else if over() {
			fds[i], c.part = -1, true
		} else if fds[i], err = unix.PidfdOpen(pid, 0); err != nil {
			fds[i] = -1
			c.part = c.part || err != unix.ESRCH
		}
	}
	if parent != l.Root && len(pids) > 0 {
		still := map[int]struct{}{}
		for _, pid := range l.Children(parent) {
			still[pid] = struct{}{}
		}
		there := Unreaped(parentFD)
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

// strike kills the processes that were found and are alive.
func (c *census) strike() {
	urgently(func() {
		for _, fd := range c.pidfds {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // the sweep finds what could not be killed
		}
	})
}

// urgently runs kill. A process that wakes up to die must not take the processor before the
// last one is signalled: so, if it may, this thread runs with a real-time priority for
// those microseconds. Meanwhile it reaps no process and reads nothing in /proc: on a busy
// machine a thread with that priority was seen to do harm there.
func urgently(kill func()) {
	before, err := unix.SchedGetAttr(0, 0)
	urgent := err == nil && unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) == nil
	kill()
	if urgent {
		_ = unix.SchedSetAttr(0, before, 0)
	}
}

// close forgets the processes that were found.
func (c *census) close() {
	for _, fd := range c.pidfds {
		unix.Close(fd)
	}
	c.pidfds, c.part = nil, false
}

// deathTime is the ratio of the time in which a family dies to the time in which it is
// found: 5 to 8 were measured, for 1,000 to 6,000 processes (BenchmarkCrowd). deathMost is
// the longest time that was seen for one process. It is the bound when the finding took
// long because the keeper had to wait for a processor.
const (
	deathTime = 6
	deathMost = 400 * time.Microsecond
)

// count finds the family when half of the lease has passed without a renewal, and decides how long before the end to
// begin to kill: twice the expected time. It keeps the pidfds until then. In a cgroup the kernel finds the processes
// when it kills them, and tells their number. So there the finding, which is for those that have left the cgroup, ends
// when a family of that size must be killed; the sweep finds the rest.
func (k *keeper) count() {
	k.counted = true
	most := 3 * k.ahead / 4
	early := func(takes time.Duration) int64 { return min(max(int64(2*takes-KillTime), 0), most) }
	size := len(k.bounds.Members())
	until := k.deadline - early(time.Duration(size)*deathMost)
	l := k.others()
	begun := clock.Now()
	l.census(&k.census, until)
	found := clock.Now().Sub(begun)
	size = max(size, len(k.census.pidfds))
	takes := time.Duration(size) * deathMost
	if !k.census.part {
		takes = min(takes, deathTime*found)
	}
	k.early = max(k.early, early(takes)) // the address of a family may have set it
	if left := time.Duration(k.early) + KillTime; takes > left && !k.warned {
		k.warned = true
		k.note(fmt.Sprintf("to kill the %d processes of the command may take %v, and its lease leaves %v for it: they may outlive the lease; want a longer lease, or fewer processes",
			size, rough(takes), rough(left)))
	}
}

// rough is a duration rounded for people.
func rough(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// raid kills the family once, as fast as possible, except for processes that are forked
// meanwhile or cannot be found so fast, or have left the bounds. The sweep finds those.
func (k *keeper) raid() {
	if k.raided {
		return
	}
	k.raided = true
	inside := false
	urgently(func() { inside = k.bounds.Kill() })
	l := k.others()
	if k.counted {
		k.signalGroup(unix.SIGKILL)
		k.census.strike()
	}
	if !inside && (!k.counted || k.census.part) { // not all were found in time
		l.census(&k.census, 0)
		k.signalGroup(unix.SIGKILL)
		k.census.strike()
	}
	if !inside && k.census.part {
		l.Strike()
	}
	k.census.close()
}

// How often survivors are logged: first when the lease has ended, or, without a lease,
// SurvivorsPatience after the killing began; then every survivorsAgain.
const (
	SurvivorsPatience = time.Second
	SurvivorsAgain    = 10 * time.Second
)

// tellSurvivors logs the processes that are alive although the lease has ended, or although they were killed a while
// ago, and repeats that from time to time.
func (k *keeper) tellSurvivors(sweeping clock.Boot) {
	now := clock.Now()
	if int64(now) < k.nextTell {
		return
	}
	k.listen() // the parent may have extended the lease since the killing began
	k.attend()
	end := k.leaseEnd()
	overran := end != 0 && int64(now) >= end
	if !overran && now.Sub(sweeping) < SurvivorsPatience {
		return
	}
	l := Lineage{Root: os.Getpid()}
	pids := k.bounds.Members()
	l.Each(func(pid int) {
		if !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	})
	text, count := Survivors(pids, k.outside)
	if count == 0 {
		return // the last one has just ended
	}
	k.nextTell = int64(now.Add(SurvivorsAgain))
	if overran {
		k.report(KindOverrun, int64(now))
		k.note(fmt.Sprintf("OVERRUN: the lease ended %v ago; still alive, though killed: %d of the command's processes: %s", rough(now.Sub(clock.Boot(end))), count, text))
	} else {
		k.note(fmt.Sprintf("killed %v ago, and still alive: %d of the command's processes: %s", rough(now.Sub(sweeping)), count, text))
	}
}

// Survivors names some of the processes that are alive, with the numbers that outside gives them, and counts them.
func Survivors(pids []int, outside func(pid int) string) (text string, count int) {
	const most = 6
	for _, pid := range pids {
		s, ok := proc.Read(pid)
		if !ok || s.Dead() {
			continue
		}
		if count++; count > most {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += describe(pid, outside(pid), s)
	}
	if count > most {
		text += fmt.Sprintf(" and %d others", count-most)
	}
	return text, count
}

// describe describes a process, and what /proc tells about why it does not die.
func describe(pid int, outside string, s proc.Stat) string {
	place := "/proc/" + strconv.Itoa(pid)
	name := strings.TrimSpace(string(proc.ReadFile(place+"/comm", make([]byte, 64))))
	text := fmt.Sprintf("%s (%q, state %c", outside, name, s.State)
	if s.State == 'Z' {
		text += fmt.Sprintf(" with %d threads", s.Threads)
	}
	if at := string(proc.ReadFile(place+"/wchan", make([]byte, 64))); at != "" && at != "0" {
		text += " in " + at
	}
	return text + ")"
}

package failover

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// system names the kernel.
func system() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "linux"
	}
	return fmt.Sprintf("%s %s %s", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
}

// Load is the load average of the machine over 1, 5 and 15 minutes; nil if the
// system does not tell.
func Load() *[3]float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	var l [3]float64
	if _, err := fmt.Sscan(string(text), &l[0], &l[1], &l[2]); err != nil {
		return nil
	}
	return &l
}

// idle measures what the candidates that stand by take.
func (b *bench) idle(ctx context.Context) (*Idle, error) {
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	before := map[int]time.Duration{}
	for c := range b.since {
		if c == b.leader {
			continue
		}
		used, err := cpuTime(c.PID)
		if err != nil {
			return nil, err
		}
		before[c.PID] = used
	}
	select {
	case <-time.After(b.cfg.Idle):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	took := time.Since(begin)
	i := &Idle{Candidates: len(before), Seconds: took.Seconds()}
	for pid, used := range before {
		now, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		percent := 100 * (now - used).Seconds() / took.Seconds()
		i.Mean += percent / float64(len(before))
		i.Max = max(i.Max, percent)
	}
	return i, nil
}

// cpuTime is what a process has run, to the nanosecond, threads that have ended
// included: its CPU clock, whose id is made as clock_getcpuclockid(3) does. The
// figure of /proc/PID/stat counts hundredths of a second, and is 0 for what is
// idle.
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

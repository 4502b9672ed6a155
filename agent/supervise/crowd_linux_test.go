package supervise_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// crowd is a command with many children, each in a session of its own, where no
// signal to a group reaches two of them. They wake up once a second, each at its own
// time, and stamp one place; the command stamps another. Arguments: board, size.
func crowd(args []string) {
	deafen()
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	size, err := strconv.Atoi(a["size"])
	check(err)
	for n := range size {
		crowdMember(&b.Members[1], time.Duration(n)*time.Second/time.Duration(size))
	}
	b.Members[0].live()
}

// crowdMember forks without exec: see chain.
//
//go:norace
//go:nosplit
func crowdMember(p *place, phase time.Duration) {
	pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
	if pid != 0 || errno != 0 {
		return
	}
	syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	slot := (*[2]int64)(unsafe.Pointer(p))
	var now unix.Timespec
	nap := unix.Timespec{Nsec: int64(phase)}
	for range 120 {
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
		nap = unix.Timespec{Sec: 1}
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&now)), 0)
		slot[1] = int64(now.Sec)*1e9 + int64(now.Nsec)
	}
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}

// newBoard is an empty board in a directory of the test's own.
func newBoard(t testing.TB) (string, *board) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "board")
	if err := os.WriteFile(path, make([]byte, 8192), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, b
}

// startCrowd starts a family of that many besides its command, and returns when
// all are there.
func startCrowd(t testing.TB, size int, c *supervise.Containment) (*supervise.Family, *board) {
	t.Helper()
	path, b := newBoard(t)
	exe := executable(t)
	f := start(t, supervise.Command{
		Path: exe, Args: []string{exe, "board=" + path, "size=" + strconv.Itoa(size)}, Env: partEnv("crowd"), Stderr: os.Stderr,
		Containment: c,
	})
	eventually(t, "the crowd is complete", func() bool { return b.Members[0].Alive.Load() != 0 && b.Members[1].Alive.Load() != 0 })
	return f, b
}

// lastAct is the last sign of life of a crowd.
func (b *board) lastAct() clock.Boot {
	return clock.Boot(max(b.Members[0].Alive.Load(), b.Members[1].Alive.Load()))
}

// TestCrowd: the killing of a large family begins so early that there is time for its
// death, too, and not only 20 ms before the end of its lease.
func TestCrowd(t *testing.T) {
	f, b := startCrowd(t, 1000, nil)
	end := clock.Now().Add(2 * time.Second)
	f.LeaseEnds(end)
	if got := wait(t, f); got.Reason != supervise.Expired {
		t.Error(got)
	}
	last := b.lastAct()
	if left := end.Sub(last); left < 40*time.Millisecond {
		t.Errorf("one acted %v before the end of the lease; want 40ms at least", left)
	}
	t.Logf("the last act %v before the end of the lease; an overrun of %v", end.Sub(last), f.Overrun())
}

// BenchmarkCrowd is how far a family of that many processes outlives its lease, which is not renewed: the last sign of
// life of one of them, and the instant in which the keeper has seen that all are dead. Negative is before the end. It
// counts those that were late. With busy=N so many loops run beside it, from the last renewal on.
func BenchmarkCrowd(b *testing.B) {
	for _, size := range []int{100, 1000, 2500, 6000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { benchmarkCrowd(b, size, nil, time.Second, 0) })
		b.Run(fmt.Sprintf("size=%d,cgroup", size), func(b *testing.B) {
			c, _ := contain(b)
			benchmarkCrowd(b, size, c, time.Second, 0)
		})
	}
	const loops = 4
	for _, lease := range []time.Duration{time.Second, 5 * time.Second} {
		b.Run(fmt.Sprintf("size=6000,cgroup,lease=%v,busy=%d", lease, loops), func(b *testing.B) {
			c, _ := contain(b)
			benchmarkCrowd(b, 6000, c, lease, loops)
		})
	}
}

func benchmarkCrowd(b *testing.B, size int, c *supervise.Containment, lease time.Duration, loops int) {
	var busy []int
	for range loops {
		loop := exec.Command("/bin/sh", "-c", "while :; do :; done")
		loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := loop.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
		busy = append(busy, loop.Process.Pid)
	}
	signal := func(sig syscall.Signal) {
		for _, pid := range busy {
			_ = syscall.Kill(pid, sig)
		}
	}
	var acted, dead []time.Duration
	for b.Loop() {
		signal(syscall.SIGSTOP)
		f, board := startCrowd(b, size, c)
		signal(syscall.SIGCONT)
		end := clock.Now().Add(lease)
		f.LeaseEnds(end)
		f.Wait()
		acted = append(acted, board.lastAct().Sub(end))
		dead = append(dead, f.Ended().Sub(end))
	}
	for name, after := range map[string][]time.Duration{"acted": acted, "dead": dead} {
		reportTimes(b, name, after)
		late := 0
		for _, d := range after {
			if d > 0 {
				late++
			}
		}
		b.ReportMetric(float64(late), name+"-late")
	}
}

// reportTimes reports the median and the greatest of some times in place of the time of an iteration.
func reportTimes(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-"+name+"-median")
	b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms-"+name+"-worst")
	b.ReportMetric(0, "ns/op")
}

//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
)

// ledger is the log that children write about their own lives: an array in a
// file that all of them map. A life claims a slot by one atomic addition and
// then stamps it again and again, so nothing in it waits for anybody, and what
// a killed process stamped last stays.
type ledger struct {
	mem   []byte
	slots []life
}

// life is one process of a leader's family, as it saw itself. All fields are
// written by that process alone.
type life struct {
	token  int64
	pid    int64
	keeper int64 // parent of the family's first process; 0 for its descendants
	start  int64 // CLOCK_BOOTTIME, ns
	last   int64 // of its last stamp
}

const (
	maxLives  = 1 << 14
	lifeBytes = int(unsafe.Sizeof(life{}))

	// beat is the time between two stamps. An overlap that is shorter goes
	// unseen.
	beat = 100 * time.Microsecond
)

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := 8 + maxLives*lifeBytes
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &ledger{mem: mem, slots: unsafe.Slice((*life)(unsafe.Pointer(&mem[8])), maxLives)}, nil
}

func (l *ledger) next() *int64 { return (*int64)(unsafe.Pointer(&l.mem[0])) }

// lives returns copies of all lives so far.
func (l *ledger) lives() []life {
	n := int(atomic.LoadInt64(l.next()))
	all := make([]life, 0, n)
	for i := range min(n, maxLives) {
		s := &l.slots[i]
		c := life{
			token: atomic.LoadInt64(&s.token), pid: atomic.LoadInt64(&s.pid), keeper: atomic.LoadInt64(&s.keeper),
			start: atomic.LoadInt64(&s.start), last: atomic.LoadInt64(&s.last),
		}
		if c.last != 0 { // otherwise it was killed as it claimed the slot, or is about to stamp
			all = append(all, c)
		}
	}
	return all
}

// live stamps a slot until the process is killed.
func (l *ledger) live(token, keeper int64) {
	born := int64(clock.Now())
	n := int(atomic.AddInt64(l.next(), 1)) - 1
	if n >= maxLives {
		panic("chaos: the ledger is full")
	}
	s := &l.slots[n]
	atomic.StoreInt64(&s.token, token)
	atomic.StoreInt64(&s.pid, int64(os.Getpid()))
	atomic.StoreInt64(&s.keeper, keeper)
	atomic.StoreInt64(&s.start, born)
	for {
		atomic.StoreInt64(&s.last, int64(clock.Now()))
		time.Sleep(beat)
	}
}

const (
	ledgerEnv     = "CHAOS_LEDGER"
	descendantEnv = "CHAOS_DESCENDANT"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerEnv); path != "" {
		child(path)
	}
	os.Exit(m.Run())
}

// child is what elect runs: it starts a descendant that leaves its session and
// ignores every polite signal, and both stamp until they are killed. SIGTERM
// ends the child itself.
func child(path string) {
	l, err := openLedger(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos child:", err)
		os.Exit(70)
	}
	token, err := strconv.ParseInt(os.Getenv("ELECT_TOKEN"), 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos child: ELECT_TOKEN:", err)
		os.Exit(70)
	}
	if os.Getenv(descendantEnv) != "" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		l.live(token, 0)
	}
	go l.live(token, int64(os.Getppid()))
	d := exec.Command("/proc/self/exe")
	d.Env = append(os.Environ(), descendantEnv+"=1")
	d.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := d.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos child:", err)
		os.Exit(70)
	}
	select {}
}

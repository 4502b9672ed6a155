//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// board is memory that a guarded member and its child have: for each key the life that goes on. The child belongs to
// the family that a keeper kills, so what it does is work of the member's keys, too: a witness that speaks while the
// child is alive frees keys whose lives go on.
type board []claim

// claim is what the board says of one key.
type claim struct {
	life  int64 // its number in the ledger, and 1; 0: there is none
	until int64 // as of a holding
}

func mapped(f *os.File, keys int) (board, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, keys*int(unsafe.Sizeof(claim{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("the board of a member and its child: %w", err)
	}
	return unsafe.Slice((*claim)(unsafe.Pointer(&mem[0])), keys), nil
}

// bear starts the child of this member.
func bear(keys int) (board, error) {
	fd, err := unix.MemfdCreate("board", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("the board of a member and its child: %w", err)
	}
	f := os.NewFile(uintptr(fd), "board")
	defer f.Close()
	if err := f.Truncate(int64(keys) * int64(unsafe.Sizeof(claim{}))); err != nil {
		return nil, err
	}
	b, err := mapped(f, keys)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", "child", strconv.Itoa(os.Getpid()))
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a child: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return b, nil
}

func (b board) set(key int64, life int, until int64) {
	if b != nil {
		atomic.StoreInt64(&b[key].until, until)
		atomic.StoreInt64(&b[key].life, int64(life)+1)
	}
}

func (b board) clear(key int64) {
	if b != nil {
		atomic.StoreInt64(&b[key].life, 0)
	}
}

// child ignores requests to end. It stamps the lives of its parent's keys, each until the claim is over that was proven
// last: also when the parent is dead, or frozen. It ends when no claim is left of a parent that is dead.
func child(s surroundings, args []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	if len(args) != 1 {
		return usagef("child has the arguments %q; want the process id of its parent", args)
	}
	parent, err := strconv.Atoi(args[0]) // which may be dead by now
	if err != nil {
		return usagef("the parent is %q; want its process id", args[0])
	}
	f := os.NewFile(3, "board")
	info, err := f.Stat()
	if err != nil {
		return usagef("descriptor 3: %w; want the board of a member", err)
	}
	b, err := mapped(f, int(info.Size())/int(unsafe.Sizeof(claim{})))
	if err != nil {
		return err
	}
	l, err := s.ledger()
	if err != nil {
		return err
	}
	onTime()
	for {
		dead, works := os.Getppid() != parent, false
		at := l.Now() // before the board: what is cleared later was alive
		for i := range b {
			life, until := atomic.LoadInt64(&b[i].life), atomic.LoadInt64(&b[i].until)
			if life != 0 && at < until {
				l.Prolong(int(life)-1, at)
				works = true
			}
		}
		if dead && !works {
			return nil
		}
		nap(look)
	}
}

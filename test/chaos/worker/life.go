//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/test/chaos/lives"
)

// beat is the time between two stamps of a family.
const beat = 150 * time.Microsecond

// life is what elect run starts. It lives until it is killed, or SIGTERM ends it.
func life(s surroundings) error {
	token, l, err := inherited(s)
	if err != nil {
		return err
	}
	go stamp(l, lives.Life{Token: int64(token), Keeper: int64(os.Getppid()), Node: s.node, Kind: lives.Command})
	if _, err := descend(token); err != nil {
		return err
	}
	ctx := context.Background()
	c, err := newWorkload(s, s.name("life"), newLog(s))
	if err != nil {
		return err
	}
	var position uint64
	go c.work(ctx, nil, func() (fence.Token, bool) { return token, true }, func() fence.Sequence {
		position++
		return fence.Sequence{Token: token, Position: position}
	})
	return s.gone(ctx)
}

// descendant is started by a leader, and ignores requests to end.
func descendant(s surroundings) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1)
	token, l, err := inherited(s)
	if err != nil {
		return err
	}
	go stamp(l, lives.Life{Token: int64(token), Node: s.node, Kind: lives.Descendant})
	return s.gone(context.Background())
}

// inherited is what a process of a family gets: the token of its leader, and the ledger.
func inherited(s surroundings) (fence.Token, *lives.Ledger, error) {
	token, err := fence.ParseToken(os.Getenv("ELECT_TOKEN"))
	if err != nil {
		return 0, nil, fmt.Errorf("ELECT_TOKEN: %w", err)
	}
	l, err := s.ledger()
	return token, l, err
}

// descend starts a descendant, in a session of its own.
func descend(token fence.Token) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe", "descendant")
	cmd.Env = append(os.Environ(), "ELECT_TOKEN="+token.String())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a descendant: %w", err)
	}
	return cmd, nil
}

// stamp begins a life, and stamps until the process ends.
func stamp(l *lives.Ledger, life lives.Life) {
	onTime()
	slot := l.Begin(life)
	for {
		slot.Stamp()
		nap(beat)
	}
}

// onTime gives this goroutine a thread of its own, which sleeps as long as requested and not, as is
// usual, 50 µs more.
func onTime() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // stamps would be rarer
}

// nap sleeps in the kernel: a process that must run at once when it is resumed must not wait for
// the scheduler of the program.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal cuts it short
}

// number reads an argument.
func number(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, usagef("%q; want a number from %d", text, least)
	}
	return n, nil
}

//go:build linux

package main

import (
	"context"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/register"
)

// lapse is the textbook's pause: at a SIGUSR2 (p.lapses) the program calls Check, stops itself as a
// garbage collection would, and when it resumes writes with its token, as if no time had passed. It
// does so once a term. While it does not lead the signal has no effect.
func (p *program) lapse(ctx context.Context, term *elect.Term) {
	select {
	case <-p.lapses: // from before this term
	default:
	}
	select {
	case <-ctx.Done():
		return
	case <-p.lapses:
	}
	name := register.Name(p.name("program") + "late")
	client, err := register.Open(p.dir, name)
	if err != nil {
		p.log.Warn("no late write", "error", err)
		return
	}
	defer client.Close()
	// SIGSTOP to the own thread is carried out before the call returns to it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if term.Check() != nil {
		return
	}
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		p.log.Warn("no late write", "error", err)
		return
	}
	if _, err := client.Write(context.WithoutCancel(ctx), term.Token(), name); err != nil {
		p.log.Warn("the late write has no outcome", "error", err)
	}
}

//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// GuardEnv tells a program that it is guarded: the keeper's pid and the descriptor of a socket to it. KeeperMain
// removes it from the environment, so that child processes do not take it for theirs. It must not be the variable of a
// flag of a command, as ELECT_GUARD is.
const GuardEnv = "ELECT_GUARDED_BY"

// guarded is the keeper's state for a program that calls Guard.
type guarded struct {
	conn  int // a socket to the program, or -1
	given int // the program's end, until the program has it; 0 is none
	in    Decoder
	mail  mail
	leads []guardedLead
}

type guardedLead struct {
	id   uint64
	at   int64      // the deadline; 0 is none
	left *testament // its testament, and the files to keep
}

// connect makes the socket to the program. The descriptor of the program's end is at least above.
func (g *guarded) connect(attr *syscall.ProcAttr, above int) error {
	mine, theirs, err := SocketPair()
	if err != nil {
		return err
	}
	defer unix.Close(mine)
	defer unix.Close(theirs)
	if g.conn, err = unix.FcntlInt(uintptr(mine), unix.F_DUPFD_CLOEXEC, above); err != nil {
		return err
	}
	if g.given, err = unix.FcntlInt(uintptr(theirs), unix.F_DUPFD, above); err != nil {
		return err
	}
	attr.Env = append(slices.Clip(attr.Env), fmt.Sprintf("%s=%d:%d", GuardEnv, os.Getpid(), g.given))
	return nil
}

// started closes what only the program needs.
func (g *guarded) started() {
	if g.given != 0 {
		unix.Close(g.given)
		g.given = 0
	}
}

// attend reads what the program wrote, without waiting. If the program closes its end or writes nonsense, its
// deadlines stay in force.
func (k *keeper) attend() {
	g := &k.guarded
	for g.conn >= 0 {
		for {
			kind, payload, ok, err := g.in.Next()
			if err != nil {
				g.hangUp()
				return
			}
			if !ok {
				break
			}
			if l, err := LoadLead(payload); err == nil {
				k.serve(kind, l)
			}
		}
		n, err := g.mail.receive(g.conn, g.in.Room())
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case n <= 0:
			g.hangUp()
		default:
			g.in.Took(n)
		}
	}
}

func (g *guarded) hangUp() {
	unix.Close(g.conn)
	g.conn = -1
}

// serve carries out the program's request.
func (k *keeper) serve(kind Kind, l Lead) {
	g := &k.guarded
	at := slices.IndexFunc(g.leads, func(have guardedLead) bool { return have.id == l.Id })
	switch {
	case kind == KindLead && at < 0:
		files := g.mail.files[:min(l.Files, len(g.mail.files))]
		g.mail.files = slices.Clone(g.mail.files[len(files):])
		if len(files) < l.Files {
			for _, fd := range files {
				unix.Close(fd)
			}
			g.answer(unix.EMFILE)
			return
		}
		g.leads = append(g.leads, guardedLead{id: l.Id, at: l.At, left: k.accept(l.Testament, slices.Clone(files))})
		g.answer(0)
	case kind == KindExtend && at >= 0:
		g.leads[at].at = l.At
	case kind == KindDone && at >= 0:
		k.drop(g.leads[at].left)
		g.leads = slices.Delete(g.leads, at, at+1)
	}
	deadline := int64(0)
	for _, have := range g.leads {
		deadline = earliest(deadline, have.at)
	}
	k.expect(deadline)
}

func (g *guarded) answer(errno syscall.Errno) {
	frame := AppendNumber(nil, KindTaken, int64(errno))
	for {
		if _, err := unix.Write(g.conn, frame); err != unix.EINTR {
			return // a program that is gone needs no answer
		}
	}
}

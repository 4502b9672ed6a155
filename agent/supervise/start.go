//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
)

// Start starts the command and returns when it has been executed. ctx bounds the start alone, not the command's life.
//
// A *StartError means that the command line is at fault, and has an exit code for it. Other errors mean that the
// machine or the environment is. One that matches driver.ErrExpired means that the lease of the mandate was about to
// end. After an error nothing is left running.
func Start(ctx context.Context, c Command) (*Family, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if keeperReady.Load() == nil {
		return nil, errNotReady
	}
	path, err := programPath(c.Path, c.Dir)
	if err != nil {
		return nil, err
	}
	s := keeper.Spec{
		Path: path, Dir: c.Dir, Args: c.Args, Env: c.Env, Grace: c.grace(),
		Group: unix.Getpgrp(), Hold: len(c.under.hold),
		Run: len(c.under.keep), Testament: string(c.under.testament), Guard: c.guard, Addresses: encoded(c.Addresses),
	}
	for _, file := range c.under.hold {
		place := file.Name()
		if !filepath.IsAbs(place) {
			place = ""
		}
		s.Places = append(s.Places, place)
	}
	if c.under.lease != nil {
		now := clock.Now() // before the question
		if left, bounded := c.under.lease(); bounded {
			s.Deadline = keeper.Shared(killAt(now, left))
		}
	}
	if len(s.Args) == 0 {
		s.Args = []string{c.Path}
	}
	if err := checkZeros(&s); err != nil {
		return nil, err
	}
	if c.Terminal != nil {
		if group, err := keeper.Foreground(int(c.Terminal.Fd())); err == nil {
			s.Terminal, s.Foreground = true, group == s.Group
		} // it is not this process's controlling terminal, and there is nothing to hand over
	}
	held, cgroup, err := c.Containment.bounds(ctx)
	if err != nil {
		return nil, err
	}
	var f *Family
	defer func() {
		if f == nil {
			held.Remove()
		}
	}()
	page := c.page(&s)
	defer func() {
		if f == nil {
			page.Remove()
		}
	}()
	s.Cgroup, s.Network = cgroup, held.Gate() >= 0
	files, err := c.files(&s, held.Gate())
	if err != nil {
		return nil, err
	}
	defer files.close()
	frame := keeper.AppendFrame(nil, keeper.KindSpec, s.Append(nil))
	if len(frame) > keeper.MaxFrame {
		return nil, &StartError{Path: c.Path, Err: syscall.E2BIG}
	}

	f = c.Spare.take(s.Hold+s.Run, c.Containment)
	if f == nil {
		if f, err = startKeeper(s.Hold+s.Run, c.guard || s.Testament != "", c.Path, c.Containment, c.logger()); err != nil {
			return nil, err
		}
	}
	f.bounds, f.page, f.proof, f.addresses = held, page, c.under.lease, s.Addresses
	f.proven()
	f.lease.Store(keeper.LeaseEnd(s.Deadline))
	f.log, f.grace = c.logger().With("command", filepath.Base(path)), s.Grace
	if s.Terminal {
		f.terminal = c.Terminal
	}
	if c.under.entrust != nil {
		c.under.entrust(f.Gone, f.done)
	}
	err = f.handshake(ctx, frame, files)
	if err == nil {
		f.track()
		if f.terminal != nil {
			f.others.Go(f.jobControl)
		}
		if page != nil {
			f.others.Go(leasepage.Tidy) // the command runs already
		}
		go f.watch() // it joins the others
		return f, nil
	}
	f.drain() // the keeper ends, and with it what it may have started
	f.others.Wait()
	close(f.done)
	if errno, ok := errors.AsType[refusedError](err); ok {
		if errno == refusedError(keeper.NoAddress) && f.noted != "" {
			return nil, fmt.Errorf("%w: %s", ErrAddress, f.noted)
		}
		if errno == refusedError(keeper.Late) {
			return nil, fmt.Errorf("supervise: the command was not started in time: %w", driver.ErrExpired)
		}
		return nil, c.startError(path, syscall.Errno(errno))
	}
	if errors.Is(err, ErrProc) {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("supervise: the keeper did not start: %w", err)
}

// page makes a lease page if there is to be one, for the keeper and the command of s.
func (c *Command) page(s *keeper.Spec) *leasepage.Writer {
	if !c.LeasePage {
		return nil
	}
	s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(pair string) bool { return strings.HasPrefix(pair, leasepage.Env+"=") })
	if c.under.token == nil {
		return nil
	}
	// Without a lease it proves nothing until the keeper has looked, before the command starts.
	page, err := leasepage.Create(leasepage.State{Token: c.under.token(), Until: keeper.LeaseEnd(s.Deadline)})
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			c.logger().Warn("there is no lease page", "error", err)
		}
		return nil
	}
	s.Page, s.Env = page.Path(), append(s.Env, leasepage.Env+"="+page.Path())
	return page
}

// handshake sends the keeper its specification and reads the answer. After an error the keeper is about to end.
func (f *Family) handshake(ctx context.Context, spec []byte, files files) error {
	var mu sync.Mutex
	over := false
	limit := func(at time.Time) {
		_ = f.commands.SetWriteDeadline(at)
		_ = f.reports.SetReadDeadline(at)
	}
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			limit(time.Unix(1, 0))
		}
	})
	err := keeper.SendFiles(f.commands, spec, files)
	told := err == nil
	if told && f.proof != nil {
		f.proving.Lock()
		f.told = true
		f.proving.Unlock()
		f.others.Go(func() { prolong(f.proven, f.closed, f.deadline) }) // the start may take longer than the lease
	}
	if told || keeper.HasGone(err) { // a keeper that is dead may have said why
		f.pid, err = f.awaitStart()
	}
	stop()
	mu.Lock()
	over = true
	limit(time.Time{})
	mu.Unlock()
	switch {
	case err == nil:
	case told:
		_ = f.send(keeper.AppendNumber(nil, keeper.KindAbort, 0)) // it may be running the command
	default:
		f.commands.Close() // the keeper has only a part of its specification
	}
	return err
}

func programPath(name, dir string) (string, error) {
	path, err := LookPath(name)
	if err == nil && dir != "" && path != name && !filepath.IsAbs(path) {
		return filepath.Abs(path) // PATH is relative to this directory, not to the command's
	}
	return path, err
}

// checkZeros refuses what no system call accepts.
func checkZeros(s *keeper.Spec) error {
	for _, list := range [][]string{{s.Path, s.Dir}, s.Args, s.Env} {
		for _, text := range list {
			if strings.IndexByte(text, 0) >= 0 {
				return &StartError{Path: strconv.Quote(s.Path), Err: errors.New("a zero byte in an argument or the environment")}
			}
		}
	}
	return nil
}

// startError translates the kernel's refusal for the caller.
func (c *Command) startError(path string, errno syscall.Errno) error {
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return fmt.Errorf("supervise: no resources to start %s: %w", path, errno)
	case syscall.ENODEV, syscall.EBUSY, syscall.EOPNOTSUPP:
		if c.Containment != nil && c.Containment.cgroup {
			return fmt.Errorf("%w: the cgroup for %s takes no process: %w", ErrContain, path, errno)
		}
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return &StartError{Path: c.Dir, Err: fmt.Errorf("cannot be its directory: %w", syscall.ENOTDIR)}
		}
	}
	return &StartError{Path: path, Err: errno}
}

// files are the descriptors that the keeper gets with the specification. They are this call's own: others may close
// theirs at any time, and another file may then get the number.
type files []int

// files lists the files for the keeper in the order of its slots.
func (c *Command) files(s *keeper.Spec, gate int) (list files, err error) {
	defer func() {
		if err != nil {
			list.close()
			list = nil
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("supervise: cannot open the null device: %w", err)
	}
	defer null.Close()
	all := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i, file := range all {
		if file == nil {
			all[i] = null
		}
	}
	if s.Terminal {
		all = append(all, c.Terminal)
	}
	if gate >= 0 {
		fd, err := unix.FcntlInt(uintptr(gate), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("supervise: cannot start the keeper: %w", os.NewSyscallError("fcntl", err))
		}
		list = append(list, fd)
	}
	if s.Testament != "" {
		if fd := openSelf(); fd >= 0 {
			s.Parent = os.Getpid()
			list = append(list, fd)
		}
	}
	for _, file := range slices.Concat(all, c.under.hold, c.under.keep) {
		fd, err := duplicate(file)
		if err != nil {
			return list, fmt.Errorf("supervise: cannot start the keeper: %w", err)
		}
		list = append(list, fd)
		if gate >= 0 {
			if err := leaves(fd, file.Name()); err != nil {
				return list, fmt.Errorf("%w: %w", ErrContain, err)
			}
		}
	}
	return list, nil
}

func (l files) close() {
	for _, fd := range l {
		unix.Close(fd)
	}
}

// duplicate returns another descriptor of an open file, and sets the file to blocking mode, as a command expects.
func duplicate(file *os.File) (fd int, err error) {
	err = os.ErrClosed
	if file.Fd() != ^uintptr(0) {
		if raw, failed := file.SyscallConn(); failed == nil { // the file stays open while Control runs
			_ = raw.Control(func(n uintptr) { fd, err = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, 0) })
		}
	}
	if err != nil {
		return -1, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return fd, nil
}

// startKeeper starts a keeper that waits for its specification, with room for room locks and files to keep. attests is
// whether it may get a testament. name is for lists of processes.
func startKeeper(room int, attests bool, name string, c *Containment, log *slog.Logger) (*Family, error) {
	fail := func(what string, err error) (*Family, error) {
		return nil, fmt.Errorf("supervise: %s: %w", what, err)
	}
	f := &Family{
		keeperLog: log,
		exited:    make(chan struct{}),
		closed:    make(chan struct{}),
		done:      make(chan struct{}),
		overran:   make(chan struct{}),
		paused:    make(chan syscall.Signal, 4),
	}
	if err := keeper.SeesFamily(); err != nil {
		return nil, errProc(err)
	}
	var theirs []*os.File // the keeper's ends
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
	}()
	mine, end, err := keeper.SocketPair()
	if err != nil {
		return fail("cannot tell the keeper anything", err)
	}
	f.commands = os.NewFile(uintptr(mine), "commands")
	theirs = append(theirs, os.NewFile(uintptr(end), "commands"))
	for _, mine := range []**os.File{&f.reports, &f.gone} {
		var end *os.File
		if *mine, end, err = os.Pipe(); err != nil {
			f.closeEnds()
			return fail("cannot make a pipe", err)
		}
		theirs = append(theirs, end)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		f.closeEnds()
		return fail("cannot open the null device", err)
	}
	defer null.Close()
	base, err := findBase(keeper.SlotHold + room)
	if err != nil {
		f.closeEnds()
		return fail("cannot start the keeper", err)
	}
	const none = ^uintptr(0) // closed in the keeper
	all := make([]uintptr, base, base+len(theirs))
	for fd := range all {
		if all[fd] = none; inherited(fd) {
			all[fd] = uintptr(fd)
		}
	}
	all[0], all[1] = null.Fd(), null.Fd() // the command's come later
	if all[2] == none {
		all[2] = null.Fd() // else this process's own, where Go's runtime would write a panic
	}
	for _, file := range theirs {
		all = append(all, file.Fd())
	}
	exe, err := selfPath()
	if err != nil {
		f.closeEnds()
		return fail("cannot find this program", err)
	}

	attr := &syscall.SysProcAttr{Setpgid: true}
	space := keeper.OfParent
	if f.init = c.Level() == Pid; f.init {
		space = c.namespace(attr)
	}
	keepers.Lock()
	f.keeper, err = syscall.ForkExec(exe, keeper.Arguments(space, attests && keeperReady.Load().witness, base, name), &syscall.ProcAttr{
		Env:   os.Environ(), // it may need what Go's runtime and the loader read; the command gets its own
		Files: all,
		Sys:   attr,
	})
	if err == nil {
		keepers.add(f.keeper)
	}
	keepers.Unlock()
	if err != nil {
		f.closeEnds()
		return fail("cannot start the keeper", err)
	}
	f.goneFD = int32(f.gone.Fd())
	go f.awaitKeeper()
	return f, nil
}

// closeEnds closes this process's ends.
func (f *Family) closeEnds() {
	for _, file := range []*os.File{f.commands, f.reports, f.gone} {
		if file != nil {
			file.Close()
		}
	}
}

// findBase returns the start of n descriptors that this process has not inherited: the lowest number from 200 on, or
// a lower one that the limit allows.
func findBase(n int) (int, error) {
	base := 200
	var limit unix.Rlimit
	// ForkExec briefly copies the descriptors to numbers above all others.
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && uint64(base+2*n+16) > uint64(limit.Cur) {
		base = int(limit.Cur) - 2*n - 16
	}
	for ; base >= 3; base++ {
		free := true
		for fd := base; fd < base+n && free; fd++ {
			free = !inherited(fd)
		}
		if free {
			return base, nil
		}
	}
	return 0, fmt.Errorf("%w: raise the limit of open files above %d", syscall.EMFILE, limit.Cur)
}

// inherited reports whether exec would pass fd on. Go's own files are not passed on, so such a descriptor was
// inherited at the start of this process.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// refusedError is the errno of a command that could not be started.
type refusedError syscall.Errno

func (e refusedError) Error() string { return syscall.Errno(e).Error() }

// awaitStart reads the keeper's answer.
func (f *Family) awaitStart() (pid int, err error) {
	for {
		k, payload, err := f.read()
		if err != nil {
			return 0, err
		}
		if k == keeper.KindBlind {
			return 0, errProc(errors.New(string(payload)))
		}
		n, err := keeper.Number(payload)
		switch {
		case err != nil:
			return 0, err
		case k == keeper.KindStarted:
			return int(n), nil
		case k == keeper.KindFailed:
			return 0, refusedError(n)
		default:
			f.hear(k, payload) // why it kills the command, although that has not been executed yet
		}
	}
}

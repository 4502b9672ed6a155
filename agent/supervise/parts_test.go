//go:build linux

package supervise_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// board is memory that the members of a family share with the test. Each
// writes when it was last alive into a place of its own.
type board struct {
	Members  [16]place
	Parent   atomic.Int64 // the parent's pid
	Keeper   atomic.Int64 // the keeper's
	Gone     atomic.Int64 // when the parent saw that the keeper lets go
	Done     atomic.Int64 // when the parent saw that all are dead
	Exit     atomic.Int64 // Reason<<16 | ExitCode, when Done
	Arm      atomic.Int64 // not 0: the parent sets its deadline
	Deadline atomic.Int64 // what the parent set
	Woken    atomic.Int64 // how often the parent woke up the keeper
	Hurry    atomic.Int64 // not 0: the fork loop runs at full speed
}

type place struct {
	PID   atomic.Int64
	Alive atomic.Int64 // clock.Boot
	First atomic.Int64 // the first of them
	_     [40]byte     // a cache line each
}

func openBoard(path string) (*board, error) {
	// Without package os, which would make Go's poller: members close all their
	// descriptors, and the runtime does not survive the closing of the poller's.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*board)(unsafe.Pointer(&data[0])), nil
}

// live stamps the place until somebody kills this process, or in the end all
// by itself: a broken keeper must not fill the machine.
func (p *place) live() {
	p.PID.Store(int64(os.Getpid()))
	p.First.Store(int64(clock.Now()))
	for end := clock.Now().Add(3 * patience); clock.Now() < end; {
		p.Alive.Store(int64(clock.Now()))
		ts := unix.NsecToTimespec(100_000)
		_ = unix.Nanosleep(&ts, nil)
	}
}

// parent runs a command with the lock held, as a leader does.
// Arguments: board, lock, command (a part), adopt, deadline=DURATION (that far
// off from when the test arms it, once), grace, keep (a file to lock and keep), testament, second (the
// place of a second family, of one member), contain (a name: of a family in a cgroup, or at the level of the
// environment), network (yes: guarded), lease (renewed to that as long as this process runs and Arm is 0; Deadline is
// its end), by (terms: without a keeper, by a TermGuard).
func parent(args []string) {
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	lock, err := os.OpenFile(a["lock"], os.O_RDWR, 0)
	check(err)
	check(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if a["adopt"] == "yes" {
		check(supervise.AdoptOrphans())
	}
	exe, err := os.Executable()
	check(err)
	grace, _ := time.ParseDuration(a["grace"])
	var keep []*os.File
	if path := a["keep"]; path != "" {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		check(err)
		check(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		keep = append(keep, file)
	}
	if a["second"] != "" {
		_, err := supervise.Start(context.Background(), supervise.Command{
			Path: exe, Args: []string{exe, "board=" + a["board"], "place=" + a["second"]}, Env: partEnv("member"),
			Stderr: os.Stderr, Containment: levelOfEnv(),
		}.With(supervise.Held{Keep: keep, Testament: []byte(a["testament"])}))
		check(err)
	}
	contained := levelOfEnv()
	if name := a["contain"]; name != "" {
		level := supervise.Cgroup
		if contained != nil {
			level = contained.Level()
		}
		contained, err = supervise.Contain(context.Background(), level, name, nil)
		check(err)
		if a["network"] == "yes" {
			check(contained.GuardNetwork())
		}
	}
	var lease func() (time.Duration, bool)
	if d, err := time.ParseDuration(a["lease"]); err == nil {
		lease = func() (time.Duration, bool) {
			if at := clock.Now().Add(d); b.Arm.Load() == 0 {
				b.Deadline.Store(int64(at))
			}
			return max(clock.Boot(b.Deadline.Load()).Sub(clock.Now()), 0), true
		}
	}
	if a["by"] == "terms" {
		g, err := supervise.NewTermGuard(contained)
		check(err)
		_, err = g.Lead(guardedLease(context.Background(), lease))
		check(err)
		cmd := exec.Command(exe, "board="+a["board"])
		cmd.Env, cmd.Stderr = partEnv(a["command"]), os.Stderr
		check(g.Start(cmd))
		b.Keeper.Store(int64(os.Getpid()))
		b.Parent.Store(int64(os.Getpid()))
		check(cmd.Wait())
		return
	}
	f, err := supervise.Start(context.Background(), supervise.Command{
		Path: exe, Args: []string{exe, "board=" + a["board"]}, Env: partEnv(a["command"]), Containment: contained,
		Stdout: os.Stdout, Stderr: os.Stderr, Grace: grace,
		Logger: slog.New(listener{slog.DiscardHandler, &b.Woken}),
	}.With(supervise.Held{Hold: []*os.File{lock}, Keep: keep, Testament: []byte(a["testament"]), Lease: lease}))
	check(err)
	if d, err := time.ParseDuration(a["deadline"]); err == nil {
		go func() {
			for b.Arm.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			at := clock.Now().Add(d)
			f.Deadline(at)
			b.Deadline.Store(int64(at))
		}()
	}
	s, _ := proc.Read(f.PID())
	b.Keeper.Store(int64(s.Parent))
	b.Parent.Store(int64(os.Getpid()))
	go func() {
		for !f.Gone() {
			time.Sleep(time.Millisecond)
		}
		b.Gone.Store(int64(clock.Now()))
	}()
	exit := f.Wait()
	b.Exit.Store(int64(exit.Reason)<<16 | int64(exit.ExitCode()))
	b.Done.Store(int64(clock.Now()))
	for b.Gone.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

// listener counts the log's lines on a keeper that was stopped.
type listener struct {
	slog.Handler
	woken *atomic.Int64
}

func (l listener) Enabled(context.Context, slog.Level) bool { return true }

func (l listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "the keeper was stopped") {
		l.woken.Add(1)
	}
	return nil
}

// deafen ignores all that can be ignored.
func deafen() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGPIPE)
}

// hostile is a command whose family does all it can to survive it.
func hostile(args []string) {
	deafen()
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	spawnHostile(a)
	b.Members[0].live()
}

// spawnHostile starts the five others of a hostile family.
func spawnHostile(a map[string]string) {
	spawn := func(part string, place int, attr *syscall.SysProcAttr, env ...string) {
		_, err := syscall.ForkExec(selfExe(), []string{"member", "board=" + a["board"], "place=" + strconv.Itoa(place)},
			&syscall.ProcAttr{Env: append(env, partEnv(part)...), Files: []uintptr{0, 1, 2}, Sys: attr})
		check(err)
	}
	spawn("member", 1, nil)                                 // in the background
	spawn("member", 2, &syscall.SysProcAttr{Setsid: true})  // a session of its own
	spawn("member", 3, &syscall.SysProcAttr{Setpgid: true}) // a group of its own
	spawn("daemon", 4, &syscall.SysProcAttr{Setsid: true})  // forks again and closes everything
	spawn("daemon", 5, nil, "SUPERVISE_DEEP=3")             // several times
}

// member ignores signals and closes all descriptors, the lock among them.
func member(args []string) {
	deafen()
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	n, _ := strconv.Atoi(a["place"])
	for fd := range 1024 {
		_ = unix.Close(fd)
	}
	b.Members[n].live()
}

// daemon starts a member, or another daemon, and leaves it alone.
func daemon(args []string) {
	deep, _ := strconv.Atoi(os.Getenv("SUPERVISE_DEEP"))
	part := "member"
	if deep > 0 {
		part = "daemon"
	}
	_, err := syscall.ForkExec(selfExe(), append([]string{"daemon"}, args...), &syscall.ProcAttr{
		Env: append([]string{"SUPERVISE_DEEP=" + strconv.Itoa(deep-1)}, partEnv(part)...),
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	check(err)
}

func selfExe() string { return "/proc/self/exe" }

// tree starts a child that starts a child, and so on, all waiting.
func tree(args []string) {
	deep, _ := strconv.Atoi(os.Getenv("SUPERVISE_DEEP"))
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	if deep < 5 {
		_, err := syscall.ForkExec(selfExe(), append([]string{"tree"}, args...), &syscall.ProcAttr{
			Env: append([]string{"SUPERVISE_DEEP=" + strconv.Itoa(deep+1)}, partEnv("tree")...),
			Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		check(err)
	}
	b.Members[deep].live()
}

// forkLoop has several chains of processes, each of which forks the next and
// ends, so that none is there for longer than it takes to look.
//
// A chain whose keeper is stopped by a mistake of a test fills the machine's
// table of processes with zombies. So it ends by itself, after a number of
// links that is harmless, and runs at full speed only when the test says that
// somebody is about to be killed.
func forkLoop(args []string) {
	deafen()
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	for n := 1; n <= chains; n++ {
		chain(&b.Members[n], &b.Hurry)
	}
	b.Members[0].live()
}

const (
	chains = 3
	links  = 2500 // of each chain, ever
)

// chain forks without exec: its children may make system calls and nothing
// else. That is what the pragmas and the plain loads and stores are for.
//
//go:norace
//go:nosplit
func chain(p *place, hurry *atomic.Int64) {
	pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
	if pid != 0 || errno != 0 {
		return
	}
	slot := (*[2]int64)(unsafe.Pointer(p))
	fast := (*int64)(unsafe.Pointer(hurry))
	var now unix.Timespec
	nap := unix.Timespec{Nsec: 5_000_000}
	for range links {
		pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
		slot[0] = int64(pid)
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&now)), 0)
		slot[1] = int64(now.Sec)*1e9 + int64(now.Nsec)
		if *fast == 0 {
			syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
		}
		pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if pid != 0 || errno != 0 {
			break
		}
	}
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}

// inspect writes what it finds itself to be, a line for each.
func inspect([]string) {
	entries, err := os.ReadDir("/proc/self/fd")
	check(err)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		check(err)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // opened since by Go's runtime: what exec passed on has not got the flag
		}
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fmt.Printf("fd %s %s\n", e.Name(), to)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Sig") {
			fmt.Print("status ", line)
		}
	}
	dir, err := os.Getwd()
	check(err)
	group, err := unix.Getpgid(0)
	check(err)
	size := 0
	for _, e := range os.Environ() {
		size += len(e)
	}
	fmt.Printf("dir %s\nleader %v\nargs %d %d\nenv %d\n", dir, group == os.Getpid(), len(os.Args), len(strings.Join(os.Args, "")), size)
}

// levelOfEnv is the level that SUPERVISE_LEVEL names, or nil.
func levelOfEnv() *supervise.Containment {
	text := os.Getenv("SUPERVISE_LEVEL")
	if text == "" {
		return nil
	}
	level, err := supervise.ParseLevel(text)
	check(err)
	c, err := supervise.Contain(context.Background(), level, fmt.Sprintf("test%d", os.Getpid()), nil)
	check(err)
	return c
}

// run is a small `elect run`: a command with the terminal.
func run(args []string) {
	check(supervise.AdoptOrphans())
	env := []string{}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SUPERVISE_PART=") {
			env = append(env, kv)
		}
	}
	f, err := supervise.Start(context.Background(), supervise.Command{
		Path: args[0], Args: args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: os.Stdin,
		Containment: levelOfEnv(),
	})
	check(err)
	os.Exit(f.Wait().ExitCode())
}

// strike kills a family that it has itself, without the lists of children.
func strike([]string) {
	_, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 100 & setsid sh -c 'sleep 100 & sleep 100 & sleep 100' & sleep 100"},
		&syscall.ProcAttr{Env: os.Environ()})
	check(err)
	for len(supervise.Descendants(os.Getpid(), false)) < 6 {
		time.Sleep(time.Millisecond)
	}
	check(supervise.Strike(true))
	if left := supervise.Descendants(os.Getpid(), false); len(left) > 0 {
		check(fmt.Errorf("left alive: %v", left))
	}
}

// alive reports whether a process is there and not a zombie.
func alive(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && !s.Dead()
}

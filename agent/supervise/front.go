//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// launch is what KeeperMain found out about the start of this process.
type launch struct {
	guard   *os.File // the socket to the keeper that guards this process, or nil
	twice   bool     // another Guardian uses it already
	witness bool     // KeeperMain has one
}

// launched reads what a guarding keeper has left for this process.
func launched() *launch {
	text, ok := os.LookupEnv(keeper.GuardEnv)
	if !ok {
		return &launch{}
	}
	os.Unsetenv(keeper.GuardEnv)
	pid, number, _ := strings.Cut(text, ":")
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 || pid != strconv.Itoa(os.Getppid()) || !keeper.IsSocket(fd) {
		return &launch{} // inherited from another process
	}
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true)
	return &launch{guard: os.NewFile(uintptr(fd), "guardian")}
}

// Guard puts the program under a keeper of its own, as elect run does with its command. Call it right after
// KeeperMain, before the program opens or starts anything. This process starts the keeper, which runs the program
// again, with the same arguments, environment and files. In that process Guard returns the Guardian. In this process,
// the front, Guard does not return: the front stays visible to others, passes signals and the terminal on, and exits,
// or dies by a signal, as the program did.
//
// Whichever of the three is killed, nothing of the program is left, including children that called setsid or forked
// twice. While the program leads, with the Guardian as its elect.Config.Guardian, it is dead before the lease ends,
// even if it is frozen. When the program and all that it started are dead, the keeper's witness speaks. The coverage
// on each system is that of a Command.
//
// The front passes SIGTERM and SIGINT on, and the program is killed after the grace. It also passes on SIGHUP,
// SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH. A program that ends leaves no children behind: even those that it started
// to outlive it are killed. To a service manager the front is the main process: with systemd, the program may notify
// it only with NotifyAccess=all, and KillMode=mixed asks it to end once and not three times.
//
// Guard works within a Command and below another guarded program. A second call in one process is an error, and so is
// a main without KeeperMain. On systems without keepers it returns ErrUnsupported. After an error nothing has been
// started, and the program may go on without a guardian.
func Guard(cfg GuardConfig) (*Guardian, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	how := keeperReady.Load()
	if how == nil {
		return nil, errNotReady
	}
	if how.guard != nil || how.twice {
		return newGuardian(cfg, how)
	}
	c := Command{
		Path: ownPath(), Args: os.Args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: os.Stdin, Grace: cfg.Grace, Logger: cfg.Logger, guard: true,
	}
	if c.Path == "" {
		return nil, errors.New("supervise: the path of this program cannot be found out: is /proc mounted?")
	}
	if err := AdoptOrphans(); err != nil {
		return nil, err
	}
	f := &front{grace: c.grace(), signals: make(chan os.Signal, 16)}
	f.listen()
	var err error
	if f.family, err = Start(context.Background(), c); err != nil {
		signal.Stop(f.signals)
		return nil, fmt.Errorf("supervise: the guarded program cannot be started: %w", err)
	}
	f.passOn()
	exit := f.family.Wait()
	if exit.Reason != Exited {
		c.logger().Warn("the guarded program was ended", "how", exit)
	}
	leave(exit)
	panic("not reached")
}

// front is the process that the user started, while the program runs.
type front struct {
	family  *Family
	grace   time.Duration
	signals chan os.Signal
}

// listen begins to receive signals. A signal that was ignored from the start stays ignored.
func (f *front) listen() {
	for _, sig := range []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(f.signals, sig)
		}
	}
}

// passOn passes signals on until the family is dead.
func (f *front) passOn() {
	asked := false
	for {
		select {
		case came := <-f.signals:
			sig, _ := came.(syscall.Signal)
			_ = f.family.Signal(sig) // it may have ended just now
			if sig != syscall.SIGTERM && sig != syscall.SIGINT {
				continue
			}
			_ = f.family.Signal(syscall.SIGCONT) // a stopped process does not receive the other signal
			if !asked {
				asked = true
				defer time.AfterFunc(f.grace, f.family.Kill).Stop()
			}
		case <-f.family.Done():
			return
		}
	}
}

// ownPath is this program's file, by its own name if that still leads to it.
func ownPath() string {
	self, err := selfPath()
	if err != nil {
		return ""
	}
	mine, err := os.Stat(self)
	if err != nil {
		return ""
	}
	if name, err := os.Executable(); err == nil {
		if there, err := os.Stat(name); err == nil && os.SameFile(there, mine) {
			return name
		}
	}
	return self
}

// leave ends this process as the program has ended.
func leave(e Exit) {
	if e.Signal == 0 {
		os.Exit(e.Code)
	}
	// The program's core dump is enough.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	signal.Reset(e.Signal)
	if defaultAction(e.Signal) {
		_ = unix.Kill(os.Getpid(), e.Signal)
		time.Sleep(time.Second) // the signal is on its way
	}
	os.Exit(e.ExitCode())
}

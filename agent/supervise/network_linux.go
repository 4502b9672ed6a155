package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/clock"
)

// GuardNetwork has the kernel drop what the families send over IP after their leases have ended, whatever they and
// their supervisors do then. The end is that of Command.Lease, or without one the death of the family, or of keeper
// and parent. It is called before the first Start. An error is an [ErrContain] that says what is missing: then nothing
// is guarded.
//
// What belongs to the family is what it opened itself: a command is refused that would inherit a socket which may
// leave the machine.
func (c *Containment) GuardNetwork() error {
	if err := c.guardable(); err != nil {
		return fmt.Errorf("%w: %w", ErrContain, err)
	}
	c.network = true
	err := c.try()
	if err == nil {
		return nil
	}
	c.network = false
	return fmt.Errorf("%w: %w", ErrContain, err)
}

// guardable returns why the network cannot be guarded, as far as that is known without trying.
func (c *Containment) guardable() error {
	if c.Level() != Cgroup {
		why := c.Missing()
		if why == nil {
			why = errors.New("the level is sweep; want cgroup or auto")
		}
		return fmt.Errorf("the network guard needs the level cgroup: %w", why)
	}
	if clock.Bends() {
		return errors.New("the clock of this process is bent by a test, and the kernel's is not; want none")
	}
	offsets, _ := os.ReadFile("/proc/self/timens_offsets") // older kernels have none
	for line := range strings.Lines(string(offsets)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "boottime" && (f[1] != "0" || f[2] != "0") {
			return errors.New("this process is in a time namespace whose clock differs from the kernel's; want none")
		}
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd := 0
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil || !inherited(fd) {
			continue
		}
		if err := leaves(fd, fmt.Sprintf("descriptor %d", fd)); err != nil {
			return err
		}
	}
	return nil
}

// leaves returns an error if fd is a socket that may leave the machine. To the kernel such a socket belongs to the
// cgroup in which it was opened, whoever uses it.
func leaves(fd int, name string) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain == unix.AF_UNIX || domain == unix.AF_NETLINK {
		return nil
	}
	return fmt.Errorf("%s, which the command would inherit, is a socket that was opened outside of the network guard; want none", name)
}

// pierced reports whether a process in a cgroup whose guard is closed can send. A kernel before 5.15 forgets the
// cgroups of sockets if net_cls or net_prio of version 1 is in use.
func pierced(g *keeper.Cgroup) error {
	if keeperReady.Load() == nil {
		return errNotReady
	}
	exe, err := selfPath()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Env: os.Environ(), Sys: &syscall.SysProcAttr{}}
	g.Enter(attr.Sys)
	pid, err := syscall.ForkExec(exe, keeper.ProbeArguments(), attr)
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err == nil && status.ExitStatus() == int(unix.EPERM) {
		return nil
	}
	return fmt.Errorf("a packet passed the closed network guard, or none can be sent at all (%v, %v); want Linux 5.15 or later, and a loopback device", err, status)
}

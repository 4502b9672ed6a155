package supervise

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/clock"
)

// GuardNetwork makes the kernel drop what the families send over IP after their leases have ended, whatever they and
// their supervisors do then. The end is that of the mandate's lease, or without one the death of the family, or of
// keeper and parent. It is called before the first Start. An error about what is missing matches [ErrContain]; after
// any error nothing is guarded.
//
// Only sockets that the family opens are guarded. So a socket that the command would inherit is refused, unless it is a
// unix or netlink socket.
//
// Packets to the addresses in allow, 64 at most, pass until the family is dead, or keeper and parent are. A port is one
// of TCP or UDP; port 0 is any port and any protocol.
func (c *Containment) GuardNetwork(allow ...netip.AddrPort) error {
	for _, to := range allow {
		if !to.Addr().IsValid() || to.Addr().Is4In6() || to.Addr().Zone() != "" {
			return fmt.Errorf("supervise: %v cannot be allowed by the network guard; want an IPv4 or IPv6 address without a zone", to)
		}
	}
	if len(allow) > maxAllow {
		return fmt.Errorf("supervise: the network guard cannot allow %d addresses; want at most %d", len(allow), maxAllow)
	}
	if err := c.guardable(); err != nil {
		return fmt.Errorf("%w: %w", ErrContain, err)
	}
	c.network, c.allow = true, nil // what is tried must not be allowed
	err := c.try()
	if err == nil && len(allow) > 0 {
		for _, to := range allow {
			c.allow = append(c.allow, keeper.Destination{Addr: to.Addr().AsSlice(), Port: to.Port()})
		}
		var g *keeper.Cgroup
		if g, err = c.make(context.Background()); err == nil {
			g.Remove()
		}
	}
	if err == nil {
		return nil
	}
	c.network, c.allow = false, nil
	return fmt.Errorf("%w: %w", ErrContain, err)
}

// maxAllow bounds the size of the program.
const maxAllow = 64

// guardable returns why the network cannot be guarded, as far as that is known without trying.
func (c *Containment) guardable() error {
	if err := c.needsCgroup("the network guard"); err != nil {
		return err
	}
	if c.user {
		return errors.New("at the level pid the keeper of this user is in a user namespace, where the network guard cannot be made; want CAP_SYS_ADMIN, too, or the level cgroup")
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
// cgroup in which it was opened, whichever process uses it.
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
	attr := &syscall.SysProcAttr{}
	g.Enter(attr)
	status, err := probe(keeper.OfParent, attr)
	if err == nil && status.ExitStatus() == int(unix.EPERM) {
		return nil
	}
	return fmt.Errorf("a packet passed the closed network guard, or none can be sent at all (%v, %v); want Linux 5.15 or later, and a loopback device", err, status)
}

// probe runs a process that tries one thing; its exit code is the error's number.
func probe(space keeper.Space, attr *syscall.SysProcAttr) (status syscall.WaitStatus, err error) {
	if keeperReady.Load() == nil {
		return 0, errNotReady
	}
	exe, err := selfPath()
	if err != nil {
		return 0, err
	}
	keepers.Lock() // it is nobody's orphan
	defer keepers.Unlock()
	pid, err := syscall.ForkExec(exe, keeper.ProbeArguments(space), &syscall.ProcAttr{Env: os.Environ(), Sys: attr})
	if err != nil {
		return 0, err
	}
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status, err
		}
	}
}

//go:build !unix || aix || netbsd || solaris

package supervise

import (
	"context"
	"log/slog"
	"net/netip"
	"os/exec"
	"syscall"
	"time"

	"github.com/electd/elect/driver"
)

// KeeperMain returns at once: there are no keepers on this system.
func KeeperMain(Witness) {}

// AdoptOrphans returns ErrUnsupported.
func AdoptOrphans() error { return ErrUnsupported }

// Family is never made on this system.
type Family struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Command) (*Family, error) { return nil, ErrUnsupported }

// PID returns 0.
func (f *Family) PID() int { return 0 }

// Signal returns ErrUnsupported.
func (f *Family) Signal(syscall.Signal) error { return ErrUnsupported }

// Stop does nothing.
func (f *Family) Stop(context.Context) Exit { return Exit{} }

// Kill does nothing.
func (f *Family) Kill() {}

// InTime reports false.
func (f *Family) InTime() bool { return false }

// Overrun returns 0.
func (f *Family) Overrun() time.Duration { return 0 }

// Gone reports true.
func (f *Family) Gone() bool { return true }

// Exited returns nil.
func (f *Family) Exited() <-chan struct{} { return nil }

// Renew does nothing.
func (f *Family) Renew() {}

// Done returns nil.
func (f *Family) Done() <-chan struct{} { return nil }

// Wait does nothing.
func (f *Family) Wait() Exit { return Exit{} }

// Spare is never made on this system.
type Spare struct{}

// Prepare returns ErrUnsupported.
func Prepare(*Containment, *slog.Logger) (*Spare, error) { return nil, ErrUnsupported }

// Close does nothing.
func (s *Spare) Close() error { return nil }

// Guardian is never made on this system.
type Guardian struct{}

// Guard returns ErrUnsupported.
func Guard(GuardConfig) (*Guardian, error) { return nil, ErrUnsupported }

// Lead returns ErrUnsupported.
func (g *Guardian) Lead(driver.Guarded) (done func(), err error) { return nil, ErrUnsupported }

// InTime reports false.
func (g *Guardian) InTime() bool { return false }

// Contain returns ErrUnsupported.
func Contain(context.Context, Level, string, *slog.Logger) (*Containment, error) {
	return nil, ErrUnsupported
}

// GuardNetwork returns ErrUnsupported.
func (c *Containment) GuardNetwork(...netip.AddrPort) error { return ErrUnsupported }

// Limit returns ErrUnsupported.
func (c *Containment) Limit(string, string) error { return ErrUnsupported }

// RunHook runs a command that is no family, as [exec.Cmd.Run] does.
func (c *Containment) RunHook(cmd *exec.Cmd, _ time.Duration) error { return cmd.Run() }

// TermGuard is never made on this system.
type TermGuard struct{}

// NewTermGuard returns ErrUnsupported.
func NewTermGuard(*Containment) (*TermGuard, error) { return nil, ErrUnsupported }

// Lead returns ErrUnsupported.
func (g *TermGuard) Lead(driver.Guarded) (done func(), err error) { return nil, ErrUnsupported }

// InTime reports false.
func (g *TermGuard) InTime() bool { return false }

// Renew does nothing.
func (g *TermGuard) Renew() {}

// Start returns ErrUnsupported.
func (g *TermGuard) Start(*exec.Cmd) error { return ErrUnsupported }

// Withdraw is not supported here.
func (f *Family) Withdraw() {}

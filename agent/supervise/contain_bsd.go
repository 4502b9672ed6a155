//go:build darwin || dragonfly || freebsd || openbsd

package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"syscall"
	"time"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Contain returns Sweep for Sweep and for Auto: the system has neither cgroups nor pid namespaces.
func Contain(_ context.Context, want Level, _ string, _ *slog.Logger) (*Containment, error) {
	missing := fmt.Errorf("%w: this system has no cgroups and no pid namespaces; want Linux, or the level sweep", ErrContain)
	if want > Sweep {
		return nil, missing
	}
	return &Containment{level: Sweep, missing: missing}, nil
}

func (c *Containment) bounds(context.Context) (keeper.Bounds, string, error) {
	return keeper.Unbound{}, "", nil
}

func (c *Containment) namespace(*syscall.SysProcAttr) keeper.Space { return keeper.OfParent }

// GuardNetwork returns ErrContain.
func (c *Containment) GuardNetwork(...netip.AddrPort) error {
	return fmt.Errorf("%w: this system has no network guard; want Linux", ErrContain)
}

// Limit returns ErrContain.
func (c *Containment) Limit(string, string) error {
	return fmt.Errorf("%w: this system limits no families; want Linux", ErrContain)
}

// RunHook runs a command that is no family, as [exec.Cmd.Run] does.
func (c *Containment) RunHook(cmd *exec.Cmd, _ time.Duration) error { return cmd.Run() }

func (c *Containment) killAll(context.Context, keeper.Bounds, string) error { return nil }

func leaves(int, string) error { return nil }

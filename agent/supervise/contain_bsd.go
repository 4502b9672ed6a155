//go:build darwin || dragonfly || freebsd || openbsd

package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Contain returns Sweep for Sweep and for Auto: the system has no cgroups.
func Contain(_ context.Context, want Level, _ string, _ *slog.Logger) (*Containment, error) {
	missing := fmt.Errorf("%w: this system has no cgroups; want Linux, or the level sweep", ErrContain)
	if want == Cgroup {
		return nil, missing
	}
	return &Containment{level: Sweep, missing: missing}, nil
}

func (c *Containment) bounds(context.Context) (keeper.Bounds, string, error) {
	return keeper.Unbound{}, "", nil
}

// GuardNetwork returns ErrContain.
func (c *Containment) GuardNetwork(...netip.AddrPort) error {
	return fmt.Errorf("%w: this system has no network guard; want Linux", ErrContain)
}

func (c *Containment) killAll(context.Context, keeper.Bounds, string) error { return nil }

func leaves(int, string) error { return nil }

//go:build !linux

package failover

import (
	"context"
	"errors"
	"runtime"
)

func system() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Load is the load average of the machine; this system does not tell.
func Load() *[3]float64 { return nil }

// idle is measured on Linux only.
func (b *bench) idle(context.Context) (*Idle, error) {
	return nil, errors.New("what idle candidates take is measured on Linux only; want --idle 0 here")
}

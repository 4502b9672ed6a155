//go:build !linux

package failover

import (
	"context"
	"errors"
)

// idle is measured on Linux only.
func (b *bench) idle(context.Context) (*Idle, error) {
	return nil, errors.New("what idle candidates take is measured on Linux only; want --idle 0 here")
}

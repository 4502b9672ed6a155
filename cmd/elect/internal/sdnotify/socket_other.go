//go:build !linux

package sdnotify

import (
	"errors"
	"time"
)

// Supported reports whether a Socket and Send work on this system.
const Supported = false

// Socket cannot be made on this system.
type Socket struct{}

// Listen fails.
func Listen() (*Socket, error) { return nil, errors.ErrUnsupported }

// Send fails.
func Send(string, string) error { return errors.ErrUnsupported }

// Name is empty.
func (*Socket) Name() string { return "" }

// Close does nothing.
func (*Socket) Close() error { return nil }

// Next fails.
func (*Socket) Next(time.Time) (Message, error) { return Message{}, errors.ErrUnsupported }

//go:build !linux

package sdnotify

import (
	"errors"
	"time"
)

// Supported reports whether this system has such sockets.
const Supported = false

// ErrStranger is the error of Next for a message of a process that may not speak.
var ErrStranger = errors.New("a message from another user's process was dropped")

// Socket is not there.
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

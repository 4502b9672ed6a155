//go:build !windows

package link

import (
	"errors"
	"syscall"
)

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isRefused reports whether nothing listens at an address.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

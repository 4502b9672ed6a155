package link

import (
	"errors"
	"syscall"
)

func isReset(err error) bool {
	return errors.Is(err, syscall.WSAECONNRESET) || errors.Is(err, syscall.WSAECONNABORTED)
}

// isRefused reports whether nothing listens at an address.
func isRefused(err error) bool {
	const refused = syscall.Errno(10061) // WSAECONNREFUSED
	return errors.Is(err, refused)
}

//go:build !linux

package keeper

import "errors"

// ErrNoAddresses is the error of all that needs virtual addresses.
var ErrNoAddresses = errors.New("virtual addresses are not possible on this system; want Linux")

// CheckAddresses is for Linux.
func CheckAddresses([]string) error { return ErrNoAddresses }

// DropAddresses does nothing: there are none.
func DropAddresses([]string) error { return nil }

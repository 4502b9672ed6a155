//go:build darwin || dragonfly || freebsd || openbsd

package keeper

import "syscall"

func openBounds(string, int) (Bounds, error) { return Unbound{}, nil }

func probeNetwork() syscall.Errno { return syscall.ENOSYS }

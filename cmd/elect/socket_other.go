//go:build !linux && !darwin && !freebsd

package main

import "io"

// tryLock locks nothing: no command runs on this system.
func tryLock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

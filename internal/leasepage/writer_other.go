//go:build !linux

package leasepage

import "errors"

// Writer is an open page. On this system there is none.
type Writer struct{}

// Create returns an error.
func Create(State) (*Writer, error) { return nil, errors.ErrUnsupported }

// Tidy does nothing.
func Tidy() {}

// Open returns an error.
func Open(string) (*Writer, error) { return nil, errors.ErrUnsupported }

// Path does nothing.
func (*Writer) Path() string { return "" }

// Prove does nothing.
func (*Writer) Prove(int64) {}

// Close does nothing.
func (*Writer) Close() {}

// Remove does nothing.
func (*Writer) Remove() {}

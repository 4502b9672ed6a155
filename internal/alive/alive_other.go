//go:build !linux

// Package alive has the file by whose lock others know that a process is alive, or a keeper of it.
package alive

import (
	"errors"
	"os"
)

// Supported says whether the system has such files.
const Supported = false

// File fails.
func File(string) (*os.File, error) { return nil, errors.ErrUnsupported }

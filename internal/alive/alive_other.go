//go:build !linux

package alive

import (
	"errors"
	"os"
)

// Supported says whether the system has such files.
const Supported = false

// File fails.
func File(string) (*os.File, error) { return nil, errors.ErrUnsupported }

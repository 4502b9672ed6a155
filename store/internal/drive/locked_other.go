//go:build !linux

package drive

import (
	"errors"
	"os"
)

const witnesses = false

func lockedFile() (*os.File, error) { return nil, errors.ErrUnsupported }

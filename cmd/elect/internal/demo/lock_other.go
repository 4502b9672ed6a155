//go:build !unix

package demo

import (
	"errors"
	"os"
)

// lock is not supported: no keeper runs a command on this system either.
func lock(*os.File) error { return errors.ErrUnsupported }

func unlock(*os.File) {}

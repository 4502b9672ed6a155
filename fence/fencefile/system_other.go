//go:build !linux && !darwin && !freebsd

package fencefile

import (
	"errors"
	"os"
)

func flock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

func full(error) bool { return false }

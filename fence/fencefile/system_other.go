//go:build !linux && !darwin && !freebsd

package fencefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

func fileSystem(string) (warning string, err error) {
	return "", fmt.Errorf("fencefile: %w: want Linux, macOS or FreeBSD, this is %s", errors.ErrUnsupported, runtime.GOOS)
}

func flock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

func groupOf(fs.FileInfo) int { return -1 }

func ownerOf(fs.FileInfo) int { return -1 }

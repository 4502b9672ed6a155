//go:build !linux && !darwin && !freebsd

package fencefile

import (
	"errors"
	"io/fs"
	"os"
)

func flock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

func groupOf(fs.FileInfo) int { return -1 }

func ownerOf(fs.FileInfo) int { return -1 }

func full(error) bool { return false }

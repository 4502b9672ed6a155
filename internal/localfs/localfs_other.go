//go:build !linux && !darwin && !freebsd

package localfs

import (
	"errors"
	"fmt"
	"runtime"
)

// Of returns an error: this system is not supported.
func Of(string) (System, error) {
	return System{}, fmt.Errorf("%w: want Linux, macOS or FreeBSD, this is %s", errors.ErrUnsupported, runtime.GOOS)
}

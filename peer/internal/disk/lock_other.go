//go:build !linux && !darwin && !freebsd

package disk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lock refuses: without a lock that dies with its holder, two processes could
// vote from one directory.
func lock(path, _ string) ([]*os.File, error) {
	return nil, fmt.Errorf("%w: %s: a data directory needs flock, so Linux, macOS or FreeBSD; this is %s", errors.ErrUnsupported, path, runtime.GOOS)
}
